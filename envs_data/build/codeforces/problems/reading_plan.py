"""Test inputs and validator of `reading_plan`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate small numbers."""
    return lines([rng.randint(1, 12), rng.randint(1, 6)])


def tests(rng: Random) -> Iterator[str]:
    """Yield exact quotients, remainders of one, and numbers beyond floating point."""
    yield lines([1, 1])
    yield lines([1, 10**18])
    yield lines([10**18, 1])
    yield lines([10**18, 10**18])
    yield lines([10**18 - 1, 10**9])
    yield lines([999999999999999999, 2])
    yield lines([999999999999999999, 1])
    for top in (100, 10**6, 10**12, 10**18):
        k = rng.randint(1, 1000)
        yield lines([rng.randint(1, 10**15) * k, k])
        yield lines([rng.randint(1, top), k])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(2, 1, 10**18)
