"""Test inputs and validator of `short_name`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _name(rng: Random, n: int, longest: int) -> str:
    words = ["".join(rng.choice(LETTERS) for _ in range(rng.randint(1, longest))) for _ in range(n)]
    return lines(n, words)


def small(rng: Random) -> str:
    """Generate up to four short words."""
    return _name(rng, rng.randint(1, 4), 3)


def tests(rng: Random) -> Iterator[str]:
    """Yield single letters, long words and many words."""
    yield lines(1, "Z")
    yield lines(2, "aB Cd")
    yield lines(100, ["a"] * 100)
    yield lines(3, ["q" * 20, "W" * 20, "e" * 20])
    for n in (5, 10, 26, 50, 99, 100):
        yield _name(rng, n, 20)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.words(read.integer(1, 100), "[a-zA-Z]{1,20}")
