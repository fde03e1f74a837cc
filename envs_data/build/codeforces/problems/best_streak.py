"""Test inputs and validator of `best_streak`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _days(rng: Random, n: int, low: int, high: int) -> str:
    return lines(n, [rng.randint(low, high) for _ in range(n)])


def small(rng: Random) -> str:
    """Generate up to seven days."""
    return _days(rng, rng.randint(1, 7), -6, 5)


def tests(rng: Random) -> Iterator[str]:
    """Yield only losses, only profits, zeros and random days."""
    yield lines(1, [-9999])
    yield lines(1, [0])
    yield lines(1000, [9999] * 1000)
    yield lines(4, [-1, 0, -1, -5])
    for n, low, high in ((10, -9, 9), (100, -50, 40), (1000, -9999, -1), (3000, -99, 99), (10000, -9999, 9999)):
        yield _days(rng, n, low, high)
    yield _days(rng, 10000, -99, 90)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 10**4), -9999, 9999)
