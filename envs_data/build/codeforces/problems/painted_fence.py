"""Test inputs and validator of `painted_fence`."""

from collections.abc import Iterator
from random import Random

from envs_data.build.codeforces.input_validation import Reader, lines


def _fence(rng: Random, n: int, q: int, questions: float) -> str:
    events = []
    for i in range(q):
        ends = sorted((rng.randint(1, n), rng.randint(1, n)))
        asked = i == q - 1 or rng.random() < questions
        events.append(["?", *ends] if asked else ["+", *ends, rng.randint(1, 1000)])
    return lines([n, q], *events)


def small(rng: Random) -> str:
    """Generate up to seven events."""
    return _fence(rng, rng.randint(1, 10), rng.randint(1, 7), 0.4)


def tests(rng: Random) -> Iterator[str]:
    """Yield one plank, no paint, short and long fences."""
    yield lines([1, 3], ["?", 1, 1], ["+", 1, 1, 1000], ["?", 1, 1])
    yield lines([1000, 3], ["+", 1, 1000, 7], ["+", 1000, 1000, 5], ["?", 999, 1000])
    for n, q, questions in ((20, 30, 0.5), (300, 200, 0.4), (1500, 400, 0.5)):
        yield _fence(rng, n, q, questions)
    yield _fence(rng, 2 * 10**5, 2000, 0.3)
    yield lines([10**9, 1], ["?", 1, 10**9])
    yield lines([10**9, 2], ["+", 1, 10**9, 1000], ["?", 1, 10**9])
    for questions in (0.5, 0.2, 0.8):
        yield _fence(rng, 10**9, 2000, questions)


def validate(read: Reader) -> None:
    """Check the constraints of the statement."""
    n, q = read.row((1, 10**9), (1, 2000))
    questions = 0
    for _ in range(q):
        kind, left, right, *coats = read.line().split(" ")
        read.check(1 <= int(left) <= int(right) <= n, "found l or r out of bounds")
        read.check(len(coats) == (kind == "+") and kind in "+?", "found a malformed event")
        read.check(all(1 <= int(each) <= 1000 for each in coats), "found c out of bounds")
        questions += kind == "?"
    read.check(questions > 0, "wanted a question")
