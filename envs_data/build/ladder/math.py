"""`ladder/math`: find a number, compare two, then sums and differences of two digits, and products at the top.

Sums of single digits would be easier, but there are only 64 of them.
"""

from __future__ import annotations

import random

from envs_data.build.draft import Draft
from envs_data.build.ladder.level import ladder
from envs_data.build.stories import NAMES

PEOPLE = tuple(name.partition("/")[0] for name in NAMES)
THINGS = ("marbles", "coins", "books", "stickers", "pencils", "shells", "stamps", "balls", "cards", "buttons", "nuts")
SHOWN = (("+", 31, 12), ("-", 89, 14))  # pairs of the teams' worked examples
Pair = tuple[str, int, int]


def pair(rng: random.Random, *, carries: bool) -> Pair:
    """Draw a sign and two numbers of two digits whose sum or difference has at most two.

    Args:
        rng: Generator of the template.
        carries: True: a carry or a borrow in the last digit, False: none.
    """
    while True:
        sign, a, b = rng.choice("+-"), rng.randint(11, 98), rng.randint(10, 88)
        found = a % 10 + b % 10 > 9 if sign == "+" else a % 10 < b % 10
        if 0 < value(sign, a, b) < 100 and carries == found and (sign, a, b) not in SHOWN:
            return sign, a, b


def round_pair(rng: random.Random) -> Pair:
    """Draw a sign, a number below 200 and a smaller multiple of ten."""
    sign, b = rng.choice("+-"), 10 * rng.randint(1, 9)
    return sign, rng.randint(b + 1, 199), b


def two(rng: random.Random) -> tuple[int, int]:
    """Draw two different numbers of two digits."""
    a, b = rng.sample([n for n in range(10, 100) if n not in (12, 31)], 2)
    return a, b


def value(sign: str, a: int, b: int) -> int:
    """Return the sum or the difference."""
    return a + b if sign == "+" else a - b


def _draft(parameters: tuple[object, ...], question: str, answer: int) -> Draft:
    return Draft(parameters, {"question": question, "answer": str(answer)})


def _find(rng: random.Random) -> Draft:
    a, b = two(rng)
    n, (xs, ys) = rng.choice(PEOPLE), rng.sample(THINGS, 2)
    asked, answer = rng.choice(((xs, a), (ys, b)))
    return _draft((a, b), f"{n} has {a} {xs} and {b} {ys}; how many {asked} does {n} have?", answer)


def _compare(rng: random.Random) -> Draft:
    a, b = two(rng)
    word, answer = rng.choice((("larger", max(a, b)), ("smaller", min(a, b))))
    return _draft((word, a, b), f"Which is {word}, {a} or {b}?", answer)


def _sum(sign: str, a: int, b: int) -> Draft:
    return _draft((sign, a, b), f"What is {a} {sign} {b}?", value(sign, a, b))


def _story(rng: random.Random) -> Draft:
    sign, a, b = pair(rng, carries=True)
    n, xs = rng.choice(PEOPLE), rng.choice(THINGS)
    more = f"{n} has {a} {xs} and finds {b} more; how many {xs} does {n} have now?"
    fewer = f"{n} had {a} {xs} and gave away {b}; how many {xs} are left?"
    return _draft((sign, a, b), more if sign == "+" else fewer, value(sign, a, b))


def _product(rng: random.Random) -> Draft:
    a, b = two(rng)
    n, xs = rng.choice(PEOPLE), rng.choice(THINGS)
    return _draft((a, b), f"{n} has {a} boxes with {b} {xs} each; how many {xs} does {n} have?", a * b)


SPEC = ladder(
    "math",
    (
        ("one of two numbers in a sentence: Mia has 43 coins and 25 nuts; how many nuts does Mia have?", _find),
        ("the larger or smaller of two: Which is larger, 43 or 25?", _compare),
        ("a sum or difference with a round number: What is 43 + 20?", lambda rng: _sum(*round_pair(rng))),
        ("of two-digit numbers without a carry: What is 43 + 25?", lambda rng: _sum(*pair(rng, carries=False))),
        ("with a carry, in a sentence", _story),
        ("the product of two two-digit numbers in a sentence", _product),
    ),
    text_column="question",
    columns=("question", "answer"),
)
