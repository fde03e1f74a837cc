"""Test inputs and validator of `tidy_brackets`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _tidy(rng: Random, pairs: int) -> str:
    text, opened, depth = "", 0, 0
    while len(text) < 2 * pairs:
        up = opened < pairs and (depth == 0 or rng.random() < 0.5)
        text += "(" if up else ")"
        opened += up
        depth += 1 if up else -1
    return text


def small(rng: Random) -> str:
    """Generate up to six brackets."""
    if rng.random() < 0.5:
        return lines(_tidy(rng, rng.randint(1, 3)))
    return lines("".join(rng.choice("()") for _ in range(rng.randint(1, 6))))


def tests(rng: Random) -> Iterator[str]:
    """Yield tidy lines, and lines that are spoilt in one place."""
    for text in ("(", ")", "()", ")(", "(" * 2500 + ")" * 2500, "()" * 2500, "(" * 5000):
        yield lines(text)
    for pairs in (10, 300, 2500):
        text = _tidy(rng, pairs)
        yield lines(text)
        yield lines(text[1:] + text[0])
    yield lines(_tidy(rng, 1000) + ")" + _tidy(rng, 1000) + "(")


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    read.word("[()]{1,5000}")
