"""Test inputs and validator of `shelf_gap`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate up to six heights."""
    n = rng.randint(1, 6)
    return lines(n, [rng.randint(1, 9) for _ in range(n)])


def tests(rng: Random) -> Iterator[str]:
    """Yield equal, sorted and random heights."""
    yield lines(1, [1000000])
    yield lines(2, [1, 1000000])
    yield lines(5, [7] * 5)
    yield lines(6, [9, 8, 7, 6, 5, 4])
    for n in (3, 10, 100, 500, 1000, 1000):
        yield lines(n, [rng.randint(1, 10**6) for _ in range(n)])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 1000), 1, 10**6)
