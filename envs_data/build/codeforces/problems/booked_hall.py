"""Test inputs and validator of `booked_hall`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _requests(rng: Random, n: int, top: int, longest: int) -> str:
    starts = [rng.randint(0, top - 1) for _ in range(n)]
    return lines(n, *([start, min(top, start + rng.randint(1, longest))] for start in starts))


def small(rng: Random) -> str:
    """Generate up to six requests."""
    return _requests(rng, rng.randint(1, 6), 10, 5)


def tests(rng: Random) -> Iterator[str]:
    """Yield nested, chained and random requests."""
    yield lines(1, [0, 10**9])
    yield lines(4, [0, 100], [1, 2], [5, 6], [2, 5])
    yield lines(3, [0, 10], [9, 12], [11, 20])
    yield lines(500, *([i, 1000 - i] for i in range(500)))
    for n, top, longest in ((20, 50, 9), (300, 1000, 40), (3000, 10**9, 10**6), (3000, 5000, 100)):
        yield _requests(rng, n, top, longest)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    for _ in range(read.integer(1, 3000)):
        left, right = read.ints(2, 0, 10**9)
        read.check(left < right, "wanted l < r")
