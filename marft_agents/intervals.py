"""95 % confidence intervals of proportions (Wilson), without further packages."""

from __future__ import annotations

import math
from typing import NamedTuple

Z_95 = 1.959963984540054  # 97.5 % quantile of the normal distribution


class Interval(NamedTuple):
    """A 95 % confidence interval around a mean."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def wilson(mean: float, count: int) -> Interval:
    """Compute the 95 % Wilson score interval of a share (Wilson 1927); never degenerate at 0 or 1.

    Args:
        mean: Observed share in [0, 1].
        count: Number of independent observations; 0 gives [0, 1].

    Examples:
        >>> str(wilson(0.5, 100))
        '0.500 [0.404, 0.596]'
    """
    if count == 0:
        return Interval(math.nan, 0.0, 1.0)
    square = Z_95 * Z_95 / count
    centre = (mean + square / 2) / (1 + square)
    half = Z_95 / (1 + square) * math.sqrt(mean * (1 - mean) / count + square / (4 * count))
    return Interval(mean, max(0.0, centre - half), min(1.0, centre + half))
