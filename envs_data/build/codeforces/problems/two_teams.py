"""Test inputs and validator of `two_teams`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _class(rng: Random, n: int, m: int, spoilt: int) -> str:
    team = [rng.randint(0, 1) for _ in range(n)]
    team[:2] = [0, 1]
    sides = [[i for i in range(n) if team[i] == side] for side in (0, 1)]
    order = rng.sample(range(1, n + 1), n)
    pairs = [[order[rng.choice(sides[0])], order[rng.choice(sides[1])]] for _ in range(m - spoilt)]
    pairs += [rng.sample(range(1, n + 1), 2) for _ in range(spoilt)]
    for pair in pairs:
        rng.shuffle(pair)
    rng.shuffle(pairs)
    return lines([n, m], *pairs)


def small(rng: Random) -> str:
    """Generate up to six pupils."""
    spoilt = rng.randint(0, 1)
    return _class(rng, rng.randint(2, 6), rng.randint(spoilt, 6), spoilt)


def tests(rng: Random) -> Iterator[str]:
    """Yield no rivals, odd and even rings, a chain and random classes."""
    yield lines([1, 0])
    yield lines([4, 2], [1, 3], [3, 1])
    yield lines([6, 6], [1, 4], [4, 2], [2, 5], [5, 3], [3, 6], [6, 1])
    yield lines([1999, 1999], *([i, i % 1999 + 1] for i in range(1, 2000)))
    for n, m, spoilt in ((30, 40, 0), (100, 150, 0), (2000, 4000, 0), (2000, 4000, 1), (2000, 1500, 0), (999, 999, 6)):
        yield _class(rng, n, m, spoilt)
    order = rng.sample(range(1, 2001), 2000)
    yield lines([2000, 1999], *([order[i], order[i + 1]] for i in range(1999)))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, m = read.row((1, 2000), (0, 4000))
    for _ in range(m):
        read.distinct(read.ints(2, 1, n))
