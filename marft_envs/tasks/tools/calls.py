r"""Tool calls in an action: parser and writer.

| format | example |
|---|---|
| "tags" (Qwen, Hermes) | `<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>`, any number |
| "json" (OpenAI, Llama) | `{"name": "f", "arguments": {"a": 1}}`, also several, and in `{"tool_calls": [...]}` |
| "python" (Gemma, BFCL) | `f(a=1)` or `[f(a=1), g("x")]`, read as literals, never evaluated |

Tags may stand anywhere. JSON and Python stand in a code fence, or from the start of a line to the end of the text. In
JSON the arguments may be a string of JSON, and be called "parameters".

Text before `</think>` is reasoning and is not searched. A last line that routes (`-> a_0` or `{"act": [...]}`, see
`marft_envs.dependency.routed`) is not part of a call. Text without a call is valid and has no calls. Text that begins
like a call but is none is an error, told to the agent. The first format that finds something decides.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from marft_envs.spaces import clean

MAX_CHARS = 65536
MAX_CALLS = 32
_MAX_DEPTH = 16
_HOW = 'write <tool_call>{"name": ..., "arguments": {...}}</tool_call>'

_THOUGHT = re.compile(r".*</think>", re.DOTALL)
_ROUTE = re.compile(r"""^[ \t]*+(?:->[\w, \t]*+|\{[ \t]*+"act"[^\n]*\})\s*+\Z""", re.MULTILINE)
_TAG = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FENCE = re.compile(r"^```[ \t]*(\w*)[^\n]*\n(.*?)(?:^```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_JSON_START = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_JSON_CALL = re.compile(r'"(?:arguments|parameters|tool_calls|function)"\s*:')
_BETWEEN = re.compile(r"[\s,;]*")
_PYTHON_CALL = re.compile(
    r"""^[ \t]*\[?\s{0,64}[A-Za-z_][\w.]*\(\s{0,64}"""
    r"""(?:\)|\*|[A-Za-z_]\w*\s*=[^=]|["'\d\[{-]|(?:True|False|None|true|false|null)\b)""",
    re.MULTILINE,
)
_WORDS = {"true": True, "false": False, "null": None}


class CallError(ValueError):
    """Text begins like a call but cannot be read as one; the message is for the model that wrote it."""


@dataclass(frozen=True)
class Call:
    """A call as it was read, not yet checked against any tool.

    Attributes:
        name: Name of the tool.
        arguments: Plain data by argument name.
        positional: Arguments without a name, of Python syntax.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    positional: tuple[Any, ...] = ()


def _plain(value: Any, depth: int = 0) -> Any:
    """Return plain data with lone surrogates replaced.

    Raises:
        CallError: It is nested too deep, or holds a number that is not finite.
    """
    if depth > _MAX_DEPTH:
        raise CallError(f"the arguments are nested deeper than {_MAX_DEPTH}")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise CallError("a number is too large")
    if isinstance(value, dict):
        return {clean(key): _plain(entry, depth + 1) for key, entry in value.items()}
    return [_plain(entry, depth + 1) for entry in value] if isinstance(value, list) else value


def read_calls(text: str, formats: Sequence[str] = ("tags", "json", "python")) -> list[Call]:
    r"""Find the calls in an action.

    Args:
        text: The whole action.
        formats: Formats to look for, in this order.

    Returns:
        The calls in order; empty if the text holds none.

    Raises:
        CallError: A call cannot be read, or there are too many, too long or too deep ones.

    Examples:
        >>> read_calls("I look it up.\nget_order(id=7)")
        [Call(name='get_order', arguments={'id': 7}, positional=())]
    """
    said = _THOUGHT.sub("", text, count=1) if "</think>" in text else text
    if len(said) > MAX_CHARS:
        raise CallError(f"found {len(said)} characters; say at most {MAX_CHARS}")
    said = _ROUTE.sub("", said)
    for name in formats:
        if calls := FORMATS[name](said):
            if len(calls) > MAX_CALLS:
                raise CallError(f"{len(calls)} calls at once; make at most {MAX_CALLS}")
            return calls
    return []


def write_calls(calls: Iterable[Call]) -> str:
    """Write calls as an action in tags, a line each."""
    bodies = (json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False) for call in calls)
    return "\n".join(f"<tool_call>{body}</tool_call>" for body in bodies)


def _read_tags(text: str) -> list[Call]:
    if text.count("<tool_call>") != text.count("</tool_call>"):
        raise CallError(f"a <tool_call> is not closed, or not opened; {_HOW}")
    return [call for body in _TAG.findall(text) for call in _read_json_call(body)]


def _read_json(text: str) -> list[Call]:
    blocks = _blocks(text, ("", "json", "tool_call", "tool_calls"), _JSON_START)
    looking = (block for block in blocks if _JSON_CALL.search(block))
    return [call for block in looking for call in _read_json_sequence(block)]


def _read_python(text: str) -> list[Call]:
    blocks = _blocks(text, ("", "python", "py", "tool_code", "tool_call"), _PYTHON_CALL)
    looking = (block for block in blocks if _PYTHON_CALL.match(block))
    return [call for block in looking for call in read_python_calls(block)]


FORMATS: Mapping[str, Callable[[str], list[Call]]] = {
    "tags": _read_tags,
    "json": _read_json,
    "python": _read_python,
}


def _blocks(text: str, languages: Sequence[str], start: re.Pattern[str]) -> Iterator[str]:
    """Yield the content of code fences in these languages; without fences the end of the text, from `start` on."""
    if "```" in text:
        yield from (body.strip() for language, body in _FENCE.findall(text) if language.lower() in languages)
    elif found := start.search(text):
        yield text[found.start() :].strip()


# -------------------------------------------------------------------- JSON


def _read_json_call(text: str) -> list[Call]:
    """Read a text that is one call, or a list of calls.

    Raises:
        CallError: It is anything else.
    """
    return _calls_of_json(_load_one(text))


def _read_json_sequence(text: str) -> list[Call]:
    """Read a sequence of calls; JSON that is no call gives none.

    Raises:
        CallError: It is no JSON, or a call that lacks something.
    """
    return [call for value in _load_sequence(text) if _is_call(value) for call in _calls_of_json(value)]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise CallError("a key is given twice in the JSON of a call")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise CallError(f"the JSON of a call holds {name}; write a finite number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _load_one(text: str) -> Any:
    values = _load_sequence(text.strip())
    if len(values) != 1:
        raise CallError(f"found {len(values)} JSON values, wanted one; {_HOW}")
    return values[0]


def _load_sequence(text: str) -> list[Any]:
    """Read JSON values with blanks, commas or semicolons between them."""
    values, place = [], 0
    while place < len(text):
        value, place = _load_at(text, place)
        values.append(_plain(value))
        between = _BETWEEN.match(text, place)
        place = between.end() if between else place
    return values


def _load_at(text: str, place: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, place)
    except CallError:
        raise
    except json.JSONDecodeError as error:
        reason, at = error.msg, error.pos
    except (ValueError, RecursionError):
        reason, at = "a number is too long, or it is nested too deep", place
    raise CallError(f"the JSON of a call cannot be read: {reason} at {text[at : at + 20]!r}; {_HOW}")


def _is_call(value: Any) -> bool:
    """Return True for a call, or a list of calls."""
    if isinstance(value, list):
        return bool(value) and all(_is_call(entry) for entry in value)
    if not isinstance(value, dict):
        return False
    named = "name" in value and ("arguments" in value or "parameters" in value)
    return named or isinstance(value.get("tool_calls"), list) or isinstance(value.get("function"), dict)


def _calls_of_json(value: Any) -> list[Call]:
    """Return the calls in a JSON value that should hold some."""
    if isinstance(value, list):
        return [call for entry in value for call in _calls_of_json(entry)]
    if not isinstance(value, dict):
        raise CallError(f"found {json.dumps(value)[:40]} for a call; {_HOW}")
    if "tool_calls" in value:
        return _calls_of_json(value["tool_calls"])
    if isinstance(value.get("function"), dict):
        return _calls_of_json(value["function"])
    return [_call_of_json(value)]


def _call_of_json(value: Mapping[str, Any]) -> Call:
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise CallError(f"a call needs a 'name' that is a string, found {json.dumps(name)[:40]}; {_HOW}")
    key = "arguments" if "arguments" in value else "parameters"
    if unknown := [found for found in value if found not in (key, "name", "id", "type", "index")]:
        raise CallError(f"{name[:64]}: unknown key {unknown[0][:40]!r} in a call; {_HOW}")
    arguments = value.get(key)
    if isinstance(arguments, str):
        arguments = _load_one(arguments) if arguments.strip() else None
    if arguments is None:  # of a tool without parameters
        arguments = {}
    if not isinstance(arguments, dict):
        raise CallError(f"{name[:64]}: 'arguments' must be an object, found {json.dumps(arguments)[:40]}; {_HOW}")
    return Call(name, arguments)


# ------------------------------------------------------------------ Python


def read_python_calls(text: str) -> list[Call]:
    """Read lines of calls, or lists of calls, with literals as arguments.

    Raises:
        CallError: It is anything else.
    """
    return [_call_of_node(node) for node in _expressions(text)]


def _expressions(text: str) -> list[ast.expr]:
    """Parse lines of expressions and flatten lists."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes in what the model wrote
            statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise CallError(f"this begins like a call in Python, but cannot be read{where}; {_HOW}") from error
    found: list[ast.expr] = []
    for statement in statements:
        if not isinstance(statement, ast.Expr):
            raise CallError(f"calls are read, not run: found {type(statement).__name__} among them; {_HOW}")
        value = statement.value
        found += value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
    return found


def _call_of_node(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise CallError(f"found {type(node).__name__} among the calls; write f(a=1) or [f(a=1), g()]; {_HOW}")
    name = _dotted(node.func)
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in named:
            raise CallError(f"{name[:64]}: give each argument once, by its own name")
        named[keyword.arg] = _plain(_literal(keyword.value))
    return Call(name, named, tuple(_plain(_literal(argument)) for argument in node.args))


def _dotted(node: ast.expr, depth: int = 0) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and depth < _MAX_DEPTH:
        return f"{_dotted(node.value, depth + 1)}.{node.attr}"
    raise CallError(f"what is called must be a name, found {type(node).__name__}; {_HOW}")


def _literal(node: ast.expr | None, depth: int = 0) -> Any:
    """Read a literal; tuples become lists, and the literals of JSON are accepted."""
    if depth > _MAX_DEPTH:
        raise CallError(f"the arguments are nested deeper than {_MAX_DEPTH}")
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
        raise CallError(f"the keys of an object must be different strings; {_HOW}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        if (
            isinstance(number, int | float)
            and not isinstance(number, bool)
            and isinstance(node.op, ast.USub | ast.UAdd)
        ):
            return -number if isinstance(node.op, ast.USub) else number
    raise CallError(f"an argument must be a literal, found {type(node).__name__}; {_HOW}")
