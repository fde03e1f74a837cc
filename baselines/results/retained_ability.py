"""`marft eval --retain`: what training took away from the base, on an embedded general set.

Before training an adapter equals its base, so the bare base is the state before. The differences are paired: each
sentence and each question is measured with and without the adapter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table

import envs_data
from baselines.results.statistics import Interval, PairedDifference, paired_difference, wilson
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.runs.retained_ability import Ability, Question, abilities


@dataclass(frozen=True)
class Retained:
    """One adapter against its base.

    Attributes:
        perplexity_before: Perplexity of the base on the sentences.
        perplexity_after: Perplexity with the adapter.
        perplexity_ratio: After / before, with its 95 % interval over the sentences; above 1 is worse.
        answers_before: Share of right answers of the base, with its 95 % Wilson interval.
        answers_after: The same with the adapter.
        answers_change: Paired difference of the shares; below 0 is worse.
    """

    perplexity_before: float
    perplexity_after: float
    perplexity_ratio: Interval
    answers_before: Interval
    answers_after: Interval
    answers_change: PairedDifference

    @classmethod
    def of(cls, before: Ability, after: Ability) -> Retained:
        """Compare two measurements on the same texts."""
        change = paired_difference([before.nll], [after.nll])
        return cls(
            before.perplexity,
            after.perplexity,
            Interval(*(math.exp(value) for value in (change.mean, change.low, change.high))),
            wilson(float(before.right.mean()), len(before.right)),
            wilson(float(after.right.mean()), len(after.right)),
            paired_difference([before.right], [after.right]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; intervals are [low, high]."""
        ratio, change = self.perplexity_ratio, self.answers_change
        return {
            "perplexity_before": self.perplexity_before,
            "perplexity_after": self.perplexity_after,
            "perplexity_ratio": ratio.mean,
            "perplexity_ratio_95": [ratio.low, ratio.high],
            "answers_before": self.answers_before.mean,
            "answers_before_95": list(self.answers_before[1:]),
            "answers_after": self.answers_after.mean,
            "answers_after_95": list(self.answers_after[1:]),
            "answers_change": change.mean,
            "answers_change_95": [change.low, change.high],
        }


def retained(team: LanguageModelTeam) -> dict[str, Retained]:
    """Measure each adapter of a team on the embedded set `retain`; by name of the policy.

    Raises:
        ValueError: The team has no adapter.
    """
    sentences = [row["text"] for row in envs_data.attachment("retain", "sentences")]
    questions = [
        Question(row["question"], tuple(row["choices"]), row["answer"]) for row in envs_data.rows("retain", "test")
    ]
    found = abilities(team, sentences, questions)
    return {policy: Retained.of(before, after) for policy, (before, after) in found.items()}


def table(found: Mapping[str, Retained]) -> Table:
    """Return a table for the terminal, a row for each adapter: before → after, and the paired comparison."""
    made = Table("retained", "perplexity", "ratio [95 %]", "right answers", "change [95 %]")
    for policy, each in found.items():
        change = each.answers_change
        made.add_row(
            policy,
            f"{each.perplexity_before:.2f} → {each.perplexity_after:.2f}",
            str(each.perplexity_ratio),
            f"{each.answers_before.mean:.3f} → {each.answers_after.mean:.3f}",
            str(Interval(change.mean, change.low, change.high)),
        )
    return made
