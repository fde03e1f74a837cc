"""Test inputs and validator of `two_bells`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate numbers up to 30."""
    return lines([rng.randint(1, 30), rng.randint(1, 8), rng.randint(1, 8)])


def tests(rng: Random) -> Iterator[str]:
    """Yield equal, coprime and related periods."""
    yield lines([1, 1, 1])
    yield lines([1, 2, 2])
    yield lines([10**12, 1, 10**6])
    yield lines([10**12, 10**6, 10**6])
    yield lines([10**12, 10**6, 10**6 - 1])
    yield lines([999999999989, 2, 3])
    for top in (50, 10**4, 10**9, 10**12, 10**12):
        common = rng.randint(1, 20)
        yield lines([rng.randint(1, top), common * rng.randint(1, 9), common * rng.randint(1, 9)])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.row((1, 10**12), (1, 10**6), (1, 10**6))
