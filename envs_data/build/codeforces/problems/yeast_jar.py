"""Test inputs and validator of `yeast_jar`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _questions(rng: Random, q: int, a: int, b: int, m: int) -> str:
    return lines(q, *([rng.randint(1, a), rng.randint(0, b), rng.randint(1, m)] for _ in range(q)))


def small(rng: Random) -> str:
    """Generate up to three small questions."""
    return _questions(rng, rng.randint(1, 3), 9, 9, 20)


def tests(rng: Random) -> Iterator[str]:
    """Yield the smallest and the largest numbers, and random ones."""
    yield lines(2, [1, 0, 1], [5, 0, 1])
    yield lines(3, [10**9, 1, 10**9], [1, 10**6, 7], [10**9, 2, 999999999])
    yield _questions(rng, 100, 100, 100, 100)
    yield _questions(rng, 100, 10**9, 1000, 10**9)
    yield lines(1, [10**9, 10**18, 10**9])
    yield lines(1, [999999999, 10**18, 998244353])
    for _ in range(3):
        yield _questions(rng, 100, 10**9, 10**18, 10**9)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    for _ in range(read.integer(1, 100)):
        read.row((1, 10**9), (0, 10**18), (1, 10**9))
