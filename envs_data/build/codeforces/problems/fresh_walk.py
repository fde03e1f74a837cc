"""Test inputs and validator of `fresh_walk`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _trees(rng: Random, n: int, species: int) -> str:
    return lines(n, [rng.randint(1, species) for _ in range(n)])


def small(rng: Random) -> str:
    """Generate up to seven trees."""
    return _trees(rng, rng.randint(1, 7), 4)


def tests(rng: Random) -> Iterator[str]:
    """Yield equal trees, all different trees, and random ones."""
    yield lines(1, [10000])
    yield lines(4, [1, 2, 3, 1])
    yield lines(2000, [3] * 2000)
    for n, species in ((20, 6), (200, 50), (1000, 1000), (4000, 10000)):
        yield _trees(rng, n, species)
    order = list(range(1, 10001))
    rng.shuffle(order)
    yield lines(10000, order)
    order[9000] = order[10]
    yield lines(10000, order)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 10**4), 1, 10**4)
