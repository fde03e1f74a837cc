"""Test inputs and validator of `swap_shelf`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _shelf(rng: Random, n: int, top: int) -> str:
    return lines(n, [rng.randint(1, top) for _ in range(n)])


def small(rng: Random) -> str:
    """Generate up to six books."""
    return _shelf(rng, rng.randint(1, 6), 6)


def tests(rng: Random) -> Iterator[str]:
    """Yield sorted, reversed, rotated, equal and random shelves."""
    yield lines(1, [1])
    yield lines(2, [2, 1])
    yield lines(1000, list(range(1000, 0, -1)))
    yield lines(1000, [*range(2, 1001), 1])
    yield lines(100, [7] * 100)
    for n, top in ((10, 5), (50, 10**6), (300, 20), (999, 10**6), (1000, 2)):
        yield _shelf(rng, n, top)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 1000), 1, 10**6)
