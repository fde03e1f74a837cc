"""Test inputs and validator of `hot_days`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _days(rng: Random, n: int, t: int, spread: int) -> str:
    return lines([n, t], [max(-50, min(50, t + rng.randint(-spread, spread))) for _ in range(n)])


def small(rng: Random) -> str:
    """Generate up to six days around the threshold."""
    return _days(rng, rng.randint(1, 6), rng.randint(-5, 5), 3)


def tests(rng: Random) -> Iterator[str]:
    """Yield days all equal, all hot, none hot, and random ones."""
    yield lines([1, 50], [50])
    yield lines([1, -50], [-49])
    yield lines([100, 0], [0] * 100)
    yield lines([100, -50], [50] * 100)
    for n, spread in ((10, 4), (20, 1), (50, 30), (99, 60), (100, 2), (100, 100)):
        yield _days(rng, n, rng.randint(-30, 30), spread)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, _ = read.row((1, 100), (-50, 50))
    read.ints(n, -50, 50)
