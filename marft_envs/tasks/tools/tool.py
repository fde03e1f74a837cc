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
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar, get_type_hints, overload

from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.schema import (
    ArgumentError,
    Schema,
    ToolDefinitionError,
    check_arguments,
    schema_of,
    wanted,
)

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
