"""Test inputs and validator of `tile_rows`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _paths(rng: Random, q: int, top: int) -> str:
    return lines(q, *(rng.randint(1, top) for _ in range(q)))


def small(rng: Random) -> str:
    """Generate up to three short paths."""
    return _paths(rng, rng.randint(1, 3), 12)


def tests(rng: Random) -> Iterator[str]:
    """Yield the shortest, the longest and random paths."""
    yield lines(1, 1)
    yield lines(30, *range(1, 31))
    yield _paths(rng, 10, 1000)
    yield lines(2, 10**18, 10**18 - 1)
    yield _paths(rng, 50, 10**9)
    yield lines(50, *(2**i for i in range(10, 60)))
    for _ in range(3):
        yield _paths(rng, 50, 10**18)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    for _ in range(read.integer(1, 50)):
        read.integer(1, 10**18)
