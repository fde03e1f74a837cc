"""Fields of settings dataclasses: default, help, range and its check in one place.

`knob` attaches help and range to a dataclass field. Command-line flags are generated from these fields, so a setting
is declared once.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any, Literal


class SettingsError(ValueError):
    """A setting out of its range, or settings that contradict each other; names the knob and what is wanted."""


def knob(default: Any, text: str, check: Callable[[Any], bool] | None = None, wanted: str = "") -> Any:
    """Declare a dataclass field with its help and range.

    Args:
        default: its default value.
        text: what it does, with its unit.
        check: returns True for a valid value; None accepts all.
        wanted: the range in words, for the error.
    """
    return dataclasses.field(default=default, metadata={"help": text, "check": check, "wanted": wanted})


def check_knobs(settings: Any) -> None:
    """Raise SettingsError for the first field whose value is outside its declared range."""
    hints = typing.get_type_hints(type(settings))
    for field in dataclasses.fields(settings):
        value, check = getattr(settings, field.name), field.metadata.get("check")
        choices = typing.get_args(hints[field.name]) if typing.get_origin(hints[field.name]) is Literal else ()
        if choices and value not in choices:
            raise SettingsError(f"{field.name} = {value!r}, wanted {' or '.join(choices)}")
        if check is not None and not check(value):
            raise SettingsError(f"{field.name} = {value!r}, wanted {field.metadata['wanted']}")
