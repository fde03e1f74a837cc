"""Test inputs and validator of `two_ribbons`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate a short ribbon."""
    return lines(rng.randint(1, 9))


def tests(rng: Random) -> Iterator[str]:
    """Yield the shortest, the longest, odd and even ribbons."""
    for n in (1, 3, 4, 5, 6, 10**9, 10**9 - 1):
        yield lines(n)
    for top in (20, 1000, 10**6, 10**9):
        yield lines(2 * rng.randint(4, top // 2))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.integer(1, 10**9)
