"""Validation on held-out tasks during training, with the code of evaluation, and the best update so far.

Validation uses no random numbers of training, so the trained adapters are the same bytes with and without it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from marft_agents.policies.policy import Policy
from marft_agents.rollouts.rollout import MAX_TURNS
from marft_agents.runs.evaluation import Interval, evaluate
from marft_agents.trajectory import TERM

AFTER, BEFORE = "validation", "validation_before"  # prefixes of metrics: after an update, and before the first one


class Best(NamedTuple):
    """The best validated update of a run.

    Attributes:
        updates: Number of updates done when it was validated; 0 is the untrained team.
        success: Share of solved tasks, in [0, 1].
    """

    updates: int
    success: float


@dataclass(frozen=True)
class Validator:
    """Plays held-out tasks with a team.

    Attributes:
        make_env: Makes an independent environment of the held-out tasks.
        policy: Policy that answers for all agents: the team, under the sampling parameters of validation.
        scenarios: Reset options of each task.
        every: Number of updates between two validations, >= 1.
        seed: Seed of the sampling; fixed, so that updates are compared on common random numbers.
        num_envs: Number of games played at the same time.
        max_turns: Most turns of an episode; one that is not over by then has failed; 0: no limit.
        on_failures: Called once per validation with failed episodes, with their number and the first cause.
    """

    make_env: Callable[[], Any]
    policy: Policy
    scenarios: Sequence[Mapping[str, Any]]
    every: int
    seed: int = 0
    num_envs: int = 64
    max_turns: int = MAX_TURNS
    on_failures: Callable[[str], None] | None = None

    def due(self, done: int, *, last: bool) -> bool:
        """Return True if a validation is due after `done` updates; `last` says that the run ends with them."""
        return last or done % self.every == 0

    def metrics(self, prefix: str = AFTER) -> dict[str, float]:
        """Play every task once and return the metrics.

        Returns:
            `{prefix}/success`, `low` and `high` (95 % Wilson interval; missing if every episode failed), `tokens`
            (mean per episode), `episodes`, `failed`, and `seconds/{prefix}`; `{prefix}/return` and
            `{prefix}/term_NAME`, means as in training; `{prefix}/prompt_tokens_sum` and the other measures of
            `metric_names.TEAM_LEDGER`.
        """
        started = time.perf_counter()
        played = evaluate(
            self.make_env,
            self.policy,
            self.scenarios,
            seeds=[self.seed],
            num_envs=self.num_envs,
            patience=math.inf,  # batches must not depend on the clock, so that a resumed run repeats them
            max_turns=self.max_turns,
        )
        causes = [t.failure for t in played.trajectories if t.failure is not None]
        if causes and self.on_failures is not None:
            self.on_failures(f"{len(causes)} of {len(played.trajectories)} episodes failed; the first: {causes[0]}")
        success = played.accuracy
        scored = {} if math.isnan(success.mean) else dict(zip(("success", "low", "high"), success, strict=True))
        found = scored | {
            "tokens": played.tokens_per_episode,
            "episodes": float(len(played.trajectories)),
            "failed": float(len(causes)),
        }
        if played.mean_return is not None:
            found["return"] = played.mean_return
        found |= {f"{TERM}{name}": value for name, value in played.terms.items()}
        named = {f"{prefix}/{name}": value for name, value in found.items()}
        if played.ledger is not None:
            named |= played.ledger.team_metrics(prefix)
        return named | {f"seconds/{prefix}": time.perf_counter() - started}


def better(best: Best | None, updates: int, metrics: Mapping[str, float], prefix: str = AFTER) -> Best | None:
    """Return the better of the best update so far and the one validated now; the earlier one in a tie."""
    success = metrics.get(f"{prefix}/success")
    if success is None or (best is not None and success <= best.success):
        return best
    return Best(updates, success)


def validations(history: Sequence[Mapping[str, float]]) -> list[tuple[int, Interval]]:
    """Return the validations in a run's metrics as (updates done, success with its interval)."""
    found = []
    for update, metrics in enumerate(history):
        for prefix, done in ((BEFORE, 0), (AFTER, update + 1)):
            if f"{prefix}/success" in metrics:
                found.append((done, Interval(*(metrics[f"{prefix}/{name}"] for name in ("success", "low", "high")))))
    return found
