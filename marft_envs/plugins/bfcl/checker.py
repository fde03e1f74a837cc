"""Grading of calls against the possible answers of BFCL: a reimplementation of its "AST" check for Python.

A possible answer gives for each argument the values that count as right; "" among them marks an optional argument.
Strings are compared without case, blanks and the signs , . / - _ * ^. Types are those of the function's description.
Where all possible values have another type (a variable's name, say), that type counts.

Source: `bfcl_eval/eval_checker/ast_eval/ast_checker.py` of BFCL v4. It is not imported, because it loads the clients of
all models. One difference: a tuple in a call counts as a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from marft_envs.tasks.tools import Call

_TYPES: Mapping[str, type[Any]] = {
    "string": str, "integer": int, "float": float, "boolean": bool,
    "array": list, "tuple": list, "dict": dict, "any": str,
}  # fmt: skip
_IGNORED = re.compile(r"[ ,./\-_*^]")

Function = Mapping[str, Any]
Possible = Mapping[str, Mapping[str, Sequence[Any]]]


def check_calls(functions: Sequence[Function], calls: Sequence[Call], possible: Sequence[Possible]) -> str:
    """Compare calls with the possible answers, in any order.

    Args:
        functions: Descriptions of all functions of the entry.
        calls: Calls with arguments by name.
        possible: One possible answer for each wanted call.

    Returns:
        The first error; empty if the calls are right.
    """
    if len(calls) != len(possible):
        return f"{len(calls)} calls, wanted {len(possible)}"
    left = list(calls)
    for answer in possible:
        name = next(iter(answer))
        function = _find(functions, name)
        faults = [_check_call(function, call, answer[name]) for call in left]
        if "" not in faults:
            return faults[0] if len(faults) == 1 else f"no call fits {name}"
        left.pop(faults.index(""))
    return ""


def gold_calls(functions: Sequence[Function], possible: Sequence[Possible]) -> list[Call]:
    """Return calls that the possible answers allow, with the first value of each argument that has one."""
    calls = []
    for answer in possible:
        function = _find(functions, next(iter(answer)))
        schema = function["parameters"]
        arguments = {
            name: _pick(values)
            for name, values in answer[function["name"]].items()
            if name in schema.get("required", ()) or (name in schema["properties"] and _type_of(values))
        }
        calls.append(Call(function["name"], arguments))
    return calls


def _find(functions: Sequence[Function], name: str) -> Function:
    return next(entry for entry in functions if entry["name"] == name)


def _check_call(function: Function, call: Call, answer: Mapping[str, Sequence[Any]]) -> str:
    properties, required = function["parameters"]["properties"], function["parameters"].get("required", ())
    if call.name != function["name"]:
        return f"{call.name} is called, wanted {function['name']}"
    for name in required:
        if name not in call.arguments:
            return f"{call.name}: {name!r} is missing"
    for name, value in call.arguments.items():
        if name not in properties or name not in answer:
            return f"{call.name}: {name!r} is too much"
        if not _fits(value, properties[name], answer[name]):
            return f"{call.name}: {name!r} has the wrong type or value"
    for name, values in answer.items():
        if name not in call.arguments and "" not in values:
            return f"{call.name}: {name!r} is missing"
    return ""


def _fits(value: Any, schema: Mapping[str, Any], possible: Sequence[Any]) -> bool:
    wanted = _TYPES[schema["type"]]
    inner = _TYPES[schema["items"]["type"]] if schema["type"] in ("array", "tuple") else None
    if schema["type"] == "float" and type(value) is int:
        value = float(value)
    usual = _type_of(possible)
    if type(value) is wanted:
        if inner and not any(_items_fit(value, inner, item) for item in possible):
            return False
        if usual in (None, wanted):
            return _equals(value, wanted, inner, possible)
    elif type(value) is not usual:
        return False
    return value in possible


def _type_of(possible: Sequence[Any]) -> type | None:
    return next((type(value) for value in possible if value != ""), None)


def _items_fit(value: Sequence[Any], inner: type, possible: Any) -> bool:
    if not isinstance(possible, list):
        return True
    return all(type(item) is inner or type(item) is _type_of(possible) for item in value)


def _equals(value: Any, wanted: type, inner: type | None, possible: Sequence[Any]) -> bool:
    if wanted is dict:
        return any(_dict_fits(value, entry) for entry in possible if entry != "")
    if wanted is list and inner is dict:
        return any(len(value) == len(entry) and all(map(_dict_fits, value, entry)) for entry in possible if entry != "")
    if wanted is list:
        return [_bare(item) for item in value] in [[_bare(item) for item in entry] for entry in possible]
    return _bare(value) in [_bare(entry) for entry in possible if wanted is not str or isinstance(entry, str)]


def _dict_fits(value: Mapping[str, Any], possible: Mapping[str, Sequence[Any]]) -> bool:
    known = all(key in possible and _bare(entry) in map(_bare, possible[key]) for key, entry in value.items())
    return known and all(key in value or "" in entries for key, entries in possible.items())


def _bare(value: Any) -> Any:
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _pick(possible: Sequence[Any]) -> Any:
    """Return the first value that is not ""; of an object, the first of each of its keys."""
    value = next((entry for entry in possible if entry != ""), "")
    if isinstance(value, dict):
        return _pick_all(value)
    return [_pick_all(item) if isinstance(item, dict) else item for item in value] if isinstance(value, list) else value


def _pick_all(possible: Mapping[str, Any]) -> dict[str, Any]:
    picked: dict[str, Any] = {}
    for key, values in possible.items():
        if not isinstance(values, list):
            picked[key] = values
        elif any(value != "" for value in values):
            picked[key] = _pick(values)
    return picked
