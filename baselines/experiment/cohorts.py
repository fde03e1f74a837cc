"""Scores by cohort: scenarios grouped by a property of their task, such as level, subject, grade or world.

`marft eval` and `marft compare` group alike. A property with one value for all scenarios makes no cohorts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from marft_agents.intervals import Interval, wilson

Cohort = tuple[str, str]
Mask = npt.NDArray[np.bool_]


class CohortError(ValueError):
    """A cohort that no scenario belongs to; the message lists those there are."""


@dataclass(frozen=True)
class Cohorts:
    """Properties of the scenarios of an evaluation.

    Attributes:
        values: Value of each scenario by property, as text; "none" where its task has none.
    """

    values: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, record: Mapping[str, Sequence[Any]]) -> Cohorts:
        """Read the entry "cohorts" of an evaluation or of a scenario list."""
        values = {}
        for name, told in record.items():
            values[name] = ["none" if value is None else str(value) for value in told]
        return cls(values)

    def rows(self) -> list[Cohort]:
        """Return the cohorts of the properties with several values, in order."""
        rows: list[Cohort] = []
        for name, told in self.values.items():
            if len(set(told)) > 1:
                rows += [(name, value) for value in sorted(set(told), key=by_size)]
        return rows

    def chosen(self, cohort: Cohort) -> Mask:
        """Return which scenarios belong to a cohort, bool [scenarios].

        Raises:
            CohortError: None does.
        """
        name, value = cohort
        if name not in self.values:
            raise CohortError(f"no cohort {name!r}; there are: {', '.join(self.values) or 'none'}")
        if value not in self.values[name]:
            there = ", ".join(sorted(set(self.values[name]), key=by_size))
            raise CohortError(f"no scenario has {name}={value}; there are: {there}")
        return np.array([one == value for one in self.values[name]])


def by_size(text: str) -> tuple[bool, int, str]:
    """Return a key that sorts numbers by size, before other texts."""
    is_number = text.isdecimal() and len(text) < 20
    return not is_number, int(text) if is_number else 0, text


class CohortScore(NamedTuple):
    """Scores of one cohort.

    Attributes:
        cohort: Name and value of the cohort; None for all scenarios.
        scenarios: Number of scenarios.
        failed: Number of failed episodes among them; they are in no score.
        average: Mean score of the k samples per scenario (avg@k) with its 95 % interval; accuracy for k = 1.
        pass_hat: Estimate of pass^k by k, from 2 to the number of samples, with its 95 % interval. Empty where scores
            are not 0 or 1.
    """

    cohort: Cohort | None
    scenarios: int
    failed: int
    average: Interval
    pass_hat: Mapping[int, Interval]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; NaN is null."""
        return {
            "cohort": None if self.cohort is None else dict([self.cohort]),
            "scenarios": self.scenarios,
            "failed_episodes": self.failed,
            "avg_at_k": _plain(self.average),
            "pass_hat_k": {str(k): _plain(found) for k, found in self.pass_hat.items()},
        }


def _plain(found: Interval) -> dict[str, Any]:
    return {"mean": None if math.isnan(found.mean) else found.mean, "interval_95": [found.low, found.high]}


def cohort_scores(scores: npt.NDArray[np.float64], cohorts: Cohorts) -> list[CohortScore]:
    """Return the scores of all scenarios, then of each cohort.

    The intervals are Wilson's, with the scenario as the unit: the samples of one scenario are not independent. They
    hold for means of values between 0 and 1, and are conservative where such values are no shares of 0 and 1.

    Args:
        scores: Float64 [scenarios, samples]; NaN is a failed episode.
        cohorts: Properties of the scenarios.
    """
    found = [_score(None, scores)]
    for cohort in cohorts.rows():
        found.append(_score(cohort, scores[cohorts.chosen(cohort)]))
    return found


def _score(cohort: Cohort | None, scores: npt.NDArray[np.float64]) -> CohortScore:
    """Return the scores of the scenarios of a cohort, float64 [scenarios, samples]; NaN is a failed episode."""
    scored = ~np.isnan(scores)  # [scenarios, samples]
    samples = scored.sum(axis=1)  # [scenarios], those that did not fail
    sums = np.where(scored, scores, 0.0).sum(axis=1)  # [scenarios]
    means = sums[samples > 0] / samples[samples > 0]  # of scenarios with any
    average = wilson(float(means.mean()) if len(means) else math.nan, len(means))
    pass_hat = {}
    # "All k attempts succeed" has a meaning for scores of 0 and 1 alone, and for scenarios with k samples.
    if np.isin(scores[scored], (0.0, 1.0)).all():
        for k in range(2, scores.shape[1] + 1):
            enough = samples >= k
            if enough.any():
                pass_hat[k] = wilson(pass_hat_k(sums[enough], samples[enough], k), int(enough.sum()))
    return CohortScore(cohort, len(scores), int((~scored).sum()), average, pass_hat)


def pass_hat_k(successes: npt.ArrayLike, samples: npt.ArrayLike, k: int) -> float:
    """Estimate pass^k: the probability that k independent attempts at a scenario all succeed.

    pass^k = mean over scenarios of C(c, k) / C(n, k), unbiased for c successes in n samples (tau-bench, Yao et al.
    2024, arXiv:2406.12045, section 5.1).

    Args:
        successes: Number of successes c of each scenario, int [scenarios] in [0, n].
        samples: Number of samples n of each scenario, int [scenarios] or one for all.
        k: Number of attempts, in [1, n].

    Example: C(2, 2) / C(4, 2) = 1/6 and C(4, 2) / C(4, 2) = 1; mean 7/12.
        >>> round(pass_hat_k([2, 4], samples=4, k=2), 4)
        0.5833
    """
    counts = np.asarray(successes)
    taken = np.broadcast_to(np.asarray(samples), counts.shape)
    if not 1 <= k <= taken.min(initial=k):
        raise ValueError(f"k = {k}, wanted 1 <= k <= samples = {taken.min()}")
    if counts.ndim != 1 or not len(counts) or not np.all((counts >= 0) & (counts <= taken) & (counts % 1 == 0)):
        raise ValueError(f"successes: wanted whole numbers [scenarios] in [0, {taken.max(initial=0)}]")
    estimates = []
    for c, n in zip(counts.tolist(), taken.tolist(), strict=True):
        estimates.append(math.comb(int(c), k) / math.comb(int(n), k))
    return float(np.mean(estimates))
