"""Test inputs and validator of `quiet_window`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _record(rng: Random, n: int, k: int, m: int) -> str:
    return lines([n, k, *(rng.randint(0, m - 1) for _ in range(3)), m])


def small(rng: Random) -> str:
    """Generate up to nine values."""
    n = rng.randint(1, 9)
    return _record(rng, n, rng.randint(1, n), rng.randint(1, 20))


def tests(rng: Random) -> Iterator[str]:
    """Yield runs of one and of all values, silence, and long records."""
    yield lines([1, 1, 0, 0, 0, 1])
    yield lines([200000, 1, 999999998, 999999998, 999999998, 999999999])
    yield lines([1000, 1000, 5, 1, 1, 10**9])
    yield lines([1000, 3, 10**9 - 1, 1, 10**9 - 1, 10**9])
    for n, k, m in ((100, 7, 1000), (5000, 100, 10**9), (200000, 2, 10**9), (200000, 200000, 999999937)):
        yield _record(rng, n, k, m)
    yield lines([200000, 100000, 12345, 48271, 11, 999999937])
    yield lines([199999, 70000, 1, 16807, 7, 10**9])


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    text = read.words(6, "[0-9]+")
    n, k, s, x, y, m = map(int, text)
    read.check(1 <= k <= n <= 200000 and 1 <= m <= 10**9, "found k, n or m out of bounds")
    read.check(0 <= min(s, x, y) <= max(s, x, y) < m, "found s, x or y out of bounds")
    read.check(text == [str(value) for value in (n, k, s, x, y, m)], "found leading zeros")
