"""Tools from functions: name, description, schema, and arguments held against it."""

from __future__ import annotations

from typing import Any, Literal, Optional

import pytest

from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.definition import ArgumentError, Tool, ToolDefinitionError, schema_of, tool, tools_of
from tests.helpers.toy_bank import Bank


def book(
    city: str,
    nights: int,
    price: float = 9.5,
    extras: list[str] | None = None,
    room: Literal["single", "double"] = "single",
    guests: dict[str, int] | None = None,
    late: bool = False,
) -> dict[str, Any]:
    """Book a room.

    Nothing is paid
    before the stay.

    Args:
        city: Where: a name, as
            on the map.
        nights (int): How many.

    Returns:
        Not told.
    """
    return {"city": city}


BOOK = Tool.of(book)


def test_a_tool_is_read_from_signature_and_docstring():
    assert BOOK.to_dict() == {
        "name": "book",
        "description": "Book a room. Nothing is paid before the stay.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where: a name, as on the map."},
                "nights": {"type": "integer", "description": "How many."},
                "price": {"type": "number", "default": 9.5},
                "extras": {
                    "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                    "default": None,
                },
                "room": {"type": "string", "enum": ["single", "double"], "default": "single"},
                "guests": {
                    "anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "null"}],
                    "default": None,
                },
                "late": {"type": "boolean", "default": False},
            },
            "required": ["city", "nights"],
            "additionalProperties": False,
        },
    }
    assert BOOK.signature.startswith("book(city: string, nights: integer, price?: number, extras?: list of string or")


def test_the_tools_of_a_class_come_in_order_with_those_of_its_bases():
    class Vault(Bank):
        @tool
        def lock(self) -> None:
            """Lock it."""

        @tool
        def balance(self, account: str) -> int:
            """Tell nothing."""
            return 0

    found = tools_of(Vault)
    assert list(found) == ["balance", "pay", "note", "misbehave", "lock"]
    assert found["balance"].description == "Tell nothing."
    assert found["lock"].parameters["properties"] == {}
    assert found["lock"].takes_world


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045
        (Literal[1, "a"], {"enum": [1, "a"]}),
        (list[list[bool]], {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}),
    ],
)
def test_types_become_schemas(annotation: Any, schema: dict[str, Any]):
    assert schema_of(annotation) == schema


def no_docstring(a: str) -> None: ...


def no_type(a) -> None:
    """Do."""


def any_type(a: Any) -> None:
    """Do."""


def bare_list(a: list) -> None:
    """Do."""


def number_keys(a: dict[int, str]) -> None:
    """Do."""


def bytes_literal(a: Literal[b"x"]) -> None:
    """Do."""


def star(*a: str) -> None:
    """Do."""


def positional(a: str, /) -> None:
    """Do."""


def mistyped_args(city: str) -> None:
    """Do.

    Args:
        town: Where.
    """


def unknown_name(a: "Nowhere") -> None:  # noqa: F821, UP037
    """Do."""


def bad_default(a: str = object()) -> None:  # type: ignore[assignment]
    """Do."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_docstring, "no_docstring: a tool needs a docstring"),
        (no_type, "parameter 'a' has no type"),
        (any_type, "parameter 'a': found the type typing.Any"),
        (bare_list, "found the type <class 'list'>"),
        (number_keys, r"dict\[int, str\]"),
        (bytes_literal, "wanted strings, numbers"),
        (star, r"\*a: .* has no name"),
        (positional, "has no name"),
        (mistyped_args, r"describes \['town'\]"),
        (unknown_name, "Nowhere"),
        (bad_default, "the default of 'a'"),
        (lambda: None, "a tool needs a docstring"),
    ],
)
def test_what_is_no_tool_is_refused_at_definition(function: Any, message: str):
    with pytest.raises(ToolDefinitionError, match=message):
        tool(function)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call("book", {"city": "Rome"}), "book: 'nights' is missing; wanted integer"),
        (Call("book", {}), "book: 'city' is missing; wanted string; 'nights' is missing; wanted integer"),
        (Call("book", {"city": 3, "nights": 1}), "book: 'city' is 3; wanted string"),
        (Call("book", {"city": "Rome", "nights": 2.0}), "book: 'nights' is 2.0; wanted integer"),
        (Call("book", {"city": "Rome", "nights": True}), "book: 'nights' is true; wanted integer"),
        (Call("book", {"city": "R", "nights": 1, "room": "x"}), """'room' is "x"; wanted one of "single", "double\""""),
        (Call("book", {"city": "R", "nights": 1, "extras": [1]}), "'extras' is [1]; wanted list of string or null"),
        (Call("book", {"city": "R", "nights": 1, "when": 1}), "unknown argument 'when'; it takes city, nights, price"),
        (Call("book", {"nights": 1}, ("Rome", 2)), "book: 'nights' is given twice"),
        (Call("book", {}, tuple(range(8))), "8 arguments without a name; it takes city"),
        (Call("book", {"city": "x" * 500, "nights": "y" * 500}), "'nights' is \"" + "y" * 59 + "...; wanted integer"),
    ],
)
def test_wrong_arguments_are_told_to_the_model(call: Call, message: str):
    with pytest.raises(ArgumentError) as raised:
        BOOK.read_arguments(call)
    assert message in str(raised.value)


def test_right_arguments_come_by_name():
    assert BOOK.read_arguments(Call("book", {"price": 3}, ("Rome", 2))) == {"city": "Rome", "nights": 2, "price": 3}


def test_a_tool_needs_a_name_and_an_object():
    with pytest.raises(ToolDefinitionError, match="1 to 64 letters"):
        Tool("two words", "Do.", {"type": "object"}, print)
    with pytest.raises(ToolDefinitionError, match="JSON Schema of an object"):
        Tool("f", "Do.", {"type": "string"}, print)
