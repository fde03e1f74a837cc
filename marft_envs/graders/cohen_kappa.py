"""Agreement of a grader with people: Cohen's kappa with a confidence interval.

    kappa = (p_o - p_e) / (1 - p_e)

p_o is the fraction of equal labels, p_e the fraction expected by chance from each rater's label frequencies.
The standard error is that of Fleiss, Cohen and Everitt (1969), "Large sample standard errors of kappa and weighted
kappa", Psychological Bulletin 72(5).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

_Z_95 = 1.959963984540054


@dataclass(frozen=True)
class Agreement:
    """The agreement of two raters.

    Attributes:
        kappa: 1 is full agreement, 0 that of chance; NaN if both use one and the same label only.
        low: Lower end of the 95 % interval, at least -1.
        high: Upper end of the interval, at most 1.
        observed: Fraction of equal labels.
        count: Number of items rated by both.
    """

    kappa: float
    low: float
    high: float
    observed: float
    count: int


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> Agreement:
    """Compare the labels of two raters.

    Args:
        first: Labels of one rater.
        second: Labels of the other, of the same items.

    Raises:
        ValueError: No items, or not equally many.

    Examples:
        >>> round(cohen_kappa([1, 1, 0, 0, 1], [1, 0, 0, 0, 1]).kappa, 4)
        0.6154
    """
    if not first or len(first) != len(second):
        raise ValueError(f"kappa: found {len(first)} and {len(second)} labels, wanted equally many and at least one")
    count = len(first)
    joint = {pair: n / count for pair, n in Counter(zip(first, second, strict=True)).items()}
    rows = {label: n / count for label, n in Counter(first).items()}
    columns = {label: n / count for label, n in Counter(second).items()}
    observed = math.fsum(p for (i, j), p in joint.items() if i == j)
    chance = math.fsum(rows[label] * columns.get(label, 0.0) for label in rows)
    if chance >= 1.0:
        return Agreement(math.nan, math.nan, math.nan, observed, count)
    kappa = (observed - chance) / (1 - chance)
    error = math.sqrt(max(0.0, _variance(joint, rows, columns, observed, chance, kappa)) / count)
    return Agreement(kappa, max(-1.0, kappa - _Z_95 * error), min(1.0, kappa + _Z_95 * error), observed, count)


def _variance(
    joint: dict[tuple[Hashable, Hashable], float],
    rows: dict[Hashable, float],
    columns: dict[Hashable, float],
    observed: float,
    chance: float,
    kappa: float,
) -> float:
    """Return n times the asymptotic variance of kappa."""
    agreeing = math.fsum(p * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for (i, j), p in joint.items() if i == j)
    differing = (1 - kappa) ** 2 * math.fsum(
        p * (columns.get(i, 0.0) + rows.get(j, 0.0)) ** 2 for (i, j), p in joint.items() if i != j
    )
    return (agreeing + differing - (kappa - chance * (1 - kappa)) ** 2) / (1 - chance) ** 2
