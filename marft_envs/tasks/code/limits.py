"""Parser for time and memory limits in data sets: numbers, text with a unit, durations."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from envs_data import DataError
from marft_envs.data.files import Row
from marft_envs.sandbox.judge_data import Limits

MOST_MEMORY_MB = 2048  # memory that a slot of the judge has for a program
_QUANTITY = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Z]{0,12})\s*")
_SECONDS = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1e-3),
}
_MEGABYTES = {
    **dict.fromkeys(("b", "byte", "bytes"), 2.0**-20),
    **dict.fromkeys(("kb", "kib", "kilobyte", "kilobytes"), 2.0**-10),
    **dict.fromkeys(("", "mb", "mib", "megabyte", "megabytes"), 1.0),
    **dict.fromkeys(("gb", "gib", "gigabyte", "gigabytes"), 2.0**10),
}


class UnsuitedError(DataError):
    """A problem that may be sound but cannot be judged here."""


def read_limits(row: Row, time: Any, memory: Any) -> Limits:
    """Return the limits of a problem.

    Args:
        row: Row for error messages.
        time: Seconds, text like "2 seconds", or {seconds, nanos} (a protobuf duration); None is the default.
        memory: MiB, or text like "256 megabytes"; None is the default.

    Raises:
        UnsuitedError: They cannot be read, or are more than the judge allows.
    """
    usual = Limits()
    if isinstance(time, Mapping):
        time = (time.get("seconds") or 0) + (time.get("nanos") or 0) / 1e9 or None  # a protobuf's zero is no value
    cpu_s = _quantity(row, "time_limit", time, _SECONDS)
    memory_mb = _quantity(row, "memory_limit", memory, _MEGABYTES)
    try:
        return Limits(
            cpu_s=usual.cpu_s if cpu_s is None else cpu_s,
            memory_mb=usual.memory_mb if memory_mb is None else min(MOST_MEMORY_MB, math.ceil(memory_mb)),
        )
    except ValueError as error:
        raise UnsuitedError(row.where, str(error), "limits within these bounds", "fix or remove the row") from error


def _quantity(row: Row, name: str, value: Any, units: Mapping[str, float]) -> float | None:
    """Return a number in base units; None if there is none."""
    text = "" if value is None else str(value).strip()
    if text.lower() in ("", "none", "null", "nan"):
        return None
    match = _QUANTITY.fullmatch(text[:64])
    if match is None or (unit := match[2].lower()) not in units:
        raise UnsuitedError(row.where, f"{name} {value!r}", "a number and a unit, like 2 or '2 seconds'", "fix it")
    return float(match[1]) * units[unit]
