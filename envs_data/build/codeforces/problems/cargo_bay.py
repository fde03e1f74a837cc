"""Test inputs and validator of `cargo_bay`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _crates(rng: Random, n: int, c: int, heaviest: int, dearest: int) -> str:
    return lines([n, c], *([rng.randint(1, heaviest), rng.randint(1, dearest)] for _ in range(n)))


def small(rng: Random) -> str:
    """Generate up to six crates."""
    return _crates(rng, rng.randint(1, 6), rng.randint(1, 15), 8, 9)


def tests(rng: Random) -> Iterator[str]:
    """Yield one crate, crates that all fit, and random ones."""
    yield lines([1, 5000], [5000, 10**9])
    yield lines([2, 1], [1, 5], [1, 6])
    yield lines([60, 5000], *([80, 10**9] for _ in range(60)))
    for n, c, heaviest, dearest in ((8, 30, 12, 20), (15, 100, 40, 99), (60, 5000, 60, 10**9)):
        yield _crates(rng, n, c, heaviest, dearest)
    weights = [rng.randint(50, 300) for _ in range(60)]
    yield lines([60, 5000], *([w, w * 1000 + rng.randint(0, 400)] for w in weights))
    yield _crates(rng, 60, 4999, 1000, 10**9)
    yield _crates(rng, 60, 5000, 5000, 10**9)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, _ = read.row((1, 60), (1, 5000))
    for _ in range(n):
        read.row((1, 5000), (1, 10**9))
