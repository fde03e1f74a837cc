"""Tool calls as data, and the allowed values of their arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marft_envs.spaces import clean

MAX_DEPTH = 16
HOW = 'write <tool_call>{"name": ..., "arguments": {...}}</tool_call>'


class CallError(ValueError):
    """Text begins like a call but cannot be read as one; the message is for the model that wrote it."""


@dataclass(frozen=True)
class Call:
    """A call as it was read, not yet checked against any tool.

    Attributes:
        name: Name of the tool.
        arguments: Plain data by argument name.
        positional: Arguments without a name, of Python syntax.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    positional: tuple[Any, ...] = ()


def plain(value: Any, depth: int = 0) -> Any:
    """Return plain data with lone surrogates replaced.

    Raises:
        CallError: It is nested too deep, or holds a number that is not finite.
    """
    if depth > MAX_DEPTH:
        raise CallError(f"the arguments are nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise CallError("a number is too large")
    if isinstance(value, dict):
        return {clean(key): plain(entry, depth + 1) for key, entry in value.items()}
    return [plain(entry, depth + 1) for entry in value] if isinstance(value, list) else value
