"""Test inputs and validator of `cash_desk`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate a small amount."""
    return lines(rng.randint(1, 300))


def tests(rng: Random) -> Iterator[str]:
    """Yield every remainder that matters, and large amounts."""
    for n in (1, 4, 5, 9, 19, 39, 99, 100, 10**15, 10**15 - 1):
        yield lines(n)
    for top in (10**6, 10**9, 10**15):
        yield lines(rng.randint(1, top))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.integer(1, 10**15)
