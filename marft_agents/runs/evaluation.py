"""Evaluation on a fixed list of scenarios, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from marft_agents.intervals import Interval, wilson
from marft_agents.metric_names import agent_of
from marft_agents.monitoring.action_statistics import behaviour
from marft_agents.monitoring.cost_ledger import Ledger, ledger_of
from marft_agents.monitoring.leaks import Leaks, leaked, leaks
from marft_agents.monitoring.tool_statistics import ToolUse, tool_use
from marft_agents.monitoring.work_sharing import work_shares
from marft_agents.policies.policy import Policy, TimedPolicy
from marft_agents.rollouts.rollout import MAX_TURNS, EpisodeStart, collect
from marft_agents.trajectory import Action, Trajectory, mean_terms, score

NUM_ENVS = 128  # games played at the same time


@dataclass(frozen=True)
class Evaluation:
    """Outcome of playing every scenario once per seed.

    Attributes:
        scores: Float64 [scenarios, seeds], 1 for success; NaN where the episode failed (unscored is not wrong).
        trajectories: All episodes, seed by seed.
        ledger: Tokens, turns, calls and seconds of all episodes; None if not counted.
    """

    scores: npt.NDArray[np.float64]
    trajectories: tuple[Trajectory, ...]
    ledger: Ledger | None = None

    @property
    def per_scenario(self) -> npt.NDArray[np.float64]:
        """Mean score of each scored scenario over its seeds."""
        means = _scenario_means(self.scores)
        return means[~np.isnan(means)]

    @property
    def accuracy(self) -> Interval:
        """Mean score with its Wilson interval; the unit is the scenario: seeds of one are not independent."""
        values = self.per_scenario
        return wilson(float(values.mean()) if len(values) else math.nan, len(values))

    @property
    def tokens(self) -> npt.NDArray[np.float64]:
        """Sampled tokens of the whole team by episode, float64 [scenarios, seeds]; NaN where it failed."""
        return self._grid([math.nan if t.failure is not None else t.num_tokens for t in self.trajectories])

    @property
    def returns(self) -> npt.NDArray[np.float64]:
        """Undiscounted team return by episode, float64 [scenarios, seeds]; NaN where it failed."""
        return self._grid([math.nan if t.failure is not None else t.team_return for t in self.trajectories])

    @property
    def mean_return(self) -> float | None:
        """Mean undiscounted team return over the episodes that did not fail; None if all failed."""
        returns = [t.team_return for t in self.trajectories if t.failure is None]
        return float(np.mean(returns)) if returns else None

    @property
    def terms(self) -> dict[str, float]:
        """Mean of each term of the team reward before weighting, over the episodes that have it."""
        return mean_terms(self.trajectories)

    @property
    def tools(self) -> tuple[ToolUse, Mapping[str, ToolUse]]:
        """Tool calls and hand-offs of the team, and of each agent that acted."""
        return tool_use(self.trajectories)

    @property
    def sharing(self) -> dict[str, dict[str, float | None]]:
        """Shares in work, errors and messages by agent, see `monitoring.work_sharing`; empty without records."""
        return work_shares(self.trajectories)

    @property
    def violation(self) -> npt.NDArray[np.float64] | None:
        """1 where an episode broke a rule, float64 [scenarios, seeds], NaN where it failed; None if never recorded."""
        if self.violations is None:
            return None
        told = [math.nan if t.failure is not None else t.infos.get("violation", math.nan) for t in self.trajectories]
        return self._grid(told)

    @property
    def leaks(self) -> tuple[Leaks, Mapping[str, Leaks]]:
        """Leaked secrets of the team and of each agent that has any, see `monitoring.leaks`."""
        return leaks(self.trajectories)

    @property
    def leak(self) -> npt.NDArray[np.float64] | None:
        """1 where a secret leaked, float64 [scenarios, seeds], NaN without secrets; None if no episode has any."""
        told = [leaked(trajectory) for trajectory in self.trajectories]
        if all(one is None for one in told):
            return None
        return self._grid([math.nan if one is None else one for one in told])

    def _grid(self, by_episode: Sequence[float]) -> npt.NDArray[np.float64]:
        """Arrange one value per episode, which come seed by seed, as [scenarios, seeds]."""
        scenarios, seeds = self.scores.shape
        return np.asarray(by_episode, np.float64).reshape(seeds, scenarios).T

    @property
    def tokens_per_episode(self) -> float:
        """Mean number of sampled tokens of the whole team, over the episodes that did not fail."""
        counts = [t.num_tokens for t in self.trajectories if t.failure is None]
        return float(np.mean(counts)) if counts else 0.0

    @property
    def violations(self) -> float | None:
        """Share of episodes with a rule violation, over those that did not fail; None if no infos record it."""
        told = [t.infos["violation"] for t in self.trajectories if t.failure is None and "violation" in t.infos]
        return float(np.mean(told)) if told else None

    @cached_property
    def _behaviour(self) -> dict[str, float]:
        return behaviour(self.trajectories)

    @property
    def prompts_shortened(self) -> float:
        """Share of the prompts that lost tokens to fit the context window, over the episodes that did not fail."""
        return self._behaviour.get("team/prompts_shortened", 0.0)

    @property
    def prompt_tokens(self) -> dict[str, dict[str, float]]:
        """Mean and largest number of prompt tokens of each agent whose actions have tokens."""
        found = self._behaviour
        prefixes = [name.removesuffix("/prompt_tokens_mean") for name in found if name.endswith("/prompt_tokens_mean")]
        return {
            agent_of(prefix): {
                "mean": found[f"{prefix}/prompt_tokens_mean"],
                "max": found[f"{prefix}/prompt_tokens_max"],
            }
            for prefix in prefixes
        }

    @property
    def failures(self) -> int:
        """Number of episodes that failed for reasons outside of the agents."""
        return sum(t.failure is not None for t in self.trajectories)


def evaluate(
    make_env: Callable[[], Any],
    policy: Policy,
    scenarios: Sequence[Mapping[str, Any]],
    *,
    seeds: Sequence[int] = (0,),
    num_envs: int = NUM_ENVS,
    on_end: Callable[[Trajectory], None] | None = None,
    on_turn: Callable[[], None] = lambda: None,
    patience: float = 0.25,
    max_turns: int = MAX_TURNS,
    prefixes: Sequence[tuple[Action, ...]] = (),
) -> Evaluation:
    """Play every scenario once per seed, with the rollout code of training.

    Args:
        make_env: Makes an independent AEC environment.
        policy: Policy that answers for all agents.
        scenarios: Reset options of each scenario; an optional key "seed" is its environment seed.
        seeds: Seeds of the policies' sampling.
        num_envs: Number of games played at the same time.
        on_end: Called with each finished episode.
        on_turn: Called after each action of the policy.
        patience: Longest wait for a larger batch, see `rollouts.rollout.collect`; `math.inf` makes results a function
            of the arguments alone.
        max_turns: Most turns of an episode; one that is not over by then has failed; 0: no limit.
        prefixes: First actions of each scenario, to replay before the policy is asked. Empty: the policy plays all.
    """
    timed = TimedPolicy(policy)
    columns, trajectories = [], []
    for seed in seeds:
        episodes = [
            EpisodeStart(i, i, int(options.get("seed", i)), {k: v for k, v in options.items() if k != "seed"}, prefix)
            for i, (options, prefix) in enumerate(zip(scenarios, prefixes or [()] * len(scenarios), strict=True))
        ]
        played = collect(
            make_env,
            timed,
            episodes,
            seed=seed,
            num_envs=num_envs,
            on_end=on_end,
            on_turn=on_turn,
            patience=patience,
            max_turns=max_turns,
        )
        columns.append([score(trajectory) for trajectory in played])
        trajectories += played
    scores = np.asarray(columns, np.float64).T.reshape(len(scenarios), len(seeds))
    caches = getattr(policy, "caches", None)  # of language models; agents of other policies share none
    return Evaluation(scores, tuple(trajectories), ledger_of(trajectories, caches, seconds_generation=timed.seconds))


def _scenario_means(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean over the scored seeds, float64 [scenarios]; NaN where no seed was scored."""
    scored = ~np.isnan(scores)
    counts = scored.sum(axis=1)
    means: npt.NDArray[np.float64] = np.where(scored, scores, 0.0).sum(axis=1) / np.maximum(counts, 1)
    means[counts == 0] = math.nan
    return means
