"""Generate command-line flags from the settings dataclasses, the single source of names, help and checks."""

from __future__ import annotations

import argparse
import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

Presets = Mapping[str, Mapping[str, Any]]


def add_knobs(
    parser: argparse.ArgumentParser,
    settings: type[Any],
    *,
    title: str,
    presets: Presets | None = None,
    preset: str = "",
) -> None:
    """Add a flag per field of a settings dataclass; flags that are not given are None.

    Args:
        parser: Parser that gets the flags.
        settings: Dataclass whose fields become flags.
        title: Heading of the flags in the help.
        presets: Values that override the dataclass's defaults, by preset and field name; the help lists them.
        preset: Name of the preset that is used by default.
    """
    group = parser.add_argument_group(title)
    hints = typing.get_type_hints(settings)
    for field in dataclasses.fields(settings):
        text = f"{field.metadata['help']} ({_defaults(field, presets or {}, preset)})".replace("%", "%%")
        group.add_argument(flag(field.name), help=text, default=None, **_reader(hints[field.name]))


def flag(name: str) -> str:
    """Return the flag of a field: `max_turns` becomes `--max-turns`."""
    return "--" + name.replace("_", "-")


def _defaults(field: dataclasses.Field[Any], presets: Presets, preset: str) -> str:
    """Return the default as text, with the values of presets that differ."""
    values = {name: _shown(values.get(field.name, field.default)) for name, values in presets.items()}
    default = values.get(preset, _shown(field.default))
    others: dict[str, list[str]] = {}
    for name, value in values.items():
        if value != default:
            others.setdefault(value, []).append(name)
    text = f"default: {default}"
    for value, names in others.items():
        text += f"; preset {', '.join(names)}: {value}"
    return text


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _reader(hint: Any) -> dict[str, Any]:
    """Return the keywords of `add_argument` for a type hint."""
    if typing.get_origin(hint) is typing.Literal:
        return {"choices": typing.get_args(hint)}
    if hint in SIMPLE:
        return dict(SIMPLE[hint])
    if typing.get_origin(hint) is tuple:
        return {"type": _names, "metavar": "NAME,NAME"}
    if isinstance(hint, types.UnionType):  # of a number and None
        if int in typing.get_args(hint):
            return {"type": optional_whole, "metavar": "INT|none"}
        return {"type": optional_number, "metavar": "NUMBER|none"}
    return {"type": hint, "metavar": hint.__name__.upper()}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def number(text: str, wanted: str = "a finite number") -> float:
    """Parse a finite number; `wanted` describes it in the error message."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted {wanted}")
    return found


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    return _whole(text, 1)


def seed(text: str) -> int:
    """Parse the seed of random generators, a whole number of at least 0."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted a whole number >= {least}")
    return int(text)


def optional_whole(text: str) -> int | str:
    """Parse a whole number or "none"."""
    try:
        return "none" if text == "none" else int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted a whole number or none") from error


def optional_number(text: str) -> float | str:
    """Parse a finite number or "none"."""
    return "none" if text == "none" else number(text, "a finite number or none")


SIMPLE: Mapping[Any, Mapping[str, Any]] = {  # type hint -> keywords of `add_argument`
    bool: {"action": argparse.BooleanOptionalAction},
    float: {"type": number, "metavar": "NUMBER"},
    bool | float | None: {
        "type": optional_number,
        "nargs": "?",
        "const": 1.0,
        "metavar": "SHARE",
    },  # the flag alone is 1
}


def read_knobs(arguments: argparse.Namespace, settings: type[Any], defaults: Mapping[str, Any]) -> Any:
    """Make the settings from given flags, preset values and the dataclass's defaults, in this order of precedence.

    Args:
        arguments: Parsed flags; those that were not given are None.
        settings: Dataclass of the settings.
        defaults: Values of a preset by field name; fields of other dataclasses are ignored.
    """
    known = {field.name for field in dataclasses.fields(settings)}
    values = {name: value for name, value in defaults.items() if name in known}
    return settings(**(values | given_knobs(arguments, settings)))


def given_knobs(arguments: argparse.Namespace, settings: type[Any]) -> dict[str, Any]:
    """Return the values of all given flags that belong to a settings dataclass, by field name."""
    found = {}
    for field, hint in typing.get_type_hints(settings).items():
        given = getattr(arguments, field, None)
        if given is not None:
            optional = isinstance(hint, types.UnionType)
            found[field] = None if optional and given == "none" else given
    return found
