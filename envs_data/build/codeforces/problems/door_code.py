"""Test inputs and validator of `door_code`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _digits(rng: Random, length: int) -> str:
    return lines("".join(rng.choice("0123456789") for _ in range(length)))


def small(rng: Random) -> str:
    """Generate up to six digits."""
    return _digits(rng, rng.randint(1, 6))


def tests(rng: Random) -> Iterator[str]:
    """Yield zeros, nines and random digits."""
    yield lines("0")
    yield lines("9")
    yield lines("0" * 30 + "1")
    yield lines("9" * 5000)
    for length in (18, 19, 20, 100, 1000, 4999, 5000):
        yield _digits(rng, length)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.word("[0-9]{1,5000}")
