"""Worker process for reasoning-gym: a script that generates problems and scores answers, one JSON line per request.

It is a process of its own for three reasons:

- Some generators iterate over sets of strings, or draw from global generators. Here PYTHONHASHSEED is 0 and both
  global generators are seeded before each problem, so equal seeds give equal problems in every process.
- Some scorers call `eval` or sympy's `parse_expr` on the answer. Here `eval` reads literals only, and only arithmetic
  reaches sympy.
- The kernel ends a scorer that takes too much CPU time or memory, and nothing else with it.

This file imports no other module of the project.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import os
import random
import re
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

CPU_S = 5.0  # of one scored answer; simplifying an honest integral takes less than one
MEMORY_BYTES = 4 << 30
MAX_SYMBOLIC_CHARS = 500  # the longest gold answer that sympy reads has 300
MAX_NODES, MAX_EXPONENT, MAX_DIGITS, MAX_DEPTH = 300, 100, 25, 2

_EVALUATING = ("string_insertion", "spiral_matrix", "binary_matrix", "n_queens", "number_sorting")
_FUNCTIONS = (
    "exp",
    "log",
    "ln",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "sec",
    "csc",
    "cot",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "atan",
)
_SYMBOLIC: Mapping[str, tuple[bool, bool]] = {  # generator -> (powers, symbols and functions)
    "countdown": (False, False),
    "puzzle24": (False, False),
    "polynomial_multiplication": (True, True),
    "simple_integration": (True, True),
    "intermediate_integration": (True, True),
}


def is_arithmetic(text: str, *, powers: bool, symbols: bool) -> bool:
    """Return True for an expression that sympy may evaluate: bounded numbers, one-letter symbols, known functions."""
    if len(text) > MAX_SYMBOLIC_CHARS or re.search(rf"\d{{{MAX_DIGITS + 1}}}|[eE]\s*[+-]?\d|_|\"|'", text):
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        return False
    return _fits(tree.body, powers, symbols, 0)


def _fits(node: ast.expr, powers: bool, symbols: bool, depth: int) -> bool:
    """Check one node; `depth` counts the powers and function calls around it."""
    match node:
        case ast.Constant(value=value):
            fits = isinstance(value, int | float)
        case ast.Name(id=name):
            fits = symbols and (len(name) == 1 or name == "pi")
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=inner):
            fits = _fits(inner, powers, symbols, depth)
        case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
            inside = depth + 1
            fits = powers and inside <= MAX_DEPTH and _is_small(exponent)
            fits = fits and all(_fits(part, powers, symbols, inside) for part in (base, exponent))
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), left=left, right=right):
            fits = all(_fits(part, powers, symbols, depth) for part in (left, right))
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]):
            known = symbols and name in _FUNCTIONS and depth < MAX_DEPTH
            fits = known and _fits(inner, powers, symbols, depth + 1)
        case _:
            fits = False
    return fits


def _is_small(exponent: ast.expr) -> bool:
    """Check that an exponent holds no power, and that no product of its numbers is large."""
    constants = [node.value for node in ast.walk(exponent) if isinstance(node, ast.Constant)]
    numbers = [abs(value) for value in constants if isinstance(value, int | float)]
    largest = math.prod(max(number, 1 / number) if number else 1 for number in numbers)
    return largest <= MAX_EXPONENT and not any(isinstance(node, ast.Pow) for node in ast.walk(exponent))


@lru_cache(maxsize=64)
def _dataset(generator: str, seed: int, size: int, config: str) -> Any:
    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    made = reasoning_gym.create_dataset(generator, seed=seed, size=size, **json.loads(config))
    if generator in _EVALUATING:  # its scorer finds this name before the built-in one
        vars(sys.modules[DATASETS[generator][0].__module__])["eval"] = ast.literal_eval
    return made


@lru_cache(maxsize=4096)
def _entry(generator: str, seed: int, size: int, config: str, index: int) -> Any:
    """Generate a problem; some generators draw from the global generators of Python and numpy."""
    import numpy as np

    dataset = _dataset(generator, seed, size, config)
    random.seed(seed + index)
    np.random.seed((seed + index) % 2**32)
    return dataset[index]


def _exact(dataset: Any, answer: str, entry: Any) -> float:
    """Compare with the gold answer; the generator's own scorer accepts every answer."""
    return float(answer == entry["answer"])


def _close(dataset: Any, answer: str, entry: Any) -> float:
    """Compare two probabilities; the generator's own scorer gives 1 to each prefix of the gold answer, such as 0."""
    try:
        return float(abs(Fraction(answer.replace(",", "")) - Fraction(entry["answer"])) <= Fraction(1, 10**4))
    except (ValueError, ZeroDivisionError):
        return 0.0


def _finite(dataset: Any, answer: str, entry: Any) -> float:
    """Score by the generator's own scorer, which gives 1 to NaN."""
    return 0.0 if re.search(r"nan|inf", answer, re.IGNORECASE) else float(dataset.score_answer(answer, entry))


_REPAIRED: Mapping[str, Callable[[Any, str, Any], float]] = {
    "game_of_life_halting": _exact,
    "coin_flip": _close,
    "complex_arithmetic": _finite,
}


def score(generator: str, seed: int, size: int, config: str, index: int, answer: str) -> float:
    """Return the score of an answer, 0 to 1; 0 for one that the scorer cannot read."""
    dataset, entry = _dataset(generator, seed, size, config), _entry(generator, seed, size, config, index)
    if generator in _SYMBOLIC and answer != entry["answer"]:
        powers, symbols = _SYMBOLIC[generator]
        if not is_arithmetic(answer, powers=powers, symbols=symbols):
            return 0.0
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)  # its default action ends this process
    try:
        found = float(_REPAIRED.get(generator, type(dataset).score_answer)(dataset, answer, entry))
    except (Exception, RecursionError):
        return 0.0
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return min(1.0, max(0.0, found)) if math.isfinite(found) else 0.0


def _answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    place = {key: request[key] for key in ("generator", "seed", "size", "config", "index")}
    try:
        if "answer" in request:
            return {"score": score(**place, answer=request["answer"])}
        entry = _entry(**place)
        return {"question": str(entry["question"]), "answer": str(entry["answer"])}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    """Serve requests until the owner closes the standard input."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # libraries print
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for name, bound in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(name, (bound, bound))
        for line in sys.stdin:
            replies.write(json.dumps(_answer(json.loads(line))) + "\n")
            replies.flush()


if __name__ == "__main__":
    main()
