"""Fields of settings dataclasses: default, help, range and range check in one place.

`knob` attaches help and range to a dataclass field. Command-line flags are generated from these fields, so a setting
is declared once.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable
from numbers import Integral
from typing import Any, Literal


class SettingsError(ValueError):
    """A setting out of its range, or contradictory settings; names the setting and the wanted value."""


def knob(default: Any, text: str, check: Callable[[Any], bool] | None = None, wanted: str = "", **further: Any) -> Any:
    """Declare a dataclass field with its help text and range.

    Args:
        default: Default value of the field.
        text: Help text: the effect of the setting, with its unit.
        check: Returns True for a valid value; None accepts all values.
        wanted: The range in words, for the error message.
        **further: Further metadata of the field, for checks of its dataclass.
    """
    return dataclasses.field(default=default, metadata={"help": text, "check": check, "wanted": wanted, **further})


def check_knobs(settings: Any) -> None:
    """Raise SettingsError for the first field whose value is outside its declared range."""
    hints = _hints(settings.__class__)
    for field in dataclasses.fields(settings):
        value, check = getattr(settings, field.name), field.metadata.get("check")
        choices = typing.get_args(hints[field.name]) if typing.get_origin(hints[field.name]) is Literal else ()
        if choices and value not in choices:
            raise SettingsError(f"{field.name} = {value!r}, wanted {' or '.join(choices)}")
        if hints[field.name] is int and not isinstance(value, Integral):
            raise SettingsError(f"{field.name} = {value!r}, wanted a whole number")
        if check is not None and not _passes(check, value):
            raise SettingsError(f"{field.name} = {value!r}, wanted {field.metadata['wanted']}")


def _passes(check: Callable[[Any], bool], value: Any) -> bool:
    try:
        return check(value)
    except TypeError:  # a text beside a number
        return False


@functools.cache  # evaluating annotations compiles them, which costs more than a decoding step's bookkeeping
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
