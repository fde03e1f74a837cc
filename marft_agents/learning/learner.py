"""Learner: one update for the whole family of algorithms; settings select the algorithm (see `algorithms`).

An update evaluates the critic on the shared frozen trunk, estimates advantages and regresses the value heads. Then it
trains each agent's adapter alone, one after the other. Without a critic only the advantages and the adapters remain. A
team of one is single-agent training: nothing here depends on the number of agents.

With `compounding='none'` sequential and simultaneous updates are identical. Sources: MARFT, arXiv 2504.16129, sections
4.1-4.3; for the compounded ratios HAPPO, arXiv 2109.11251, and A2PO, arXiv 2302.06205.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from marft_agents.learning.advantages import Array, mean_magnitude, overlong_punishment
from marft_agents.learning.batch import Link, Sample, links
from marft_agents.learning.credit import NO_VALUES, estimate
from marft_agents.learning.critic import TeamCritic
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.objectives import kl_estimate, widening_clip
from marft_agents.learning.policy_update import PolicyStep, Weighted
from marft_agents.learning.scoring import Scorer
from marft_agents.learning.settings import LearnerSettings
from marft_agents.metric_names import metric_prefix
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import FloatArray, Trajectory


class Learner:
    """Trains the adapters of a language-model team, and its critic if it has one, on trajectories.

    Args:
        team: Language-model team; its adapters are changed in place.
        settings: Algorithm and hyperparameters, see `LearnerSettings`.
        seed: Seed of the value heads, the agent order and the mini-batch shuffling.
        total_updates: Number of updates of the run, for the cosine schedule.

    Attributes:
        critic: Value function of the team; None if the settings train none.
        updates: Number of updates done.
        step_scale: Factor on the policies' step size; not part of `state_dict`.

    Raises:
        SettingsError: The team samples greedily.
    """

    def __init__(
        self, team: LanguageModelTeam, settings: LearnerSettings, *, seed: int = 0, total_updates: int = 1
    ) -> None:
        if team.law.greedy:
            raise SettingsError("temperature = 0, wanted > 0: a greedy policy explores nothing and can not be trained")
        self.team = team
        self.settings = settings
        self.total_updates = total_updates
        self.seed = seed
        self.updates = 0
        self.step_scale = 1.0
        self.generator = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        self.scorer = Scorer(team.law, settings.micro_batch)
        if settings.gradient_checkpointing:
            for base in team.bases:
                base.recompute_layers()
        self.critic = TeamCritic(team, settings, seed=seed) if settings.critic else None
        self.optimizers = {
            policy: torch.optim.Adam(
                list(self._base(policy).parameters(policy).values()), lr=settings.policy_lr, eps=settings.adam_epsilon
            )
            for policy in team.policies
        }

    # ------------------------------------------------------------------ one update

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Update the critic and all policies on a batch of episodes.

        Args:
            trajectories: Finished episodes; failed ones are ignored.

        Returns:
            Metrics by name: `critic/...` and `{agent}/...`; empty if no turn was trainable.

        Raises:
            DivergenceError: A reward, value, log-prob, loss or gradient is not finite.
        """
        chain = self._measured(links(trajectories))
        if not chain:
            self.updates += 1
            return {}
        _refuse_non_finite_rewards(chain)
        costs, metrics = self._costs(chain), {}
        values, bootstraps = [NO_VALUES] * len(chain), {}
        if self.critic is not None:
            features = self.critic.features(chain)
            values = self.critic.values(chain, features)
            bootstraps = self.critic.bootstraps(trajectories)
        credit = partial(estimate, trajectories, chain, values, bootstraps, self.settings, costs=costs)
        samples = credit()
        if self.critic is not None:
            lr = self.settings.critic_lr * self._lr_factor()
            metrics = self.critic.fit(samples, features, lr=lr, generator=self.generator)
        if self.updates >= self.settings.value_warmup:
            metrics |= self._train_policies(samples, credit)
        if costs is not None:
            metrics |= _shaping_metrics(self.team.policies, chain, costs)
        self.updates += 1
        return metrics

    # ------------------------------------------------------------------ before the first step

    def _measured(self, chain: Sequence[Link]) -> list[Link]:
        """Add old and reference log-probs to the links, where the update needs them.

        Old log-probs are recomputed where the recorded ones came from another engine or precision, so that the ratio
        starts at 1. This is skipped when the first pass over the whole batch computes them anyway (`PolicyStep`).
        """
        measured = list(chain)
        in_passing = self.settings.mini_batches == 1 and not self.settings.costs_kl
        for policy, agents in self.team.policies.items():
            base = self._base(policy)
            mine = [i for i, link in enumerate(chain) if link.turn.agent in agents]
            again = [i for i in mine if not (in_passing or base.repeats(chain[i].turn.action))]
            for i, old in zip(again, self._logprobs(policy, policy, [chain[i] for i in again]), strict=True):
                measured[i] = replace(measured[i], old=old)
            if self.settings.kl_weight:
                for i, reference in zip(mine, self._logprobs(policy, None, [chain[i] for i in mine]), strict=True):
                    measured[i] = replace(measured[i], reference=reference)
        return measured

    def _logprobs(self, policy: str, adapter: str | None, chain: Sequence[Link]) -> list[FloatArray]:
        return self.scorer.logprobs(self._base(policy), adapter, [link.turn.action for link in chain])

    def _costs(self, chain: Sequence[Link]) -> list[Array] | None:
        """Return per link the reward shaping [n] of its decisions: KL cost and overlong punishment; None without."""
        settings = self.settings
        by_kl = settings.kl_weight if settings.costs_kl else 0.0
        by_length = settings.overlong_share and settings.overlong_penalty
        if not (by_kl or by_length):
            return None
        shaped = []
        for link in chain:
            action = link.turn.action
            costs = np.zeros(len(action.token_ids))
            if by_length:
                punishment = overlong_punishment(len(costs), self.team.law.max_new_tokens, settings.overlong_share)
                costs[-1] += settings.overlong_penalty * punishment
            if by_kl and link.reference is not None:
                old = action.logprobs if link.old is None else link.old
                costs -= by_kl * kl_estimate(torch.as_tensor(link.reference - old), settings.kl_estimator).numpy()
            shaped.append(costs if settings.level == "token" else costs.sum(keepdims=True))
        return shaped

    # ------------------------------------------------------------------ policies

    def _train_policies(self, samples: Sequence[Sample], credit: Callable[..., list[Sample]]) -> dict[str, float]:
        """Train the policies of this update one after the other, the others frozen.

        Args:
            samples: Samples of all agents.
            credit: Estimates the samples again, given the ratios of the policies trained so far (A2PO).
        """
        metrics: dict[str, float] = {}
        carried: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)  # (episode, round) -> ratio so far
        by_policy = self._by_policy(samples)
        waiting = [policy for policy in self._trained_now() if by_policy[policy]]
        count = len(waiting)
        for place in range(1, count + 1):
            if self.settings.compounding == "a2po" and carried:
                by_policy = self._by_policy(credit(ratios=carried))
            policy = self._next(waiting, by_policy, place)
            waiting.remove(policy)
            members = by_policy[policy]
            settings = self._clipped_for(place, count)
            step = PolicyStep(policy, self._base(policy), self.optimizers[policy], self.scorer, settings)
            weighted = [Weighted(s, preceding=carried[s.episode, s.round]) for s in members]
            lr = self.settings.policy_lr * self.step_scale * self._lr_factor()
            metrics |= step.train(weighted, lr=lr, generator=self.generator)
            if self.settings.compounding != "none" and waiting:
                for sample, ratio in zip(members, step.ratios(weighted), strict=True):
                    carried[sample.episode, sample.round] *= ratio
        return metrics

    def _by_policy(self, samples: Sequence[Sample]) -> dict[str, list[Sample]]:
        return {name: [s for s in samples if s.agent in agents] for name, agents in self.team.policies.items()}

    def _next(self, waiting: Sequence[str], samples: Mapping[str, Sequence[Sample]], place: int) -> str:
        """Return the policy to update at position `place` (1-based): the next in order, or by A2PO's semi-greedy rule.

        Under that rule odd positions go to the policy with the largest mean |advantage| after the steps before; ties
        are broken at random. Even positions go to a random policy. Source: arXiv 2302.06205.
        """
        if self.settings.agent_order != "semi-greedy":
            return waiting[0]
        eligible = list(waiting)
        if place % 2:
            magnitudes = {name: mean_magnitude([s.credit for s in samples[name]]) for name in waiting}
            eligible = [name for name in waiting if math.isclose(magnitudes[name], max(magnitudes.values()))]
        return eligible[int(self.generator.integers(len(eligible)))]

    def _clipped_for(self, place: int, count: int) -> LearnerSettings:
        """Return the settings with the clip bounds of position `place` of the `count` policies of this update."""
        settings = self.settings
        share = widening_clip(place, count, settings.clip_start)
        return replace(settings, clip_low=share * settings.clip_low, clip_high=share * settings.clip_high)

    def _trained_now(self) -> list[str]:
        """Return the policies of this update in training order; `_next` reorders them under the semi-greedy rule."""
        names = list(self.team.policies)
        if self.settings.agent_order == "reverse":
            names.reverse()
        if self.settings.agent_interval:
            turn = (self.updates - self.settings.value_warmup) // self.settings.agent_interval
            if self.settings.agent_order == "random":
                cycle, position = divmod(turn, len(names))
                # a seed per cycle: the order must not depend on how often this is called
                names = list(np.random.default_rng([self.seed, cycle]).permutation(names))
                return [str(names[position])]
            return [names[turn % len(names)]]
        if self.settings.agent_order == "random":
            return [str(name) for name in self.generator.permutation(names)]
        return names

    def _base(self, policy: str) -> AdaptedBase:
        return self.team.seat(self.team.policies[policy][0]).base

    def _lr_factor(self) -> float:
        if self.settings.lr_schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * min(1.0, self.updates / max(1, self.total_updates))))

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resume, without the adapters' tensors."""
        return {
            "updates": self.updates,
            "generator": self.generator.bit_generator.state,
            "critic": None if self.critic is None else self.critic.state_dict(),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.generator.bit_generator.state = state["generator"]
        self.updates = state["updates"]


def _refuse_non_finite_rewards(chain: Sequence[Link]) -> None:
    bad = [link for link in chain if not math.isfinite(link.turn.reward)]
    if bad:
        turn = bad[0].turn
        raise DivergenceError(
            f"the reward of agent {turn.agent!r} in round {turn.round} of episode {bad[0].episode} is {turn.reward}: "
            "look at what the environment pays",
            [link.sample(NO_VALUES, NO_VALUES, NO_VALUES) for link in bad],
        )


def _shaping_metrics(
    policies: Mapping[str, Sequence[str]], chain: Sequence[Link], costs: Sequence[Array]
) -> dict[str, float]:
    """Return `{policy}/shaping`: mean over actions of the shaping added to their rewards, not in reported returns."""
    found = {}
    for policy, agents in policies.items():
        added = [own.sum() for link, own in zip(chain, costs, strict=True) if link.turn.agent in agents]
        if added:
            found[f"{metric_prefix(policy)}/shaping"] = float(np.mean(added))
    return found
