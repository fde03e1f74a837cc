"""Test inputs and validator of `two_sacks`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate few balls."""
    return lines(rng.randint(1, 16))


def tests(rng: Random) -> Iterator[str]:
    """Yield the first numbers, every remainder by four, and large ones."""
    for n in (1, 2, 3, 4, 8, 11, 4997, 4998, 4999, 5000):
        yield lines(n)
    for top in (50, 500, 2000):
        yield lines(rng.randint(20, top))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.integer(1, 5000)
