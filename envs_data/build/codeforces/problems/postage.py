"""Test inputs and validator of `postage`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate up to three small stamps."""
    n = rng.randint(1, 3)
    return lines([n, rng.randint(1, 15)], rng.sample(range(1, 9), n))


def tests(rng: Random) -> Iterator[str]:
    """Yield one stamp, impossible letters and greedy traps."""
    yield lines([1, 1], [2])
    yield lines([1, 10000], [1])
    yield lines([1, 10000], [7])
    yield lines([3, 6300], [1, 2100, 2500])
    yield lines([20, 9999], [2 * i for i in range(1, 21)])
    yield lines([3, 60], [7, 11, 13])
    for n, s, top in ((3, 100, 40), (5, 1000, 300), (20, 10000, 50), (20, 10000, 10000), (6, 9973, 500)):
        yield lines([n, s], rng.sample(range(2, top + 1), n))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, _ = read.row((1, 20), (1, 10000))
    read.distinct(read.ints(n, 1, 10000))
