"""Parser for calls in Python syntax: `f(a=1)`, `[f(a=1), g("x")]`. They are never evaluated."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from marft_envs.tasks.tools.call import HOW, MAX_DEPTH, Call, CallError, plain

LOOKS_LIKE_CALL = re.compile(
    r"""^[ \t]*\[?\s{0,64}[A-Za-z_][\w.]*\(\s{0,64}"""
    r"""(?:\)|\*|[A-Za-z_]\w*\s*=[^=]|["'\d\[{-]|(?:True|False|None|true|false|null)\b)""",
    re.MULTILINE,
)
_WORDS = {"true": True, "false": False, "null": None}


def read_python_calls(text: str) -> list[Call]:
    """Read lines of calls, or lists of calls, with literals as arguments.

    Raises:
        CallError: It is anything else.
    """
    return [_call_of(node) for node in _expressions(text)]


def _expressions(text: str) -> list[ast.expr]:
    """Parse lines of expressions and flatten lists."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes in what the model wrote
            statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise CallError(f"this begins like a call in Python, but cannot be read{where}; {HOW}") from error
    found: list[ast.expr] = []
    for statement in statements:
        if not isinstance(statement, ast.Expr):
            raise CallError(f"calls are read, not run: found {type(statement).__name__} among them; {HOW}")
        value = statement.value
        found += value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return found


def _call_of(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise CallError(f"found {type(node).__name__} among the calls; write f(a=1) or [f(a=1), g()]; {HOW}")
    name = _dotted(node.func)
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in named:
            raise CallError(f"{name[:64]}: give each argument once, by its own name")
        named[keyword.arg] = plain(_literal(keyword.value))
    return Call(name, named, tuple(plain(_literal(argument)) for argument in node.args))


def _dotted(node: ast.expr, depth: int = 0) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and depth < MAX_DEPTH:
        return f"{_dotted(node.value, depth + 1)}.{node.attr}"
    raise CallError(f"what is called must be a name, found {type(node).__name__}; {HOW}")


def _literal(node: ast.expr | None, depth: int = 0) -> Any:
    """Read a literal; tuples become lists, and the literals of JSON are accepted."""
    if depth > MAX_DEPTH:
        raise CallError(f"the arguments are nested deeper than {MAX_DEPTH}")
    if isinstance(node, ast.Constant) and (node.value is None or type(node.value) in (str, int, float, bool)):
        return node.value
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(entry, depth + 1) for entry in node.elts]
    if isinstance(node, ast.Dict):
        keys = [_literal(key, depth + 1) for key in node.keys]
        if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
            return dict(zip(keys, (_literal(entry, depth + 1) for entry in node.values), strict=True))
        raise CallError(f"the keys of an object must be different strings; {HOW}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        if (
            isinstance(number, int | float)
            and not isinstance(number, bool)
            and isinstance(node.op, ast.USub | ast.UAdd)
        ):
            return -number if isinstance(node.op, ast.USub) else number
    raise CallError(f"an argument must be a literal, found {type(node).__name__}; {HOW}")
