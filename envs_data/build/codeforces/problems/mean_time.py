"""Test inputs and validator of `mean_time`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate up to five times."""
    n = rng.randint(1, 5)
    return lines(n, [rng.randint(1, 20) for _ in range(n)])


def tests(rng: Random) -> Iterator[str]:
    """Yield whole and fractional means, small and large."""
    yield lines(1, [1])
    yield lines(1000, [10**6] * 1000)
    yield lines(1000, [1] * 999 + [2])
    yield lines(7, [1, 1, 1, 1, 1, 1, 2])
    for n, top in ((3, 10), (10, 100), (97, 10**6), (500, 10**4), (999, 10**6), (1000, 10**6)):
        yield lines(n, [rng.randint(1, top) for _ in range(n)])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 1000), 1, 10**6)
