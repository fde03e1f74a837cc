"""Test inputs and validator of `square_field`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate small sides."""
    return lines([rng.randint(1, 12), rng.randint(1, 12)])


def tests(rng: Random) -> Iterator[str]:
    """Yield squares, thin fields and large ones."""
    yield lines([1, 1])
    yield lines([1, 10**9])
    yield lines([10**9, 10**9])
    yield lines([10**9, 10**9 - 1])
    yield lines([2, 3])
    yield lines([17, 17])
    for top in (10, 100, 10**4, 10**6, 10**9):
        yield lines([rng.randint(1, top), rng.randint(1, top)])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(2, 1, 10**9)
