"""Test inputs and validator of `longest_word`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _sentence(rng: Random, n: int, longest: int) -> str:
    words = ["".join(rng.choice("abcde") for _ in range(rng.randint(1, longest))) for _ in range(n)]
    return lines(n, words)


def small(rng: Random) -> str:
    """Generate up to five short words."""
    return _sentence(rng, rng.randint(1, 5), 3)


def tests(rng: Random) -> Iterator[str]:
    """Yield one word, equal lengths and many words."""
    yield lines(1, "a")
    yield lines(3, "bb ab aa")
    yield lines(1000, ["x"] * 999 + ["w"])
    yield lines(4, ["z" * 20, "b", "a" * 20, "c"])
    for n, longest in ((5, 4), (20, 6), (100, 3), (500, 20), (1000, 20), (1000, 10)):
        yield _sentence(rng, n, longest)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.words(read.integer(1, 1000), "[a-z]{1,20}")
