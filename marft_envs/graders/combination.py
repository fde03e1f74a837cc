"""Combination of several graders: the mean, the minimum, or a weighted mean of their scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from marft_envs.game.task import Task
from marft_envs.graders.base import Grader, Score, Trajectory, ask, sees_trajectory


@dataclass(frozen=True)
class Combination:
    """A combination of graders; if one of them fails, the whole is ungraded.

    Attributes:
        graders: At least one grader.
        weights: One weight per grader, not negative, not all 0; None is the minimum of the scores.
    """

    graders: tuple[Grader, ...]
    weights: tuple[float, ...] | None

    def __post_init__(self) -> None:
        if not self.graders:
            raise ValueError("a combination of graders needs at least one")
        weights = self.weights
        if weights is None:
            return
        if len(weights) != len(self.graders) or not all(0 <= w < math.inf for w in weights) or not any(weights):
            raise ValueError(
                f"weights {weights}: wanted {len(self.graders)} finite numbers, none negative and not all of them 0"
            )

    @property
    def trajectory(self) -> bool:
        """True if one of the graders sees the trajectory."""
        return any(map(sees_trajectory, self.graders))

    def __call__(self, answer: str, task: Task, trajectory: Trajectory = (), /) -> Score:
        """Grade with all and combine."""
        scores = [ask(grader, answer, task, trajectory) for grader in self.graders]
        reason = "; ".join(f"{score.value:g} ({score.reason})" for score in scores)
        if self.weights is None:
            return Score(min(score.value for score in scores), reason)
        whole = math.fsum(w * score.value for w, score in zip(self.weights, scores, strict=True))
        return Score(min(1.0, whole / math.fsum(self.weights)), reason)


def combine(rule: str | Sequence[float], *graders: Grader) -> Combination:
    """Combine graders.

    Args:
        rule: "mean", "min", or a weight for each.
        *graders: At least one grader.

    Raises:
        ValueError: Another rule, or weights that do not fit.
    """
    if rule == "min":
        return Combination(graders, None)
    if rule == "mean":
        return Combination(graders, (1.0,) * len(graders))
    if isinstance(rule, str):
        raise ValueError(f"rule {rule!r}: wanted 'mean', 'min' or a weight for each grader")
    return Combination(graders, tuple(rule))
