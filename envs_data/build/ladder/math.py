"""`ladder/math`: sums and differences of two-digit numbers, plain, in stories, in two steps; products at the top."""

from __future__ import annotations

import random
from collections.abc import Callable

from envs_data.build.draft import Draft
from envs_data.build.ladder.level import ladder
from envs_data.build.stories import NAMES

PEOPLE = tuple(name.partition("/")[0] for name in NAMES)
THINGS = ("marbles", "coins", "books", "stickers", "pencils", "shells", "stamps", "balls", "cards", "buttons", "nuts")
MORE = (  # wordings of a sum, without that of the teams' worked examples
    "{n} has {a} {xs} and finds {b} more; how many {xs} does {n} have now?",
    "There are {a} {xs} in a bag and {b} in a box; how many {xs} are there?",
    "{n} buys {a} {xs} on Monday and {b} on Friday; how many {xs} is that?",
)
FEWER = (
    "{n} had {a} {xs} and gave away {b}; how many {xs} are left?",
    "There were {a} {xs} on a table and {b} fell down; how many {xs} stayed?",
    "{n} needs {a} {xs} and has {b}; how many more {xs} does {n} need?",
)
Pair = tuple[str, int, int]
SHOWN = (("+", 31, 12), ("-", 89, 14))  # pairs of the teams' worked examples


def pair(rng: random.Random, *, carries: bool | None = None) -> Pair:
    """Draw a sign and two numbers of two digits whose sum or difference has at most two.

    Args:
        rng: Generator of the template.
        carries: True: a carry or a borrow in the last digit, False: none, None: either.
    """
    while True:
        sign, a, b = rng.choice("+-"), rng.randint(11, 98), rng.randint(10, 88)
        found = a % 10 + b % 10 > 9 if sign == "+" else a % 10 < b % 10
        if 0 < value(sign, a, b) < 100 and carries in (None, found) and (sign, a, b) not in SHOWN:
            return sign, a, b


def value(sign: str, a: int, b: int) -> int:
    """Return the sum or the difference."""
    return a + b if sign == "+" else a - b


def _draft(parameters: tuple[object, ...], question: str, answer: int) -> Draft:
    return Draft(parameters, {"question": question, "answer": str(answer)})


def _plain(carries: bool) -> Callable[[random.Random], Draft]:
    def make(rng: random.Random) -> Draft:
        sign, a, b = pair(rng, carries=carries)
        return _draft((sign, a, b), f"What is {a} {sign} {b}?", value(sign, a, b))

    return make


def _known_story(rng: random.Random) -> Draft:
    sign, a, b = pair(rng, carries=False)
    n, xs = rng.choice(PEOPLE), rng.choice(THINGS)
    more = f"{n} has {a} {xs} and buys {b} more; how many {xs} does {n} have?"
    fewer = f"{n} had {a} {xs} and lost {b} of them; how many {xs} are left?"
    return _draft((sign, a, b), more if sign == "+" else fewer, value(sign, a, b))


def _story(rng: random.Random) -> Draft:
    sign, a, b = pair(rng)
    wording = rng.choice(MORE if sign == "+" else FEWER)
    text = wording.format(n=rng.choice(PEOPLE), xs=rng.choice(THINGS), a=a, b=b)
    return _draft((sign, a, b), text, value(sign, a, b))


def _two_steps(rng: random.Random) -> Draft:
    a, b, c = rng.randint(11, 60), rng.randint(10, 38), rng.randint(10, 20)
    n, xs = rng.choice(PEOPLE), rng.choice(THINGS)
    text = f"{n} has {a} {xs}, buys {b} more and then loses {c}; how many {xs} are left?"
    return _draft((a, b, c), text, a + b - c)


def _product(rng: random.Random) -> Draft:
    a, b = rng.randint(11, 99), rng.randint(11, 99)
    n, xs = rng.choice(PEOPLE), rng.choice(THINGS)
    return _draft((a, b), f"{n} has {a} boxes with {b} {xs} each; how many {xs} does {n} have?", a * b)


SPEC = ladder(
    "math",
    (
        ("a sum or difference of two-digit numbers without a carry: What is 43 + 25?", _plain(carries=False)),
        ("the same with a carry: What is 47 + 25?", _plain(carries=True)),
        ("without a carry, in a sentence as in the worked examples of the teams", _known_story),
        ("with or without a carry, in six other sentences", _story),
        ("a sum and a difference in one sentence", _two_steps),
        ("the product of two two-digit numbers in a sentence", _product),
    ),
    text_column="question",
    columns=("question", "answer"),
)
