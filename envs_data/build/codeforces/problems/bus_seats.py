"""Test inputs and validator of `bus_seats`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate small numbers."""
    b, s = rng.randint(1, 4), rng.randint(1, 4)
    return lines([b, s, rng.randint(1, b * s + 3)])


def tests(rng: Random) -> Iterator[str]:
    """Yield numbers of people close to the capacity."""
    yield lines([1, 1, 1])
    yield lines([1, 1, 2])
    yield lines([100, 100, 10000])
    yield lines([100, 99, 10000])
    for change in (-1, 0, 1, 0, 1, 1, 7, 50):
        b, s = rng.randint(2, 90), rng.randint(2, 90)
        yield lines([b, s, b * s + change])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.row((1, 100), (1, 100), (1, 10000))
