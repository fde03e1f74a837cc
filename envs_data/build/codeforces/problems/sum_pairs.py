"""Test inputs and validator of `sum_pairs`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _stones(rng: Random, n: int, top: int, s: int) -> str:
    return lines([n, s], [rng.randint(1, top) for _ in range(n)])


def small(rng: Random) -> str:
    """Generate up to six light stones."""
    return _stones(rng, rng.randint(2, 6), 5, rng.randint(2, 10))


def tests(rng: Random) -> Iterator[str]:
    """Yield equal stones, no pairs, and many stones."""
    yield lines([2, 2], [1, 1])
    yield lines([2, 3], [1, 1])
    yield lines([2000, 14], [7] * 2000)
    yield lines([4, 20000], [9999, 9999, 9999, 1])
    yield _stones(rng, 100, 20, 21)
    yield _stones(rng, 2000, 9999, 10000)
    yield _stones(rng, 10000, 99, 100)
    yield _stones(rng, 10000, 9999, 10007)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, _ = read.row((2, 10**4), (2, 20000))
    read.ints(n, 1, 9999)
