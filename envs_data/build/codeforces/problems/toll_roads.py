"""Test inputs and validator of `toll_roads`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _country(rng: Random, n: int, m: int, toll: int, reach: int) -> str:
    roads = []
    for _ in range(m):
        a = rng.randint(1, n - 1)
        road = [a, min(n, a + rng.randint(1, reach))]
        rng.shuffle(road)
        roads.append([*road, rng.randint(0, toll)])
    return lines([n, m], *roads)


def small(rng: Random) -> str:
    """Generate up to five towns."""
    return _country(rng, rng.randint(2, 5), rng.randint(1, 8), 9, 3)


def tests(rng: Random) -> Iterator[str]:
    """Yield no roads, parallel roads, a long chain and random countries."""
    yield lines([2, 0])
    yield lines([2, 3], [1, 2, 7], [2, 1, 4], [1, 2, 9])
    yield lines([3, 3], [1, 3, 1000], [3, 2, 0], [2, 1, 0])
    yield lines([3000, 2999], *([i + 1, i, 1000] for i in range(1, 3000)))
    for n, m, toll, reach in ((10, 20, 20, 4), (100, 400, 100, 20), (3000, 4500, 1000, 3000), (1000, 4500, 1000, 10)):
        yield _country(rng, n, m, toll, reach)
    chain = [[i, i + 1, rng.randint(0, 9)] for i in range(1, 3000)]
    chain += [[i, i + 2, rng.randint(0, 15)] for i in range(1, 1500)]
    rng.shuffle(chain)
    yield lines([3000, len(chain)], *chain)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, m = read.row((2, 3000), (0, 4500))
    for _ in range(m):
        a, b, _ = read.row((1, n), (1, n), (0, 1000))
        read.distinct([a, b])
