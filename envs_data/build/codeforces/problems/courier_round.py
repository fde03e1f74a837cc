"""Test inputs and validator of `courier_round`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _places(rng: Random, n: int, top: int) -> str:
    return lines(n, *([rng.randint(1, top) if i != j else 0 for j in range(n)] for i in range(n)))


def small(rng: Random) -> str:
    """Generate up to five places."""
    return _places(rng, rng.randint(2, 5), 9)


def tests(rng: Random) -> Iterator[str]:
    """Yield equal times, a hidden best ring, and random times."""
    yield lines(2, [0, 1000000], [1000000, 0])
    yield lines(13, *([7 * (i != j) for j in range(13)] for i in range(13)))
    for n, top in ((4, 20), (6, 10**6), (8, 100), (10, 50), (13, 10**6), (13, 30)):
        yield _places(rng, n, top)
    ring = [0, *rng.sample(range(1, 13), 12)]
    times = [[rng.randint(400, 900) if i != j else 0 for j in range(13)] for i in range(13)]
    for i, j in zip(ring, [*ring[1:], 0], strict=True):
        times[i][j] = rng.randint(400, 450)
    yield lines(13, *times)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n = read.integer(2, 13)
    for i in range(n):
        read.row(*((1, 10**6) if i != j else (0, 0) for j in range(n)))
