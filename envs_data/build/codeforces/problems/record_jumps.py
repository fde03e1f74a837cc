"""Test inputs and validator of `record_jumps`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def small(rng: Random) -> str:
    """Generate up to seven days."""
    n = rng.randint(1, 7)
    return lines(n, [rng.randint(1, 6) for _ in range(n)])


def tests(rng: Random) -> Iterator[str]:
    """Yield rising, falling, equal and random jumps."""
    yield lines(1, [1])
    yield lines(1000, list(range(1, 1001)))
    yield lines(1000, list(range(1000, 0, -1)))
    yield lines(1000, [1000] * 1000)
    for n in (10, 30, 200, 999, 1000):
        yield lines(n, [rng.randint(1, 1000) for _ in range(n)])
    yield lines(1000, [min(1000, max(1, i + rng.randint(-20, 20))) for i in range(1000)])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.ints(read.integer(1, 1000), 1, 1000)
