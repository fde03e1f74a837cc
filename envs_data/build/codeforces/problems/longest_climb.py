"""Test inputs and validator of `longest_climb`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _trail(rng: Random, n: int, top: int) -> str:
    return lines(n, [rng.randint(1, top) for _ in range(n)])


def small(rng: Random) -> str:
    """Generate up to eight huts."""
    return _trail(rng, rng.randint(1, 8), 7)


def tests(rng: Random) -> Iterator[str]:
    """Yield rising, falling, flat and random trails."""
    yield lines(1, [1])
    yield lines(2000, list(range(1, 2001)))
    yield lines(500, list(range(500, 0, -1)))
    yield lines(500, [9999] * 500)
    for n, top in ((10, 10), (100, 20), (1000, 9999), (10000, 9999)):
        yield _trail(rng, n, top)
    yield lines(10000, [max(1, min(9999, i + rng.randint(-800, 800))) for i in range(10000)])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 10**4), 1, 9999)
