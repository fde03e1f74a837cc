"""Numeric infos for RL libraries: the same keys and shapes for all agents from the first reset on.

A string or a None in an info, or a key that appears later, breaks TorchRL in four different ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_PLAIN = frozenset((int, float, bool))
_NUMBERS = (int, float, np.number, np.bool_)


class NumericInfos:
    """Filter for infos; the first infos fix keys and shapes."""

    def __init__(self) -> None:
        self._blank: dict[str, Any] | None = None
        self._plain = False

    def of(self, infos: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return new infos: non-numeric entries are left out; missing ones and those of another shape are zero.

        Examples:
            >>> numeric = NumericInfos()
            >>> numeric.of({"a_0": {"turn": 1, "author": "b_0", "score": None}})
            {'a_0': {'turn': 1}}
            >>> numeric.of({"a_0": {"late": 2.0}})
            {'a_0': {'turn': 0}}
        """
        if self._blank is None:
            self._blank = {}
            for info in infos.values():
                for key, value in info.items():
                    if _is_numeric(value) and key not in self._blank:
                        self._blank[key] = np.zeros_like(value) if isinstance(value, np.ndarray) else type(value)(0)
            self._plain = _PLAIN.issuperset(map(type, self._blank.values()))
        numbers: dict[str, dict[str, Any]] = {}
        for agent, info in infos.items():
            # Nearly always all is plain numbers under the known keys, so that a copy is all there is to do.
            if info.keys() == self._blank.keys() and self._plain and _PLAIN.issuperset(map(type, info.values())):
                numbers[agent] = dict(info)
                continue
            numbers[agent] = kept = {}
            for key, zero in self._blank.items():
                value = info.get(key)
                kept[key] = value if type(value) in _PLAIN and type(zero) in _PLAIN else _fit(value, zero)
        return numbers


def _fit(value: Any, zero: Any) -> Any:
    if not _is_numeric(value) or np.shape(value) != np.shape(zero):
        value = zero
    return value.copy() if isinstance(value, np.ndarray) else value


def _is_numeric(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return isinstance(value, _NUMBERS)
