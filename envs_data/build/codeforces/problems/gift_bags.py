"""Test inputs and validator of `gift_bags`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate a small number."""
    return lines(rng.randint(1, 60))


def tests(rng: Random) -> Iterator[str]:
    """Yield squares, their neighbours, and large numbers."""
    for n in (2, 3, 4, 8, 9, 99, 10**4, 10**4 - 1, 10**10, 10**10 - 1, 99999 * 99999):
        yield lines(n)
    for top in (1000, 10**6, 10**10):
        yield lines(rng.randint(1, top))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.integer(1, 10**10)
