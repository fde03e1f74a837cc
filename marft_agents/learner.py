"""The MARFT learner: multi-agent PPO along the agent chain, at action level (MARFT-A) or token level (MARFT-T).

One update: values of every decision from the shared frozen trunk, chained GAE, value regression, then agent by
agent a clipped policy step on that agent's adapter alone. A team of one is single-agent PPO; nothing here knows how
many agents there are. Sources: MARFT, arXiv 2504.16129, sections 4.1-4.3; HAPPO, arXiv 2109.11251, for the
compounding ratio.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marft_agents.batch import Sample, estimate, links
from marft_agents.critic import TeamCritic
from marft_agents.forward import TokenScores, action_hidden, plan_micro_batches, score_tokens
from marft_agents.language_model import LanguageModelTeam
from marft_agents.objectives import (
    action_divisors,
    action_log_ratios,
    clipped_surrogate,
    kl_estimate,
)
from marft_agents.records import Trajectory
from marft_agents.settings import LearnerSettings, SettingsError


class Learner:
    """Trains the adapters of a language-model team and its critic on trajectories.

    Args:
        team: the policies; their adapters are changed in place.
        settings: see `LearnerSettings`.
        seed: of the value heads, the agent order and the mini-batch shuffling.
        total_updates: length of the run, for the cosine schedule.

    Raises:
        SettingsError: the team samples greedily.
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
        self.generator = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        self.critic = TeamCritic(team, settings, seed=seed)
        self.optimizers = {
            policy: torch.optim.Adam(
                list(self._tensors(policy).values()), lr=settings.policy_lr, eps=settings.adam_epsilon
            )
            for policy in team.policies
        }

    # ------------------------------------------------------------------ one update

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Learn from a batch of episodes.

        Args:
            trajectories: finished episodes; failed ones are ignored.

        Returns:
            Metrics by name: `critic/...` and `{agent}/...`; empty if nothing was trainable.
        """
        chain = links(trajectories)
        if not chain:
            self.updates += 1
            return {}
        features = self.critic.features(chain)
        values = self.critic.values(chain, features)
        samples = estimate(trajectories, chain, values, self.critic.bootstraps(trajectories), self.settings)
        lr = self.settings.critic_lr * self._lr_factor()
        metrics = self.critic.fit(samples, features, lr=lr, generator=self.generator)
        if self.updates >= self.settings.value_warmup:
            metrics |= self._train_policies(samples)
        self.updates += 1
        return metrics

    # ------------------------------------------------------------------ policies

    def _train_policies(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Train this update's policies one after the other, the others frozen."""
        metrics: dict[str, float] = {}
        carried: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)  # (episode, round) -> ratio so far
        policies = self.team.policies
        for policy in self._trained_now():
            members = [s for s in samples if s.agent in policies[policy]]
            if not members:
                continue
            weights = [carried[s.episode, s.round] if self.settings.compounding else 1.0 for s in members]
            metrics |= self._train_policy(policy, members, weights)
            if self.settings.compounding:
                for sample, ratio in zip(members, self._ratios(policy, members), strict=True):
                    carried[sample.episode, sample.round] *= ratio
        return metrics

    def _trained_now(self) -> list[str]:
        """Return the policies this update trains, in order."""
        names = list(self.team.policies)
        if self.settings.agent_order == "reverse":
            names.reverse()
        if self.settings.agent_interval:
            turn = (self.updates - self.settings.value_warmup) // self.settings.agent_interval
            if self.settings.agent_order == "random":
                cycle, position = divmod(turn, len(names))
                # every cycle has an order of its own that does not depend on how often this is called
                names = list(np.random.default_rng([self.seed, cycle]).permutation(names))
                return [str(names[position])]
            return [names[turn % len(names)]]
        if self.settings.agent_order == "random":
            return [str(name) for name in self.generator.permutation(names)]
        return names

    def _train_policy(self, policy: str, samples: Sequence[Sample], weights: Sequence[float]) -> dict[str, float]:
        settings = self.settings
        optimizer = self.optimizers[policy]
        for group in optimizer.param_groups:
            group["lr"] = settings.policy_lr * self._lr_factor()
        statistics = _Statistics()
        for epoch in range(settings.ppo_epochs):
            order = np.arange(len(samples)) if settings.mini_batches == 1 else self.generator.permutation(len(samples))
            for part in np.array_split(order, min(settings.mini_batches, len(samples))):
                optimizer.zero_grad(set_to_none=True)
                kl = self._accumulate(policy, samples, weights, list(part), statistics, first=epoch == 0)
                if settings.kl_stop is not None and kl > settings.kl_stop:
                    statistics.stopped = True
                    optimizer.zero_grad(set_to_none=True)
                    return statistics.summary(policy, samples)
                norm = nn.utils.clip_grad_norm_(self._tensors(policy).values(), settings.max_grad_norm)
                if not torch.isfinite(norm):
                    raise FloatingPointError(
                        f"update {self.updates}: the gradient of policy {policy!r} is {norm.item()}; "
                        "lower policy_lr or look at the last episodes"
                    )
                statistics.grad_norms.append(norm.item())
                optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return statistics.summary(policy, samples)

    def _accumulate(
        self,
        policy: str,
        samples: Sequence[Sample],
        weights: Sequence[float],
        part: list[int],
        statistics: _Statistics,
        *,
        first: bool,
    ) -> float:
        """Add the gradient of one mini-batch, normalised once by its number of decisions; return its KL."""
        settings = self.settings
        decisions = sum(len(samples[i].advantages) for i in part)
        tokens = sum(len(samples[i].action.token_ids) for i in part)
        kl_sum = 0.0
        for micro in self._micro_batches(samples, part):
            rows = [samples[i] for i in micro]
            scores = self._score(policy, rows)
            log_ratios = self._log_ratios(rows, scores.logprobs)
            advantages = torch.as_tensor(
                np.concatenate([samples[i].advantages * weights[i] for i in micro]),
                dtype=torch.float32,
                device=log_ratios.device,
            )
            surrogate = clipped_surrogate(
                log_ratios, advantages, clip_low=settings.clip_low, clip_high=settings.clip_high
            )
            loss = surrogate.losses.sum() / decisions - settings.entropy_bonus * scores.entropy.sum() / tokens
            loss.backward()
            kl = kl_estimate(log_ratios.detach())
            kl_sum += kl.sum().item()
            statistics.add(log_ratios.detach(), surrogate.clipped, kl, scores.entropy.detach(), first)
        return kl_sum / decisions

    def _micro_batches(self, samples: Sequence[Sample], part: Sequence[int]) -> list[list[int]]:
        """Cut samples into forward passes of similar sequences."""
        sequences = [np.concatenate([samples[i].action.prompt_ids, samples[i].action.token_ids]) for i in part]
        plans = plan_micro_batches(sequences, self.settings.micro_batch)
        return [[part[i] for i in plan] for plan in plans]

    def _score(self, policy: str, rows: Sequence[Sample]) -> TokenScores:
        """Return the current policy's log-probs of the recorded tokens of some samples, flat."""
        base = self.team.seat(rows[0].agent).base
        tokens = torch.as_tensor(
            np.concatenate([s.action.token_ids for s in rows]), dtype=torch.long, device=base.device
        )
        supports = [s.action.support for s in rows]
        with base.wearing(policy):
            hidden = action_hidden(
                base.trunk,
                [s.action.prompt_ids for s in rows],
                [s.action.token_ids for s in rows],
                base.device,
            )
            return score_tokens(
                base.head,
                hidden,
                tokens,
                self.team.law,
                None if supports[0] is None else [ids for s in supports for ids in s or ()],
                entropy_gradient=self.settings.entropy_bonus > 0,
            )

    def _log_ratios(self, rows: Sequence[Sample], new: Tensor) -> Tensor:
        """Return log(pi / pi_old) per decision: per action (normalised) or per token."""
        old = torch.as_tensor(np.concatenate([s.action.logprobs for s in rows]), device=new.device)
        if self.settings.level == "token":
            return new - old
        lengths = torch.as_tensor([len(s.action.token_ids) for s in rows], device=new.device)
        words = torch.as_tensor([len(s.action.text.split()) for s in rows], device=new.device)
        owners = torch.repeat_interleave(torch.arange(len(rows), device=new.device), lengths)
        return action_log_ratios(new, old, owners, action_divisors(lengths, words, self.settings.normalisation))

    @torch.no_grad()
    def _ratios(self, policy: str, samples: Sequence[Sample]) -> list[float]:
        """Return pi_new / pi_old of each whole action after this policy's step, within the clip bounds."""
        result = [1.0] * len(samples)
        for micro in self._micro_batches(samples, list(range(len(samples)))):
            rows = [samples[i] for i in micro]
            new = self._score(policy, rows).logprobs
            lengths = [len(s.action.token_ids) for s in rows]
            old = torch.as_tensor(np.concatenate([s.action.logprobs for s in rows]), device=new.device)
            for i, difference in zip(micro, (new - old).split(lengths), strict=True):
                ratio = math.exp(min(20.0, difference.sum().item()))
                result[i] = min(max(ratio, 1 - self.settings.clip_low), 1 + self.settings.clip_high)
        return result

    def _tensors(self, policy: str) -> Mapping[str, nn.Parameter]:
        agent = self.team.policies[policy][0]
        return self.team.seat(agent).base.parameters(policy)

    def _lr_factor(self) -> float:
        if self.settings.lr_schedule == "constant":
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * min(1.0, self.updates / max(1, self.total_updates))))

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the adapters' own tensors that an exact resume needs."""
        return {
            "updates": self.updates,
            "generator": self.generator.bit_generator.state,
            "critic": self.critic.state_dict(),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.updates = state["updates"]
        self.generator.bit_generator.state = state["generator"]
        self.critic.load_state_dict(state["critic"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])


class _Statistics:
    """Collects what happened in one policy's update."""

    def __init__(self) -> None:
        self.log_ratios: list[Tensor] = []
        self.clipped: list[Tensor] = []
        self.kl: list[Tensor] = []
        self.entropy: list[Tensor] = []
        self.first_pass: list[float] = []
        self.grad_norms: list[float] = []
        self.stopped = False

    def add(self, log_ratios: Tensor, clipped: Tensor, kl: Tensor, entropy: Tensor, first: bool) -> None:
        self.log_ratios.append(log_ratios)
        self.clipped.append(clipped)
        self.kl.append(kl)
        self.entropy.append(entropy)
        if first and not self.grad_norms:
            self.first_pass.append(log_ratios.abs().max().item())

    def summary(self, policy: str, samples: Sequence[Sample]) -> dict[str, float]:
        ratios = torch.cat(self.log_ratios).exp()
        lengths = [len(s.action.token_ids) for s in samples]
        values = {
            "entropy": torch.cat(self.entropy).mean().item(),
            "kl": torch.cat(self.kl).mean().item(),
            "kl_stopped": float(self.stopped),
            "clip_share": torch.cat(self.clipped).float().mean().item(),
            "ratio_max": ratios.max().item(),
            "ratio_min": ratios.min().item(),
            "first_pass_log_ratio_max": max(self.first_pass, default=0.0),
            "grad_norm": float(np.mean(self.grad_norms)) if self.grad_norms else 0.0,
            "tokens_mean": float(np.mean(lengths)),
            "cap_hit_share": float(np.mean([not s.action.stopped for s in samples])),
        }
        return {f"{policy}/{name}": value for name, value in values.items()}
