"""Tests of problems that ask for a function, as JSON on standard input and output.

A test's input is the JSON list of the arguments, its output the JSON form of the result, with sorted keys. The program
runs between `PREAMBLE` (the names that such problems use without importing them) and a driver that calls the function.
Both run in the jail, with the program, and do not hold the expected output.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from marft_envs.sandbox.judge_data import Test

PREAMBLE = """\
import bisect, collections, functools, heapq, itertools, math, operator, random, re, string, sys
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import ceil, comb, floor, gcd, inf, isqrt, lcm, log2, sqrt
from typing import *
"""
_DRIVER = """\
def _call(name):
    import json, sys
    stdout, sys.stdout = sys.stdout, sys.stderr
    owner = globals().get("Solution")
    function = getattr(owner(), name) if hasattr(owner, name) else globals()[name]
    result = json.dumps(function(*json.loads(sys.stdin.readline())))
    if "{{" in result:
        result = json.dumps(json.loads(result), sort_keys=True)
    stdout.write(result + "\\n")
    stdout.flush()
_call({name!r})
"""


@dataclass(frozen=True)
class LongInteger:
    """Integer of more digits than the interpreter converts (`sys.get_int_max_str_digits`)."""

    digits: str

    def __str__(self) -> str:
        return self.digits


class FunctionCall(NamedTuple):
    """One call of the function: its arguments and its expected result."""

    arguments: list[Any]
    result: Any


def driver(name: str) -> str:
    """Return the code that calls a function, or a method of `Solution`, once.

    Raises:
        ValueError: That is no name of a function.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"function name {name!r}")
    return _DRIVER.format(name=name)


def parse_call(given: str, result: str) -> FunctionCall:
    """Read a test of LiveCodeBench: a JSON argument a line, and a JSON result.

    Raises:
        ValueError: They are no JSON.
    """
    return FunctionCall([read_json(line) for line in given.split("\n") if line.strip()], read_json(result))


def are_wrapped(calls: Sequence[FunctionCall]) -> bool:
    """Return True if all results are lists of one element: APPS and TACO wrap results so, and do not say whether."""
    return all(isinstance(call.result, list) and len(call.result) == 1 for call in calls)


def make_tests(calls: Sequence[FunctionCall]) -> tuple[Test, ...]:
    """Return the tests of calls."""
    return tuple(Test(f"{_json(call.arguments)}\n".encode(), _json(call.result, sort=True).encode()) for call in calls)


def read_json(text: str) -> Any:
    """Parse JSON with integers of any number of digits, in linear time: long ones become `LongInteger`.

    Raises:
        ValueError: The text is no JSON.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int | LongInteger:
    try:
        return int(digits)
    except ValueError:
        return LongInteger(digits)


def _json(value: Any, *, sort: bool = False) -> str:
    text = json.dumps(value, sort_keys=sort, default=lambda long: f"\0{long}")
    return re.sub(r'"\\u0000(-?[0-9]{640,})"', r"\1", text) if "\\u0000" in text else text
