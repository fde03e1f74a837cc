"""Test inputs and validator of `lonely_sock`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _wash(rng: Random, pairs: int, colours: int) -> str:
    socks = [rng.randint(1, colours) for _ in range(pairs)] * 2 + [rng.randint(1, colours)]
    rng.shuffle(socks)
    return lines(len(socks), socks)


def small(rng: Random) -> str:
    """Generate up to three pairs of three colours."""
    return _wash(rng, rng.randint(0, 3), 3)


def tests(rng: Random) -> Iterator[str]:
    """Yield one sock, one colour, few and many colours."""
    yield lines(1, [1000000000])
    yield lines(999, [5] * 999)
    yield lines(9, [8, 8, 4, 4, 4, 8, 4, 4, 8][:9])
    for pairs, colours in ((4, 2), (10, 5), (50, 10**9), (200, 30), (499, 4), (499, 10**9), (499, 10**9)):
        yield _wash(rng, pairs, colours)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n = read.integer(1, 999)
    read.check(n % 2 == 1, "found an even n")
    socks = read.ints(n, 1, 10**9)
    read.check(sum(socks.count(sock) % 2 for sock in set(socks)) == 1, "wanted one odd colour")
