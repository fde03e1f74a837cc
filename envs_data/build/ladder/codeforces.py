"""`ladder/codeforces`: programs of two or three lines, with one example and four hidden tests each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from envs_data.build.draft import Draft
from envs_data.build.ladder.level import ladder

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "plus": lambda a, b: a + b,
    "minus": lambda a, b: a - b,
    "times": lambda a, b: a * b,
}
OF_A_LIST: dict[str, Callable[[list[int]], int]] = {"sum": sum, "largest": max, "smallest": min}
WORDS = (
    *("lamp", "stone", "river", "table", "apple", "orange", "window", "garden", "button", "pencil", "summer"),
    *("letter", "mirror", "carrot", "saddle", "hammer", "kettle", "tunnel", "lantern", "marmalade"),
)
CONSTANTS = [k for k in range(2, 1000) if k not in (27, 312)]  # without those of the teams' worked examples
SIGNS = {"plus": "+", "minus": "-", "times": "*"}
TESTS = 5


def _numbers(rng: random.Random, count: int) -> list[list[int]]:
    """Draw the numbers of each test; no two tests are equal."""
    tests: list[list[int]] = []
    while len(tests) < TESTS:
        drawn = [rng.randint(1, 99) for _ in range(count)]
        if drawn not in tests:
            tests.append(drawn)
    return tests


def _draft(
    parameters: tuple[object, ...], description: str, inputs: list[Any], solve: Callable[[Any], object], program: str
) -> Draft:
    """Return a problem whose first input is its example.

    Args:
        parameters: As in `Draft`.
        description: Text of the problem.
        inputs: Input of each test: a word, or numbers for one line.
        solve: Maps an input to the output.
        program: Solution in Python, for the oracle.
    """
    tests = []
    for given in inputs:
        line = " ".join(map(str, given)) if isinstance(given, list) else given
        tests.append({"input": f"{line}\n", "output": f"{solve(given)}\n"})
    row = {"description": description, "examples": tests[:1], "official_tests": tests[1:], "solution": f"{program}\n"}
    return Draft(parameters, row)


def _one_integer(rng: random.Random) -> Draft:
    k, word = rng.choice(CONSTANTS), rng.choice(list(OPERATIONS))
    text = f"Read an integer n. Print n {word} {k}."
    program = f"n = int(input())\nprint(n {SIGNS[word]} {k})"
    return _draft((word, k), text, _numbers(rng, 1), lambda n: OPERATIONS[word](n[0], k), program)


def _two_integers(rng: random.Random) -> Draft:
    k, word, sign = rng.choice(CONSTANTS), rng.choice(list(OPERATIONS)), rng.choice(("plus", "minus"))
    text = f"Read two integers a and b in one line. Print a {word} b {sign} {k}."
    program = f"a, b = map(int, input().split())\nprint(a {SIGNS[word]} b {SIGNS[sign]} {k})"

    def solve(n: list[int]) -> int:
        return OPERATIONS[sign](OPERATIONS[word](n[0], n[1]), k)

    return _draft((word, sign, k), text, _numbers(rng, 2), solve, program)


def _remainder(rng: random.Random) -> Draft:
    k, more = rng.randint(2, 40), rng.randint(2, 99)
    text = f"Read an integer n. Print the remainder of n divided by {k} plus {more}."
    program = f"n = int(input())\nprint(n % {k} + {more})"
    return _draft((k, more), text, _numbers(rng, 1), lambda n: n[0] % k + more, program)


def _three_integers(rng: random.Random) -> Draft:
    k, word, sign = rng.choice(CONSTANTS), rng.choice(list(OPERATIONS)), rng.choice(("plus", "minus"))
    text = f"Read three integers a, b and c in one line. Print a {word} b {sign} c plus {k}."
    program = f"a, b, c = map(int, input().split())\nprint(a {SIGNS[word]} b {SIGNS[sign]} c + {k})"

    def solve(n: list[int]) -> int:
        return OPERATIONS[sign](OPERATIONS[word](n[0], n[1]), n[2]) + k

    return _draft((word, sign, k), text, _numbers(rng, 3), solve, program)


def _list(rng: random.Random) -> Draft:
    k, word = rng.choice(CONSTANTS), rng.choice(list(OF_A_LIST))
    text = f"Read integers in one line. Print the {word} of them plus {k}."
    program = f"print({OF_A_LIST[word].__name__}(map(int, input().split())) + {k})"
    return _draft((word, k), text, _numbers(rng, rng.randint(3, 6)), lambda n: OF_A_LIST[word](n) + k, program)


def _word(rng: random.Random) -> Draft:
    k, letter = rng.choice(CONSTANTS), rng.choice("aelmnorst")
    text = f"Read a word. Count the letter {letter} in it. Print the count times {k}."
    program = f'print(input().count("{letter}") * {k})'
    return _draft((letter, k), text, rng.sample(WORDS, TESTS), lambda word: word.count(letter) * k, program)


SPEC = ladder(
    "codeforces",
    (
        ("one integer and a constant: Read an integer n. Print n minus 23.", _one_integer),
        ("two integers in one line and a constant", _two_integers),
        ("the remainder of an integer plus a constant", _remainder),
        ("three integers in one line and a constant", _three_integers),
        ("sum, largest or smallest of a list plus a constant", _list),
        ("number of one letter in a word times a constant", _word),
    ),
    text_column="description",
    columns=("description", "examples", "official_tests", "solution"),
)
