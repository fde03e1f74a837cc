"""Tools: typed Python functions that a model may call, with JSON Schema from signature and docstring.

    class Shop(World):
        @tool
        def get_order(self, order_id: str) -> dict[str, Any]:
            \"\"\"Look up an order.\"\"\"

The section "Args" of the docstring describes the parameters. A tool reports an error to the agent by raising
`ToolError`.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from marft_envs.game.task import JudgeFailure
from marft_envs.tasks.tools.calls import Call

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK = "__marft_tool__"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Example|Examples|Note|Notes):[ \t]*$", re.MULTILINE)


class ToolError(Exception):
    """An error that a tool reports to the calling agent; all changes of the call are discarded."""


@dataclass(frozen=True)
class Tool:
    """A function that agents may call.

    Attributes:
        name: Letters, digits, '_', '.' and '-', up to 64.
        description: Description for the model.
        parameters: JSON Schema of an object; its properties in the order of positional arguments.
        function: Function called with the arguments by name.
        takes_world: True for a method: it gets the world first.
        parallel: True if it may run beside other calls of the same turn; it must not change the state of the world.
    """

    name: str
    description: str
    parameters: Schema
    function: Callable[..., Any]
    takes_world: bool = False
    parallel: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ToolDefinitionError(f"tool {self.name!r}: a name is 1 to 64 letters, digits, '_', '.' or '-'")
        if self.parameters.get("type") != "object":
            raise ToolDefinitionError(f"{self.name}: its parameters must be the JSON Schema of an object")

    @classmethod
    def of(cls, function: Callable[..., Any], *, parallel: bool = False) -> Tool:
        """Make a tool of a typed function or method with a docstring.

        Args:
            function: The function or method.
            parallel: As in the attributes of the class.

        Raises:
            ToolDefinitionError: No description, a parameter without a type or of one that JSON does not have,
                `*args`, or a documented argument that is none.
        """
        where = getattr(function, "__qualname__", repr(function))
        description, told = _read_docstring(function, where)
        parameters = list(inspect.signature(function).parameters.values())
        method = bool(parameters) and parameters[0].name == "self"
        properties = _properties(function, parameters[method:], told, where)
        required = [entry.name for entry in parameters[method:] if entry.default is entry.empty]
        schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return cls(function.__name__, description, schema, function, method, parallel)

    def to_dict(self) -> dict[str, Any]:
        """Return the description for a model: name, description, parameters."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}

    @cached_property
    def signature(self) -> str:
        """Name and parameters on one line.

        Examples:
            `get_order(order_id: string, verbose?: boolean)`
        """
        required = self.parameters.get("required", ())
        entries = (
            f"{name}{'' if name in required else '?'}: {wanted(schema)}"
            for name, schema in self.parameters.get("properties", {}).items()
        )
        return f"{self.name}({', '.join(entries)})"

    def read_arguments(self, call: Call) -> dict[str, Any]:
        """Bind the arguments of a call to their names and check them against the schema.

        Raises:
            ArgumentError: They do not fit; the message is for the model.
        """
        names = list(self.parameters.get("properties", {}))
        if len(call.positional) > len(names):
            raise ArgumentError(
                f"{self.name}: {len(call.positional)} arguments without a name; it takes {', '.join(names) or 'none'}"
            )
        given = dict(zip(names, call.positional, strict=False))
        if twice := [name for name in call.arguments if name in given]:
            raise ArgumentError(f"{self.name}: '{twice[0]}' is given twice")
        arguments = {**given, **call.arguments}
        check_arguments(arguments, self.parameters, self.name)
        return arguments


@overload
def tool(function: _Function) -> _Function: ...
@overload
def tool(*, parallel: bool) -> Callable[[_Function], _Function]: ...
def tool(function: _Function | None = None, *, parallel: bool = False) -> _Function | Callable[[_Function], _Function]:
    """Mark a function or a method of a world as a tool and return it unchanged; also `@tool(parallel=True)`.

    Args:
        function: The function or method.
        parallel: True if it may run beside other calls of the same turn; it must not change the state of the world.

    Raises:
        ToolDefinitionError: See `Tool.of`.
    """
    if function is None:
        return partial(tool, parallel=parallel)
    setattr(function, _MARK, Tool.of(function, parallel=parallel))
    return function


def tools_of(owner: type) -> dict[str, Tool]:
    """Return the tools among the methods of a class by name, those of its bases first, in order of definition."""
    names = dict.fromkeys(name for kind in reversed(owner.__mro__) for name in vars(kind))
    found = (getattr(getattr(owner, name), _MARK, None) for name in names)
    return {entry.name: entry for entry in found if entry is not None}


def _properties(
    function: Callable[..., Any], parameters: list[inspect.Parameter], told: Mapping[str, str], where: str
) -> dict[str, Any]:
    try:
        hints = get_type_hints(function)
    except NameError as error:
        raise ToolDefinitionError(f"{where}: a type is not known where the tool is defined: {error}") from error
    if unknown := set(told) - {entry.name for entry in parameters}:
        raise ToolDefinitionError(f"{where}: the docstring describes {sorted(unknown)}, which are no parameters")
    properties = {}
    for entry in parameters:
        if entry.kind not in (entry.POSITIONAL_OR_KEYWORD, entry.KEYWORD_ONLY):
            raise ToolDefinitionError(f"{where}: the parameter {str(entry)!r} has no name a model could give")
        if entry.name not in hints:
            raise ToolDefinitionError(f"{where}: the parameter {entry.name!r} has no type; annotate it")
        try:
            schema = schema_of(hints[entry.name])
        except TypeError as error:
            raise ToolDefinitionError(f"{where}: parameter {entry.name!r}: {error}") from error
        default = {} if entry.default is entry.empty else {"default": entry.default}
        try:
            json.dumps(default)
        except (TypeError, ValueError) as error:
            raise ToolDefinitionError(f"{where}: the default of {entry.name!r} is no plain data: {error}") from error
        description = {"description": told[entry.name]} if entry.name in told else {}
        properties[entry.name] = {**schema, **description, **default}
    return properties


def _read_docstring(function: Callable[..., Any], where: str) -> tuple[str, dict[str, str]]:
    """Return the description, and the documentation of each parameter in the section Args."""
    text = inspect.getdoc(function) or ""
    parts = _SECTION.split(text)
    description = _one_line(parts[0])
    if not description:
        raise ToolDefinitionError(f"{where}: a tool needs a docstring: the model is told what it does")
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return description, _read_args(sections.get("Args", sections.get("Arguments", "")))


def _read_args(section: str) -> dict[str, str]:
    told: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent(section.strip("\n")).splitlines():
        entry = re.match(r"(\w+)(?: \(.*?\))?:\s*(.*)", line)
        if entry:
            name = entry[1]
        told[name] = _one_line(f"{told.get(name, '')} {entry[2] if entry else line}")
    return {name: text for name, text in told.items() if name}


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------- JSON Schema

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


def schema_of_pydantic(schema: Schema) -> dict[str, Any]:
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
