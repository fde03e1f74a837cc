"""Test inputs and validator of `mirror_sign`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _mirrored(rng: Random, half: int, middle: str) -> str:
    word = "".join(rng.choice("abcxyz") for _ in range(half))
    return word + middle + word[::-1]


def small(rng: Random) -> str:
    """Generate a short word of two letters, often a palindrome."""
    return lines("".join(rng.choice("ab") for _ in range(rng.randint(1, 4))))


def tests(rng: Random) -> Iterator[str]:
    """Yield palindromes, and palindromes with one letter changed."""
    yield lines("z")
    yield lines("zz")
    yield lines("za")
    yield lines("q" * 1000)
    for half, middle in ((5, "k"), (5, "kk"), (5, "kkm"), (300, ""), (499, "p"), (500, ""), (499, "pq")):
        yield lines(_mirrored(rng, half, middle))
    word = _mirrored(rng, 500, "")
    yield lines(word[:700] + "m" + word[701:])
    yield lines("ab" * 40 + "aabb")


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.word("[a-z]{1,1000}")
