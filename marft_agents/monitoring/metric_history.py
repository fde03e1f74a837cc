"""Metric history: medians over the first, the preceding and the newest window of updates."""

from __future__ import annotations

import math

import numpy as np


class Series:
    """First and newest values of one metric.

    Args:
        window: Number of values that count as the start, and as now; >= 2.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.first: list[float] = []
        self.last: list[float] = []  # at most five windows

    def add(self, value: float) -> None:
        """Append the value of a new update."""
        if len(self.first) < self.window:
            self.first.append(value)
        self.last = [*self.last, value][-5 * self.window :]

    @property
    def start(self) -> float:
        """Median of the first window without the newest value; NaN where that leaves none."""
        return _median(self.first[:-1] if len(self.last) <= self.window else self.first)

    @property
    def now(self) -> float:
        """Median of the newest window; NaN before it is full."""
        return _median(self.last[-self.window :]) if len(self.last) >= self.window else math.nan

    @property
    def before(self) -> float:
        """Median of up to four windows before the newest; NaN before one of them is full."""
        older = self.last[: -self.window]
        return _median(older) if len(older) >= self.window else math.nan

    @property
    def running(self) -> float:
        """Median of up to one window before the newest value; NaN where there is none."""
        return _median(self.last[-self.window - 1 : -1])


def _median(values: list[float]) -> float:
    """Return the median of the values that are not NaN; NaN without such values."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.median(known)) if known else math.nan
