"""Test inputs and validator of `open_vowels`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _word(rng: Random, length: int, letters: str = "abcdefghijklmnopqrstuvwxyz") -> str:
    return lines("".join(rng.choice(letters) for _ in range(length)))


def small(rng: Random) -> str:
    """Generate a short word."""
    return _word(rng, rng.randint(1, 8))


def tests(rng: Random) -> Iterator[str]:
    """Yield words with no, few and only vowels."""
    yield lines("a")
    yield lines("y")
    yield lines("aeiou")
    yield lines("u" * 1000)
    yield lines("bcdfgh" * 20)
    yield _word(rng, 20, "aeiouy")
    for length in (10, 50, 200, 999, 1000):
        yield _word(rng, length)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.word("[a-z]{1,1000}")
