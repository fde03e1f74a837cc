"""Test inputs and validator of `recipe_order`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _recipe(rng: Random, n: int, m: int, backwards: int) -> str:
    order = rng.sample(range(1, n + 1), n)
    rules = []
    for i in range(m):
        first, second = sorted(rng.sample(range(n), 2))
        rules.append([order[first], order[second]] if i >= backwards else [order[second], order[first]])
    rng.shuffle(rules)
    return lines([n, m], *rules)


def small(rng: Random) -> str:
    """Generate up to five steps."""
    n = rng.randint(2, 5)
    return _recipe(rng, n, rng.randint(0, 6), rng.randint(0, 2))


def tests(rng: Random) -> Iterator[str]:
    """Yield no rules, a chain, a ring and random recipes."""
    yield lines([1, 0])
    yield lines([5, 0])
    yield lines([3, 3], [1, 2], [1, 2], [2, 3])
    yield lines([3, 3], [1, 2], [2, 3], [3, 1])
    for n, m, backwards in ((10, 12, 0), (10, 20, 3), (100, 300, 0), (1000, 4000, 0), (2000, 4000, 1), (2000, 3999, 0)):
        yield _recipe(rng, n, m, backwards)
    yield lines([2000, 1999], *([i, i + 1] for i in range(1999, 0, -1)))
    yield lines([2000, 2000], *([i, i % 2000 + 1] for i in range(1, 2001)))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, m = read.row((1, 2000), (0, 4000))
    for _ in range(m):
        read.distinct(read.ints(2, 1, n))
