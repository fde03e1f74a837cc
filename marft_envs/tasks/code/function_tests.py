"""Tests of problems that ask for a function, as JSON on standard input and output.

A test's input is the JSON list of the arguments, its output the JSON form of the result. The program runs between
`PREAMBLE` (the names that such problems use without importing them) and a driver that calls the function. Both run
in the jail, with the program, and do not hold the expected output.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Sequence
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
    result = function(*json.loads(sys.stdin.readline()))
    stdout.write(json.dumps(result) + "\\n")
    stdout.flush()
_call({name!r})
"""


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
    return FunctionCall([json.loads(line) for line in given.split("\n") if line.strip()], json.loads(result))


def unwrap(calls: Sequence[FunctionCall]) -> list[FunctionCall]:
    """Unwrap the one-element lists in which APPS and TACO put results, if all results are wrapped."""
    if all(isinstance(call.result, list) and len(call.result) == 1 for call in calls):
        return [call._replace(result=call.result[0]) for call in calls]
    return list(calls)


def make_tests(calls: Sequence[FunctionCall]) -> tuple[Test, ...]:
    """Return the tests of calls."""
    return tuple(Test(json.dumps(call.arguments).encode() + b"\n", json.dumps(call.result).encode()) for call in calls)


def checker(calls: Sequence[FunctionCall]) -> str:
    """Return the checker: floats may be off by 1e-5, anything else must be equal."""
    return "floats:1e-5" if any(isinstance(call.result, float) for call in calls) else "lines"
