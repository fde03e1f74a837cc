"""Test inputs and validator of `village_walks`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _tree(rng: Random, n: int, reach: int) -> str:
    return lines(n, [rng.randint(max(1, i - reach), i - 1) for i in range(2, n + 1)])


def small(rng: Random) -> str:
    """Generate up to eight villages."""
    return _tree(rng, rng.randint(2, 8), 8)


def tests(rng: Random) -> Iterator[str]:
    """Yield a star, a path, a broom and random trees."""
    yield lines(3, [1, 2])
    yield lines(1000, [1] * 999)
    yield lines(8000, list(range(1, 8000)))
    yield lines(8000, [*range(1, 4000), *[4000] * 4000])
    for n, reach in ((10, 10), (100, 5), (1000, 1000), (8000, 8000), (8000, 3)):
        yield _tree(rng, n, reach)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n = read.integer(2, 8000)
    read.row(*((1, i - 1) for i in range(2, n + 1)))
