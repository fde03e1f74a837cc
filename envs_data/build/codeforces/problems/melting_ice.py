"""Test inputs and validator of `melting_ice`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate small numbers."""
    return lines([rng.randint(0, 6), rng.randint(0, 40)])


def tests(rng: Random) -> Iterator[str]:
    """Yield whole solutions, zeros, tiny and large ones."""
    yield lines([0, 0])
    yield lines([10**6, 0])
    yield lines([10**6, 1])
    yield lines([0, 10**12])
    yield lines([10**6, 10**12])
    yield lines([1, 1010])
    yield lines([0, 1])
    for p, q in ((10, 100), (1000, 10**6), (10**6, 10**6), (10**6, 10**12), (50, 10**11)):
        yield lines([rng.randint(0, p), rng.randint(0, q)])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.row((0, 10**6), (0, 10**12))
