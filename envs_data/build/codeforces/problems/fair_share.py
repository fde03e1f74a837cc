"""Test inputs and validator of `fair_share`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate two small numbers."""
    return lines([rng.randint(0, 9), rng.randint(0, 9)])


def tests(rng: Random) -> Iterator[str]:
    """Yield each pair of parities at small and large size."""
    yield lines([0, 0])
    yield lines([0, 1])
    yield lines([10**18, 10**18])
    yield lines([10**18, 10**18 - 1])
    for top in (10, 1000, 10**9, 10**18, 10**18, 10**17):
        yield lines([rng.randint(0, top), rng.randint(0, top)])
    yield lines([10**17 + 1, 10**17 + 3])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(2, 0, 10**18)
