"""Test inputs and validator of `lonely_numbers`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _questions(rng: Random, q: int, top: int) -> str:
    return lines(q, *(sorted((rng.randint(1, top), rng.randint(1, top))) for _ in range(q)))


def small(rng: Random) -> str:
    """Generate up to three questions below 60."""
    return _questions(rng, rng.randint(1, 3), 60)


def tests(rng: Random) -> Iterator[str]:
    """Yield single numbers, squares, and whole ranges."""
    yield lines(2, [1, 1], [2, 2])
    yield lines(4, [1, 4], [9, 9], [25, 25], [289, 289])
    yield lines(1, [1, 300000])
    yield lines(2, [299999, 300000], [299993, 299993])
    for q, top in ((10, 100), (100, 1000), (500, 5000), (1000, 300000), (1000, 300000)):
        yield _questions(rng, q, top)
    yield lines(1000, *([rng.randint(1, 1000), 300000] for _ in range(1000)))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    for _ in range(read.integer(1, 1000)):
        left, right = read.ints(2, 1, 300000)
        read.check(left <= right, "wanted l ≤ r")
