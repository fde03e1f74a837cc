"""Parser for calls in JSON: OpenAI (`tool_calls`, `function`), Hermes, Qwen (`arguments`), Llama (`parameters`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from marft_envs.tasks.tools.call import HOW, Call, CallError, plain

LOOKS_LIKE_CALL = re.compile(r'"(?:arguments|parameters|tool_calls|function)"\s*:')
_BETWEEN = re.compile(r"[\s,;]*")


def read_json_call(text: str) -> list[Call]:
    """Read a text that is one call, or a list of calls.

    Raises:
        CallError: It is anything else.
    """
    return _calls_in(_load_one(text))


def read_json_sequence(text: str) -> list[Call]:
    """Read a sequence of calls; JSON that is no call gives none.

    Raises:
        CallError: It is no JSON, or a call that lacks something.
    """
    return [call for value in _load_sequence(text) if _is_call(value) for call in _calls_in(value)]


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
        raise CallError(f"found {len(values)} JSON values, wanted one; {HOW}")
    return values[0]


def _load_sequence(text: str) -> list[Any]:
    """Read JSON values with blanks, commas or semicolons between them."""
    values, place = [], 0
    while place < len(text):
        value, place = _load_at(text, place)
        values.append(plain(value))
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
    raise CallError(f"the JSON of a call cannot be read: {reason} at {text[at : at + 20]!r}; {HOW}")


def _is_call(value: Any) -> bool:
    """Return True for a call, or a list of calls."""
    if isinstance(value, list):
        return bool(value) and all(_is_call(entry) for entry in value)
    if not isinstance(value, dict):
        return False
    named = "name" in value and ("arguments" in value or "parameters" in value)
    return named or isinstance(value.get("tool_calls"), list) or isinstance(value.get("function"), dict)


def _calls_in(value: Any) -> list[Call]:
    """Return the calls in a JSON value that should hold some."""
    if isinstance(value, list):
        return [call for entry in value for call in _calls_in(entry)]
    if not isinstance(value, dict):
        raise CallError(f"found {json.dumps(value)[:40]} for a call; {HOW}")
    if "tool_calls" in value:
        return _calls_in(value["tool_calls"])
    if isinstance(value.get("function"), dict):
        return _calls_in(value["function"])
    return [_call_of(value)]


def _call_of(value: Mapping[str, Any]) -> Call:
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise CallError(f"a call needs a 'name' that is a string, found {json.dumps(name)[:40]}; {HOW}")
    key = "arguments" if "arguments" in value else "parameters"
    if unknown := [found for found in value if found not in (key, "name", "id", "type", "index")]:
        raise CallError(f"{name[:64]}: unknown key {unknown[0][:40]!r} in a call; {HOW}")
    arguments = value.get(key)
    if isinstance(arguments, str):
        arguments = _load_one(arguments) if arguments.strip() else None
    if arguments is None:  # of a tool without parameters
        arguments = {}
    if not isinstance(arguments, dict):
        raise CallError(f"{name[:64]}: 'arguments' must be an object, found {json.dumps(arguments)[:40]}; {HOW}")
    return Call(name, arguments)
