"""JSON Schema for tool arguments: derived from Python types, checked, and described in words for a model."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin

from marft_envs.game.task import JudgeFailure

Schema = Mapping[str, Any]

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_SHOWN_CHARS = 60


class BrokenSchemaError(JudgeFailure):
    """A back end broke the schema that it declares, so the episode fails: the team is not at fault."""


class ToolDefinitionError(TypeError):
    """The function cannot be a tool; the message names it and says what to do."""


class ArgumentError(ValueError):
    """Arguments do not fit the tool; the message is for the model that called."""


def schema_of(annotation: Any) -> dict[str, Any]:
    """Convert a type to JSON Schema.

    Args:
        annotation: Type: str, int, float, bool, None, list[T], dict[str, T], Literal[...] or a union of these.

    Raises:
        TypeError: It is anything else.

    Examples:
        >>> schema_of(list[int] | None)
        {'anyOf': [{'type': 'array', 'items': {'type': 'integer'}}, {'type': 'null'}]}
    """
    if isinstance(annotation, type) and annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(member) for member in arguments]}
    if origin is Literal:
        if any(type(value) not in _PLAIN for value in arguments):
            raise TypeError(f"found Literal{list(arguments)}, wanted strings, numbers, booleans or None in it")
        kinds = {_PLAIN[type(value)] for value in arguments}
        enum = {"enum": list(arguments)}
        return {"type": kinds.pop(), **enum} if len(kinds) == 1 else enum
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    raise TypeError(
        f"found the type {annotation!r}, wanted str, int, float, bool, list[T], dict[str, T], Literal[...] or a "
        "union of these"
    )


def of_pydantic(schema: Schema) -> dict[str, Any]:
    """Convert the schema of a pydantic model to that of a tool's arguments: no titles, no references, no others."""
    inlined = _inlined(schema, schema.get("$defs", {}))
    return {"type": "object", "properties": {}, **inlined, "additionalProperties": False}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Return a schema without titles, and with its definitions in place of references to them."""
    if isinstance(schema, list):
        return [_inlined(entry, definitions) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {
        key: {name: _inlined(entry, definitions) for name, entry in value.items()}
        if key == "properties"
        else _inlined(value, definitions)
        for key, value in schema.items()
        if key not in ("title", "$defs")
    }


def check_schema(schema: Any, where: str) -> None:
    """Require a JSON Schema.

    Raises:
        ToolDefinitionError: It is none.
    """
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolDefinitionError(f"{where}: its schema is no JSON Schema: {error.message[:200]}") from error


def check_result(result: Any, schema: Schema, where: str) -> None:
    """Require a result of the schema that its back end declares.

    Raises:
        BrokenSchemaError: It is another; the message has the first difference.
    """
    from referencing.exceptions import Unresolvable

    try:
        error = next(_validator(json.dumps(schema)).iter_errors(result), None)
    except Unresolvable as fault:
        raise BrokenSchemaError(f"{where}: its schema refers to {fault.ref!r}, which is not there") from fault
    if error is not None:
        place = "".join(f"[{key!r}]" for key in error.absolute_path)
        raise BrokenSchemaError(
            f"{where} returned {shown(result)}, which is not what its schema declares: {place}{error.message[:200]}"
        )


def check_arguments(arguments: Mapping[str, Any], schema: Schema, where: str) -> None:
    """Check arguments against the schema of a tool.

    Args:
        arguments: Argument values by name.
        schema: JSON Schema of an object.
        where: Name of the tool; opens the message.

    Raises:
        ArgumentError: Missing, unknown or of another type; the message names all errors.
    """
    from referencing.exceptions import Unresolvable

    try:
        found = list(_validator(json.dumps(schema)).iter_errors(arguments))
    except Unresolvable as error:
        raise ArgumentError(f"{where}: its schema refers to {error.ref!r}, which is not there") from error
    if found:
        errors = sorted(found, key=lambda error: list(map(str, error.path)))
        told = dict.fromkeys(message for error in errors for message in _say(error, schema))
        raise ArgumentError(f"{where}: {'; '.join(told)}")


@lru_cache(maxsize=1024)
def _validator(schema: str) -> Any:
    """Return a validator that fetches nothing, and for which a whole float is no integer."""
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int).redefine(
        "number", lambda _, value: type(value) is int or (type(value) is float and math.isfinite(value))
    )
    made = validators.extend(Draft202012Validator, type_checker=checker)
    return made(json.loads(schema), registry=Registry())


def _say(error: Any, schema: Schema) -> list[str]:
    """Describe a validation error in words; `error` is jsonschema's."""
    properties = schema.get("properties", {})
    place = "".join(f"[{key!r}]" if place else f"'{key}'" for place, key in enumerate(error.absolute_path))
    if error.validator == "required" and not place:
        missing = [name for name in error.validator_value if name not in error.instance]
        return [f"'{name}' is missing; wanted {wanted(properties.get(name, {}))}" for name in missing]
    if error.validator == "additionalProperties" and not place:
        unknown = [name for name in error.instance if name not in properties]
        takes = ", ".join(properties) or "no arguments"
        return [f"unknown argument '{name}'; it takes {takes}" for name in unknown]
    if error.validator in ("type", "enum", "anyOf"):
        return [f"{place} is {shown(error.instance)}; wanted {wanted(error.schema)}"]
    return [f"{place}: {error.message[:_SHOWN_CHARS]}".removeprefix(": ")]


def wanted(schema: Schema) -> str:
    """Describe a schema in a few words.

    Examples:
        >>> wanted(schema_of(list[str] | None))
        'list of string or null'
    """
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(wanted(member) for member in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {wanted(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {wanted(schema['additionalProperties'])}"
    kind = schema.get("type", "value")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def shown(value: Any) -> str:
    """Return a value as JSON, cut short."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
