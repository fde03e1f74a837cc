"""Command-line flags generated from the settings dataclasses: a knob is named, explained and checked in one place."""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any


def add_knobs(parser: argparse.ArgumentParser, settings: type[Any], *, title: str) -> None:
    """Add a flag per field of a settings dataclass; a flag that is not given is None."""
    group = parser.add_argument_group(title)
    hints = typing.get_type_hints(settings)
    for field in dataclasses.fields(settings):
        default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        text = f"{field.metadata['help']} (default: {default})".replace("%", "%%")
        group.add_argument(_flag(field.name), help=text, default=None, **_reader(hints[field.name]))


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _reader(hint: Any) -> dict[str, Any]:
    """Return argparse's keywords for a type hint."""
    if typing.get_origin(hint) is typing.Literal:
        return {"choices": typing.get_args(hint)}
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if typing.get_origin(hint) is tuple:
        return {"type": _names, "metavar": "NAME,NAME"}
    if isinstance(hint, types.UnionType):
        return {"type": _optional_number, "metavar": "NUMBER|none"}
    return {"type": hint, "metavar": hint.__name__.upper()}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _optional_number(text: str) -> float | str:
    return "none" if text == "none" else float(text)


def read_knobs(arguments: argparse.Namespace, settings: type[Any], defaults: Mapping[str, Any]) -> Any:
    """Make the settings from the flags that were given, over the defaults of a preset.

    Args:
        arguments: parsed flags.
        settings: the dataclass.
        defaults: values by field name; fields of other dataclasses are ignored.
    """
    known = {field.name for field in dataclasses.fields(settings)}
    values = {name: value for name, value in defaults.items() if name in known}
    return settings(**(values | given_knobs(arguments, settings)))


def given_knobs(arguments: argparse.Namespace, settings: type[Any]) -> dict[str, Any]:
    """Return the values of the flags of a settings dataclass that were given."""
    found = {}
    for field, hint in typing.get_type_hints(settings).items():
        given = getattr(arguments, field, None)
        if given is not None:
            optional = isinstance(hint, types.UnionType)
            found[field] = None if optional and given == "none" else given
    return found


def from_record(settings: type[Any], record: Mapping[str, Any]) -> Any:
    """Make the settings from their JSON form (lists become tuples)."""
    return settings(**{k: tuple(v) if isinstance(v, list) else v for k, v in record.items()})
