"""Test inputs and validator of `market_till`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate up to five small payments."""
    n = rng.randint(1, 5)
    return lines(n, [rng.randint(-9, 9) for _ in range(n)])


def tests(rng: Random) -> Iterator[str]:
    """Yield extreme sums and random ones."""
    yield lines(1, [0])
    yield lines(2, [10**9, -(10**9)])
    yield lines(100, [10**9] * 100)
    yield lines(100, [-(10**9)] * 100)
    for n in (3, 10, 50, 99, 100, 100):
        yield lines(n, [rng.randint(-(10**9), 10**9) for _ in range(n)])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 100), -(10**9), 10**9)
