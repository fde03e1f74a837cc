"""Learner: one update for the whole family of algorithms; settings select the algorithm (see `algorithms`).

An update evaluates the critic on the shared frozen trunk, estimates advantages and regresses the value heads. Then it
trains each agent's adapter alone, one after the other. Without a critic only the advantages and the adapters remain. A
team of one is single-agent training: nothing here depends on the number of agents.

With `compounding='none'` sequential and simultaneous updates are identical. Sources: MARFT, arXiv 2504.16129, sections
4.1-4.3; for the compounded ratios HAPPO, arXiv 2109.11251, and A2PO, arXiv 2302.06205.
"""

from __future__ import annotations

import io
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marft_agents.learning.advantages import Array, overlong_punishment
from marft_agents.learning.batch import Batch, build_batch
from marft_agents.learning.credit import estimate
from marft_agents.learning.critic import TeamCritic
from marft_agents.learning.distributed import Snapshot, announce_passes, send
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.experience_replay import ReplayPools
from marft_agents.learning.objectives import kl_estimate, widening_clip
from marft_agents.learning.pass_size import SPARED_TOKENS, PassSize, fitted
from marft_agents.learning.policy_update import PolicyStep, loss_terms, plan_passes, policy_loss, split
from marft_agents.learning.ranks import ALONE, OtherRankOutOfMemoryError, Ranks
from marft_agents.learning.scoring import LogProbScorer
from marft_agents.learning.settings import LearnerSettings
from marft_agents.metric_names import metric_prefix
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.policies.adapter_files import pack_adapters, unpack_adapters
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
        ranks: Processes that share the passes of each update. Rank 0 calls `update`, all others
            `distributed.follow`.

    Attributes:
        critic: Value function of the team; None if the settings train none.
        updates: Number of updates done.
        step_scale: Factor on the policies' step size; not part of `state_dict`.
        progress: Share of the run that is done, for the cosine schedule; not part of `state_dict`. None: that of
            `total_updates`. The trainer sets it where a budget of tokens may end the run.
        replay: Solved actions that `replay_share` mixes into updates.
        updating: True within `update`.
        on_advantages: Called with the batch of an update once its advantages are estimated; None: nobody asks.

    Raises:
        SettingsError: The team samples greedily.
    """

    def __init__(
        self,
        team: LanguageModelTeam,
        settings: LearnerSettings,
        *,
        seed: int = 0,
        total_updates: int = 1,
        ranks: Ranks = ALONE,
    ) -> None:
        if team.sampling.greedy:
            raise SettingsError("temperature = 0, wanted > 0: a greedy policy explores nothing and cannot be trained")
        self.team = team
        self.settings = settings = fitted(settings, team)
        self.total_updates = total_updates
        self.seed = seed
        self.ranks = ranks
        self.updates = 0
        self.step_scale = 1.0
        self.progress: float | None = None
        self.on_advantages: Callable[[Batch], None] | None = None
        self.updating = False
        announce_passes(self)
        self.generator = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        self.replay = ReplayPools(settings.replay_share, seed=seed)
        self.pass_size = PassSize(settings.micro_batch, settings.micro_batch_tokens)
        self.scorer = LogProbScorer(team.sampling, self.pass_size, ranks)
        if settings.gradient_checkpointing:
            spared = SPARED_TOKENS if settings.gradient_checkpointing < 1 else 0
            for base in team.bases:
                base.recompute_layers(settings.gradient_checkpointing, spared=spared)
        self.critic = TeamCritic(team, settings, self.pass_size, seed=seed, ranks=ranks) if settings.critic else None
        self.optimizers: dict[str, torch.optim.Adam] = {}  # one for each policy: a step moves one adapter alone
        for policy in team.policies:
            parameters = list(self._base(policy).parameters(policy).values())
            self.optimizers[policy] = torch.optim.Adam(parameters, lr=settings.policy_lr, eps=settings.adam_epsilon)

    # ------------------------------------------------------------------ one update

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Update the critic and all policies on a batch of episodes.

        Args:
            trajectories: Finished episodes; failed ones are ignored.

        Returns:
            Metrics by name: `critic/...` and `{agent}/...`; empty if no turn was trainable.

        Raises:
            DivergenceError: A reward, value, log-prob, loss or gradient is not finite.
            SettingsError: One sequence alone does not fit into the memory of the device.
        """
        start = self.snapshot()
        send(self, trajectories, start)
        self.updating = True
        try:
            return self._with_room(start, lambda: self._update(trajectories))
        finally:
            self.updating = False

    def _with_room(self, start: Snapshot, work: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the metrics of an update; where memory runs out, begin it again with smaller passes, on all ranks."""
        while True:
            self.pass_size.start()
            try:
                metrics = work()
                self.ranks.meet()
                return metrics
            except torch.OutOfMemoryError as error:
                self._make_room(error)
            torch.cuda.empty_cache()  # here, where no traceback holds activations any more
            self.restore(start)

    def _make_room(self, error: torch.OutOfMemoryError) -> None:
        """Halve the passes of all ranks after one ran out of memory; raise an error where that cannot help."""
        if self.ranks.in_step:  # the others wait inside a pass, for layers that this rank would gather with them
            raise SettingsError(
                f"rank {self.ranks.rank} is out of memory: give --micro-batch-tokens less than "
                f"{self.pass_size.largest[0]}, or --gradient-checkpointing 1"
            ) from error
        here = not isinstance(error, OtherRankOutOfMemoryError)
        if here:
            self.ranks.out_of_memory()
        # Tokens and sequences of the largest pass of each rank that ran out of memory.
        short = [largest for largest in self.ranks.gather(self.pass_size.largest if here else None) if largest]
        tokens, sequences = min(short, key=lambda largest: largest[1])
        if sequences < 2:
            raise SettingsError(
                f"out of memory in a pass over {tokens} tokens of {sequences} sequence, which cannot be cut: give "
                "--gradient-checkpointing 1, or shorter --context-window and --max-new-tokens"
            ) from error
        tokens = min(short)[0]
        self.limit_passes(max(1, min(tokens, self.pass_size.tokens or tokens) // 2))
        warnings.warn(
            f"out of memory in a pass of up to {tokens} tokens: passes have at most {self.pass_size.tokens} from now "
            "on, and the update begins again",
            RuntimeWarning,
            stacklevel=3,
        )

    def limit_passes(self, tokens: int | None) -> None:
        """Set the most distinct tokens of a pass; checkpoints keep it with the settings."""
        self.pass_size.tokens = tokens
        self.settings = replace(self.settings, micro_batch_tokens=tokens)

    def snapshot(self) -> Snapshot:
        """Return all that an update changes: the weights of the adapters, and the state of the learner."""
        state = io.BytesIO()
        torch.save(self.state_dict(), state)
        return Snapshot(pack_adapters(self.team), state.getvalue())

    def restore(self, start: Snapshot) -> None:
        """Return to a snapshot."""
        unpack_adapters(self.team, start.adapters)
        self.load_state_dict(torch.load(io.BytesIO(start.state), weights_only=True, map_location="cpu"))

    def _update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        settings, metrics = self.settings, dict[str, float]()
        batch = build_batch(trajectories, self.team.policies, settings)
        if not batch.actions:
            self.updates += 1
            return metrics
        _refuse_non_finite_rewards(batch)
        _warn_of_mean_rewards(trajectories, settings)

        # log pi_old, and log pi_ref where the loss or the rewards have a KL term
        batch = self._with_old_log_probs(batch)
        features: list[Tensor] = []
        if self.critic is not None:  # the same pass over the frozen trunk gives the features of V
            features, reference = self.critic.bare_pass(batch, reference=settings.kl_weight > 0)
        elif settings.kl_weight:
            reference = self._reference_log_probs(batch)
        if settings.kl_weight:
            batch = batch._replace(reference=reference)
        batch = batch._replace(shaping=self._shaping(batch))

        # V before every decision, and after truncated episodes
        if self.critic is not None:
            batch = batch._replace(values=self.critic.values(batch, features))
            batch = batch._replace(bootstrap=self.critic.bootstraps(batch, trajectories))

        # delta_k = r_k + gamma_k V_{k+1} - V_k,  A_k = delta_k + gamma_k lambda_k A_{k+1}; without a critic A = R - b
        batch = estimate(batch, settings)
        if self.on_advantages is not None:
            self.on_advantages(batch)

        # Regression of V on A + V
        if self.critic is not None:
            metrics = self.critic.fit(
                batch, features, lr=settings.critic_lr * self._lr_factor(), generator=self.generator
            )

        # Agents one after the other; M is the product of pi / pi_old of the agents updated before, per (episode, round)
        compounded = np.ones(batch.joint.max() + 1)
        waiting = self._trained_now(batch) if self.updates >= settings.value_warmup else []
        count = len(waiting)
        for place in range(1, count + 1):
            if settings.compounding == "a2po":  # advantages depend on M of the agents before, so they change each time
                batch = estimate(batch, settings, compounded)
            policy = self._next(waiting, batch, place)
            waiting.remove(policy)
            rows = batch.of(policy)
            rows = rows._replace(preceding=compounded[rows.joint])
            step = self._policy_step(policy, rows, place, count)
            self._train(step)
            metrics |= step.finish()
            if settings.compounding != "none" and waiting:
                np.multiply.at(compounded, rows.joint, step.ratios())

        self.replay.add(batch)
        metrics |= self._shaping_metrics(batch)
        self.updates += 1
        return metrics

    def _train(self, step: PolicyStep) -> None:
        """Train one policy: an optimizer step per mini-batch of each PPO epoch, until its KL exceeds the limit."""
        settings, limit = self.settings, self.team.sampling.max_new_tokens
        steps = 0
        for _ in range(settings.ppo_epochs):
            for mini_batch in split(step.rows, settings, self.generator, limit=limit):
                step.optimizer.zero_grad(set_to_none=True)
                kl = np.zeros(1)
                for index, gradient in plan_passes(mini_batch, self.scorer, settings):
                    part, new = step.forward(mini_batch, index, gradient=gradient)  # log pi, entropy
                    terms = loss_terms(part, new.logprobs, step.settings)  # -min(r M A, clip(r) M A), KL, NLL
                    loss = policy_loss(terms, new.entropy, mini_batch, settings)
                    kl += step.add(part, terms, new.entropy, loss) / len(mini_batch.advantages)
                    if gradient:
                        step.base.backward(loss)
                    del new, terms, loss  # before the next pass: they hold the graph, and with it activations
                with self.ranks.joined():
                    step.refuse_non_finite()
                if settings.kl_stop is not None and self.ranks.total(kl) > settings.kl_stop:
                    step.statistics.stopped = True
                    return
                count = len(mini_batch.actions)
                step.imitate(self.replay.draw(step.policy, count, self.updates, steps))  # + share * NLL
                step.descend(mini_batch)
                steps += 1

    # ------------------------------------------------------------------ before the first step

    def _with_old_log_probs(self, batch: Batch) -> Batch:
        """Return the batch with log-probs under the policies before the update.

        They are recomputed where the recorded ones came from another engine or precision, so that the ratio
        starts at 1. This is skipped when the first pass over the whole batch computes them anyway (`PolicyStep`). A KL
        cost needs them before that, as a part of the reward.
        """
        if self.settings.mini_batches == 1 and not self.settings.costs_kl:
            return batch
        old = batch.old.copy()  # [T]
        for number, policy in enumerate(batch.policies):
            base = self._base(policy)
            own = np.flatnonzero(batch.policy == number)
            inexact = [i for i in own if not base.repeats(batch.actions[i])]
            if inexact:
                scored = self.scorer.logprobs(base, policy, [batch.actions[i] for i in inexact])
                old[batch.tokens_of(np.array(inexact))] = np.concatenate(scored)
        return batch._replace(old=old)

    def _reference_log_probs(self, batch: Batch) -> FloatArray:
        """Return float32 [T], the log-probs of all tokens under the bare bases, for an update without a critic."""
        reference = batch.reference.copy()
        bases = [self._base(policy) for policy in batch.policies]
        for base in dict.fromkeys(bases):  # policies on one base share its passes: without adapter they are the same
            own = np.flatnonzero(np.array([other is base for other in bases])[batch.policy])
            if len(own):
                actions = [batch.actions[i] for i in own]
                reference[batch.tokens_of(own)] = np.concatenate(self.scorer.logprobs(base, None, actions))
        return reference

    def _shaping(self, batch: Batch) -> Array:
        """Return float64 [D], what is added to the reward of each decision: overlong punishment and KL cost."""
        settings, limit = self.settings, self.team.sampling.max_new_tokens
        costs = np.zeros(len(batch.old))  # per token
        if settings.overlong_share:
            punishments = [overlong_punishment(length, limit, settings.overlong_share) for length in batch.lengths]
            # On the last token of each action: credit flows back from there to all that made it long.
            costs[batch.token_offsets[1:] - 1] += settings.overlong_penalty * np.array(punishments)
        if settings.costs_kl:
            log_ratios = torch.as_tensor(batch.reference - batch.old)
            kl = kl_estimate(log_ratios, settings.kl_estimator).numpy()
            costs -= settings.kl_weight * kl
        return costs if settings.level == "token" else np.add.reduceat(costs, batch.token_offsets[:-1])

    def _shaping_metrics(self, batch: Batch) -> dict[str, float]:
        """Return `{policy}/shaping`: mean shaping of an action, which reported returns leave out."""
        if not (self.settings.costs_kl or (self.settings.overlong_share and self.settings.overlong_penalty)):
            return {}
        added = np.add.reduceat(batch.shaping, batch.decision_offsets[:-1])  # [N]
        metrics = {}
        for number, policy in enumerate(batch.policies):
            own = batch.policy == number
            if own.any():
                metrics[f"{metric_prefix(policy)}/shaping"] = float(added[own].mean())
        return metrics

    # ------------------------------------------------------------------ policies

    def _policy_step(self, policy: str, rows: Batch, place: int, count: int) -> PolicyStep:
        """Return the step of a policy, with the clip bounds of position `place` of the `count` policies trained now."""
        share, settings = widening_clip(place, count, self.settings.clip_start), self.settings
        settings = replace(settings, clip_low=share * settings.clip_low, clip_high=share * settings.clip_high)
        lr = settings.policy_lr * self.step_scale * self._lr_factor()
        return PolicyStep(policy, rows, self._base(policy), self.optimizers[policy], self.scorer, settings, lr=lr)

    def _next(self, waiting: Sequence[str], batch: Batch, place: int) -> str:
        """Return the policy to update at position `place` (1-based): the next in order, or by A2PO's semi-greedy rule.

        Under that rule odd positions go to the policy with the largest mean |advantage| after the steps before; ties
        are broken at random. Even positions go to a random policy. Source: arXiv 2302.06205.
        """
        if self.settings.agent_order != "semi-greedy":
            return waiting[0]
        eligible = list(waiting)
        if place % 2:
            # mean |A| of each action [N], then of each policy, so that long actions do not count more
            by_action = np.add.reduceat(np.abs(batch.credit), batch.decision_offsets[:-1]) / batch.num_decisions
            means = {}
            for name in waiting:
                means[name] = by_action[batch.policy == batch.policies.index(name)].mean()
            largest = max(means.values())
            eligible = [name for name in waiting if math.isclose(means[name], largest)]
        return eligible[int(self.generator.integers(len(eligible)))]

    def _trained_now(self, batch: Batch) -> list[str]:
        """Return the policies that acted and are trained now, in order; `_next` reorders by the semi-greedy rule."""
        names, generator, position = list(self.team.policies), self.generator, None
        if self.settings.agent_interval:  # one policy at a time, each for `agent_interval` updates
            turn = (self.updates - self.settings.value_warmup) // self.settings.agent_interval
            cycle, position = divmod(turn, len(names))
            # a seed per cycle: all updates of a cycle draw the same order
            generator = np.random.default_rng([self.seed, cycle])
        if self.settings.agent_order == "reverse":
            names.reverse()
        elif self.settings.agent_order == "random":
            names = [str(name) for name in generator.permutation(names)]
        if position is not None:
            names = [names[position]]
        return [name for name in names if (batch.policy == batch.policies.index(name)).any()]

    def _base(self, policy: str) -> AdaptedBase:
        return self.team.local_agent(self.team.policies[policy][0]).base

    def _lr_factor(self) -> float:
        if self.settings.lr_schedule == "constant":
            return 1.0
        progress = self.updates / max(1, self.total_updates) if self.progress is None else self.progress
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))  # from 1 down to 0 at the end of the run

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resume, without the adapters' tensors."""
        replay = {"replay": _by_name(self.replay.state_dict())} if self.settings.replay_share else {}
        return replay | {
            "updates": self.updates,
            "generator": self.generator.bit_generator.state,
            "critic": None if self.critic is None else self.critic.state_dict(),
            "optimizers": _by_name({name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.replay.load_state_dict(state.get("replay", {}))
        self.generator.bit_generator.state = state["generator"]
        self.updates = state["updates"]


def _by_name(states: Mapping[str, Any]) -> dict[str, Any]:
    """Return states by policy, each name as the one string object that all equal names share.

    Pickle writes an equal string once more if it is another object, as after a resume: the file would have other bytes.
    """
    return {sys.intern(name): state for name, state in states.items()}


def _warn_of_mean_rewards(trajectories: Sequence[Trajectory], settings: LearnerSettings) -> None:
    """Warn if agents are paid differently and trained on the mean of their rewards."""
    if settings.rewards != "team" or not any(turn.rewards for episode in trajectories for turn in episode.turns):
        return
    try:
        replace(settings, rewards="own")
        advice = "give --rewards own to train each agent on its own rewards"
    except SettingsError as error:
        advice = f"this algorithm takes no others ({error})"
    warnings.warn(
        f"the environment pays its agents differently, and they are trained on the mean: {advice}",
        RuntimeWarning,
        stacklevel=3,
    )


def _refuse_non_finite_rewards(batch: Batch) -> None:
    bad = batch.take(np.flatnonzero(~np.isfinite(batch.reward)))
    if bad.actions:
        raise DivergenceError(
            f"the reward of agent {bad.agents[bad.agent[0]]!r} in round {bad.round[0]} of episode {bad.episode[0]} is "
            f"{bad.reward[0]}: look at what the environment pays",
            bad,
        )
