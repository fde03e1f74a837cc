"""Test inputs and validator of `digit_tape`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _tape(rng: Random, n: int, q: int) -> str:
    tape = "".join(rng.choice("0123456789") for _ in range(n))
    return lines(tape, q, *(sorted((rng.randint(1, n), rng.randint(1, n))) for _ in range(q)))


def small(rng: Random) -> str:
    """Generate up to six digits and three questions."""
    return _tape(rng, rng.randint(1, 6), rng.randint(1, 3))


def tests(rng: Random) -> Iterator[str]:
    """Yield one digit, zeros, whole tapes and long tapes."""
    yield lines("7", 1, [1, 1])
    yield lines("0" * 50, 2, [1, 50], [50, 50])
    yield lines("9" * 20000, 1, [1, 20000])
    for n, q in ((10, 20), (500, 100), (1000, 300), (20000, 50)):
        yield _tape(rng, n, q)
    tape = "".join(rng.choice("0123456789") for _ in range(20000))
    yield lines(tape, 3000, *([rng.randint(1, 500), rng.randint(19500, 20000)] for _ in range(3000)))


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n = len(read.word("[0-9]{1,20000}"))
    for _ in range(read.integer(1, 3000)):
        left, right = read.ints(2, 1, n)
        read.check(left <= right, "wanted l ≤ r")
