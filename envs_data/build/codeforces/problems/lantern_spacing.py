"""Test inputs and validator of `lantern_spacing`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _hooks(rng: Random, n: int, k: int, top: int) -> str:
    return lines([n, k], rng.sample(range(top + 1), n))


def small(rng: Random) -> str:
    """Generate up to six hooks."""
    n = rng.randint(2, 6)
    return _hooks(rng, n, rng.randint(2, n), 12)


def tests(rng: Random) -> Iterator[str]:
    """Yield all hooks, two lanterns, even spacing and long streets."""
    yield lines([3, 3], [5, 0, 1])
    yield lines([10, 10], list(range(10)))
    yield lines([2000, 2], list(range(1999, -1, -1)))
    for n, k, top in ((10, 4, 100), (100, 30, 10**4), (2000, 1000, 10**6), (2000, 1999, 10**9)):
        yield _hooks(rng, n, k, top)
    yield _hooks(rng, 2000, 3, 10**9)
    yield _hooks(rng, 2000, 10, 10**9)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, k = read.row((2, 2000), (2, 2000))
    read.check(k <= n, "wanted k ≤ n")
    read.distinct(read.ints(n, 0, 10**9))
