"""Test inputs and validator of `pond_map`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _map(rng: Random, h: int, w: int, share: float) -> str:
    return lines([h, w], *("".join("~" if rng.random() < share else "." for _ in range(w)) for _ in range(h)))


def small(rng: Random) -> str:
    """Generate a map of at most four by four."""
    return _map(rng, rng.randint(1, 4), rng.randint(1, 4), 0.5)


def tests(rng: Random) -> Iterator[str]:
    """Yield dry, flooded, chequered and random maps."""
    yield lines([1, 1], "~")
    yield lines([1, 1], ".")
    yield lines([6, 6], *("~.~.~.", ".~.~.~") * 3)
    yield _map(rng, 10, 10, 0.45)
    yield _map(rng, 1, 120, 0.7)
    yield _map(rng, 120, 1, 0.7)
    yield _map(rng, 40, 60, 0.3)
    yield _map(rng, 120, 120, 0.55)
    yield lines([120, 120], *["~" * 120] * 120)
    yield lines([119, 120], *("~" * 120 if i % 2 == 0 else "." * 119 + "~" for i in range(119)))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    h, w = read.ints(2, 1, 120)
    read.grid(h, w, "~.")
