"""Test inputs and validator of `last_stone`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate a small heap."""
    return lines([rng.randint(1, 20), rng.randint(1, 5)])


def tests(rng: Random) -> Iterator[str]:
    """Yield multiples of k and of k + 1, and their neighbours."""
    yield lines([1, 1])
    yield lines([2, 1])
    yield lines([10**15, 1])
    yield lines([10**15 - 1, 1])
    yield lines([10**15, 10**15])
    yield lines([10**15, 10**15 - 1])
    for top in (10, 1000, 10**7):
        k = rng.randint(2, top)
        heap = (k + 1) * rng.randint(1, 10**15 // (k + 1))
        yield lines([heap, k])
        yield lines([heap // 10**6 // (k + 1) * (k + 1) + k + 1, k])
        yield lines([heap - rng.randint(1, k), k])
        yield lines([k * rng.randint(1, 1000), k])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(2, 1, 10**15)
