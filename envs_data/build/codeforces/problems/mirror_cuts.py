"""Test inputs and validator of `mirror_cuts`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _word(rng: Random, n: int, letters: str) -> str:
    return "".join(rng.choice(letters) for _ in range(n))


def small(rng: Random) -> str:
    """Generate a word of two letters."""
    return lines(_word(rng, rng.randint(1, 9), "ab"))


def tests(rng: Random) -> Iterator[str]:
    """Yield one letter, whole palindromes, and words of few and many letters."""
    yield lines("z")
    yield lines("aab")
    yield lines("abaab")
    yield lines("a" * 800)
    for n, letters in ((12, "ab"), (40, "ab"), (200, "abc"), (800, "ab"), (800, "abcdefghijklmnopqrstuvwxyz")):
        yield lines(_word(rng, n, letters))
    half = _word(rng, 300, "abc")
    yield lines("ab" + half + half[::-1] + "ba" * 90)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.word("[a-z]{1,800}")
