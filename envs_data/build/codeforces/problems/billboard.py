"""Test inputs and validator of `billboard`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _wall(rng: Random, n: int, low: int, high: int) -> str:
    return lines(n, [rng.randint(low, high) for _ in range(n)])


def small(rng: Random) -> str:
    """Generate up to eight strips."""
    return _wall(rng, rng.randint(1, 8), 1, 7)


def tests(rng: Random) -> Iterator[str]:
    """Yield stairs, a valley, a flat wall and random ones."""
    yield lines(1, [9999])
    yield lines(500, list(range(1, 501)))
    yield lines(500, list(range(500, 0, -1)))
    yield lines(1001, [abs(500 - i) + 1 for i in range(1001)])
    yield lines(1000, [9999] * 1000)
    for n, low, high in ((10, 1, 9), (200, 5, 30), (2000, 1, 9999), (10000, 9000, 9999), (10000, 1, 9999)):
        yield _wall(rng, n, low, high)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 10**4), 1, 9999)
