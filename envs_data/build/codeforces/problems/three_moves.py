"""Test inputs and validator of `three_moves`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _games(rng: Random, moves: list[int], games: int, most: int, highest: int) -> str:
    heaps = [[rng.randint(0, highest) for _ in range(rng.randint(1, most))] for _ in range(games)]
    return lines(len(moves), moves, games, *([len(game), *game] for game in heaps))


def small(rng: Random) -> str:
    """Generate up to four games of small heaps."""
    return _games(rng, rng.sample(range(1, 6), rng.randint(1, 3)), rng.randint(1, 4), 2, 6)


def tests(rng: Random) -> Iterator[str]:
    """Yield empty heaps, one move, and random moves."""
    yield lines(1, [1], 1, [1, 0])
    yield lines(1, [2000], 3, [1, 1999], [1, 2000], [2, 4000, 2000])
    yield _games(rng, [1, 3, 4], 10, 2, 9)
    yield _games(rng, [1], 50, 20, 10000)
    yield _games(rng, [1, 2, 3], 50, 20, 100)
    for k, top in ((3, 10), (5, 30), (10, 100), (10, 2000), (10, 2000)):
        yield _games(rng, rng.sample(range(1, top + 1), k), 50, 3 if k < 5 else 20, 10000)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    k = read.integer(1, 10)
    read.distinct(read.ints(k, 1, 2000))
    for _ in range(read.integer(1, 50)):
        n, *heaps = (int(word) for word in read.line().split(" "))
        read.check(1 <= n <= 20 and len(heaps) == n, "found a wrong number of heaps")
        read.check(all(0 <= heap <= 10000 for heap in heaps), "found a heap out of bounds")
