"""Policy update of one adapter: PPO passes over its samples, loss, gradient and optimizer steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from marft_agents.learning.batch import Sample
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.objectives import (
    Surrogate,
    action_divisors,
    action_log_ratios,
    averaging_shares,
    clipped_surrogate,
    kl_estimate,
    preceding_ratios,
    truncated_importance,
)
from marft_agents.learning.scoring import Scorer
from marft_agents.learning.settings import LearnerSettings
from marft_agents.learning.update_metrics import UpdateStatistics
from marft_agents.learning.word_count import count_words
from marft_agents.models.adapted_base import AdaptedBase

LARGEST_LOG_RATIO = 20.0  # bound on the log-ratio of a whole action that weights the agents updated later


@dataclass(frozen=True)
class Weighted:
    """A sample with its weights in the loss.

    Attributes:
        sample: Sample to train on.
        preceding: New over old probability of the preceding agents' actions in the same round, >= 0.
        share: Weight of each token of the action, see `averaging_shares`.
    """

    sample: Sample
    preceding: float = 1.0
    share: float = 1.0


@dataclass(frozen=True)
class Counts:
    """Denominators of the loss terms of a mini-batch, shared by its micro-batches."""

    decisions: int
    tokens: int
    positive_tokens: int

    @classmethod
    def of(cls, members: Sequence[Weighted]) -> Counts:
        """Count the decisions and tokens of a mini-batch."""
        tokens = [len(item.sample.action.token_ids) for item in members]
        positive = [item.sample.positive for item in members]
        return cls(
            sum(len(item.sample.advantages) for item in members),
            sum(tokens),
            sum(count for count, praised in zip(tokens, positive, strict=True) if praised),
        )


class PolicyStep:
    """Trains the adapter of one policy on one batch.

    Args:
        policy: Name of the policy and of its adapter.
        base: Base model with that adapter.
        optimizer: Optimizer of the adapter's tensors.
        scorer: Computes log-probs under the policy.
        settings: Learner settings, with the clip bounds of this policy.
    """

    def __init__(
        self,
        policy: str,
        base: AdaptedBase,
        optimizer: torch.optim.Optimizer,
        scorer: Scorer,
        settings: LearnerSettings,
    ) -> None:
        self.policy, self.base, self.optimizer = policy, base, optimizer
        self.scorer, self.settings = scorer, settings
        self._said: dict[int, Tensor] = {}  # id(sample) -> token log-probs of its first forward pass

    @property
    def tensors(self) -> Mapping[str, nn.Parameter]:
        """Trainable tensors of the adapter, by name."""
        return self.base.parameters(self.policy)

    def train(self, samples: Sequence[Weighted], *, lr: float, generator: np.random.Generator) -> dict[str, float]:
        """Run all passes over the samples, with early stopping on KL.

        Args:
            samples: Samples of the policy's agents.
            lr: Adam step size of this update.
            generator: Random generator that shuffles the mini-batches.

        Returns:
            Metrics by name, see `UpdateStatistics.summary`.

        Raises:
            DivergenceError: A log-prob, loss or gradient is not finite; holds the samples it comes from.
        """
        settings = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        statistics = UpdateStatistics()
        plain = [item.sample for item in samples]
        for epoch in range(settings.ppo_epochs):
            order = np.arange(len(samples)) if settings.mini_batches == 1 else generator.permutation(len(samples))
            for part in np.array_split(order, min(settings.mini_batches, len(samples))):
                members = self._shared_out([samples[i] for i in part])
                self.optimizer.zero_grad(set_to_none=True)
                kl = self._accumulate(members, statistics, first=epoch == 0)
                if settings.kl_stop is not None and kl > settings.kl_stop:
                    statistics.stopped = True
                    self.optimizer.zero_grad(set_to_none=True)
                    return statistics.summary(self.policy, plain)
                norm = nn.utils.clip_grad_norm_(self.tensors.values(), settings.max_grad_norm)
                if not torch.isfinite(norm):
                    raise self._divergence(f"the gradient is {norm.item()}", self._with_bad_gradients(members))
                statistics.grad_norms.append(norm.item())
                self.optimizer.step()
                if not torch.isfinite(nn.utils.get_total_norm(list(self.tensors.values()))):
                    plain_members = [item.sample for item in members]
                    raise self._divergence("the step took its adapter to numbers that are not finite", plain_members)
        self.optimizer.zero_grad(set_to_none=True)
        return statistics.summary(self.policy, plain)

    @torch.no_grad()
    def ratios(self, samples: Sequence[Weighted]) -> list[float]:
        """Return pi_new / pi_old of each whole action after training; clipped with compounding = "bounded"."""
        found: dict[int, float] = {}
        for rows, _ in self._passes(samples):
            new = self.scorer.score(self.base, self.policy, [row.sample.action for row in rows]).logprobs
            moved = (new - self._old(rows, new)).split([len(row.sample.action.token_ids) for row in rows])
            for row, own in zip(rows, moved, strict=True):
                ratio = math.exp(min(LARGEST_LOG_RATIO, own.sum().item()))
                if self.settings.compounding == "bounded":
                    ratio = min(max(ratio, 1 - self.settings.clip_low), 1 + self.settings.clip_high)
                found[id(row.sample)] = ratio
        return [found[id(item.sample)] for item in samples]

    # ------------------------------------------------------------------ one mini-batch

    def _shared_out(self, members: Sequence[Weighted]) -> list[Weighted]:
        lengths = torch.as_tensor([len(item.sample.action.token_ids) for item in members])
        limit = self.scorer.law.max_new_tokens
        shares = averaging_shares(lengths, self.settings.averaging, limit=limit).tolist()
        return [replace(item, share=share) for item, share in zip(members, shares, strict=True)]

    def _accumulate(self, members: Sequence[Weighted], statistics: UpdateStatistics, *, first: bool) -> float:
        """Accumulate the gradient of one mini-batch, normalised by its number of decisions; return its mean KL."""
        counts = Counts.of(members)
        kl_sum = 0.0
        for rows, pulling in self._passes(members):
            actions = [row.sample.action for row in rows]
            with torch.set_grad_enabled(pulling):
                scores = self.scorer.score(
                    self.base, self.policy, actions, entropy_gradient=self.settings.entropy_bonus > 0
                )
            log_ratios, importance = self._log_ratios(rows, scores.logprobs)
            surrogate = self._surrogate(rows, log_ratios)
            terms = surrogate.losses * self._factors(rows, importance)
            loss = terms.sum() / counts.decisions
            loss = loss - self.settings.entropy_bonus * scores.entropy.sum() / counts.tokens
            further, logged = self._further_terms(rows, scores.logprobs, counts)
            loss = loss + further
            self._refuse_non_finite(rows, log_ratios.detach(), terms.detach(), loss)
            if pulling:
                loss.backward()
            if not all(action.exact for action in actions):
                logged |= {"importance": importance, "importance_capped": importance >= self.settings.importance_cap}
            kl = kl_estimate(log_ratios.detach())
            kl_sum += kl.sum().item()
            logged |= {"entropy": scores.entropy, "kl": kl, "clip_share": surrogate.clipped}
            statistics.add(log_ratios, first=first, **logged)
        return kl_sum / counts.decisions

    def _passes(self, members: Sequence[Weighted]) -> Iterator[tuple[list[Weighted], bool]]:
        """Cut a mini-batch into forward passes; yield each with True if it needs a gradient.

        Samples without gradient get passes of their own, which only feed the statistics.
        """
        settings = self.settings
        all_pull = settings.entropy_bonus > 0 or (settings.kl_weight > 0 and settings.kl_place == "loss")

        def pulls(item: Weighted) -> bool:
            praised = settings.positive_nll > 0 and item.sample.positive
            return all_pull or praised or bool(np.any(item.sample.advantages))

        for pulling in (True, False):
            rows = [item for item in members if pulls(item) is pulling]
            for part in self.scorer.micro_batches([row.sample.action for row in rows]):
                yield [rows[i] for i in part], pulling

    def _further_terms(
        self, rows: Sequence[Weighted], new: Tensor, counts: Counts
    ) -> tuple[Tensor | float, dict[str, Tensor]]:
        """Return the KL penalty plus the NLL of successful actions, and each term per token before its weight."""
        settings = self.settings
        added: Tensor | float = 0.0
        logged: dict[str, Tensor] = {}
        if settings.kl_weight and settings.kl_place == "loss":
            reference = torch.as_tensor(np.concatenate([row.sample.reference for row in rows]), device=new.device)
            logged["kl_reference"] = kl = kl_estimate(reference - new, settings.kl_estimator)
            shares = _per_token([row.share for row in rows], rows, new)
            added = added + settings.kl_weight * (kl * shares).sum() / counts.tokens
        if settings.positive_nll and counts.positive_tokens:
            positive = _per_token([row.sample.positive for row in rows], rows, new).bool()
            logged["nll"] = nll = -new[positive]
            added = added + settings.positive_nll * nll.sum() / counts.positive_tokens
        return added, logged

    def _log_ratios(self, rows: Sequence[Weighted], new: Tensor) -> tuple[Tensor, Tensor]:
        """Return per decision log(pi / pi_old) and the truncated importance weight of the sampling engine."""
        actions = [row.sample.action for row in rows]
        old = self._old(rows, new.detach())
        sampled = torch.as_tensor(np.concatenate([action.logprobs for action in actions]), device=new.device)
        own = _per_token([action.exact for action in actions], rows, new).bool()
        sampled = torch.where(own, old, sampled)
        cap = self.settings.importance_cap
        if self.settings.level == "token":
            return new - old, truncated_importance(old, sampled, cap=cap)
        lengths = torch.as_tensor([len(a.token_ids) for a in actions], device=new.device)
        by_words = self.settings.normalisation == "word"
        words = torch.as_tensor([count_words(a.text) if by_words else 1 for a in actions], device=new.device)
        owners = torch.repeat_interleave(torch.arange(len(rows), device=new.device), lengths)
        divisors = action_divisors(lengths, words, self.settings.normalisation)
        whole = action_log_ratios(old, sampled, owners, torch.ones_like(divisors))
        return (
            action_log_ratios(new, old, owners, divisors),
            truncated_importance(whole, torch.zeros_like(whole), cap=cap),
        )

    def _old(self, rows: Sequence[Weighted], new: Tensor) -> Tensor:
        """Return log pi_old of the rows' tokens, flat.

        Without mini-batches the weights are unchanged in the first pass, so its log-probs are log pi_old. They are
        reused, computed with the same batch shape as later passes, where the recorded ones are not exact.
        """
        found = []
        for row, own in zip(rows, new.split([len(row.sample.action.token_ids) for row in rows]), strict=True):
            if self.settings.mini_batches > 1 or self.base.repeats(row.sample.action):
                found.append(torch.as_tensor(row.sample.old, device=new.device))
            else:
                found.append(self._said.setdefault(id(row.sample), own))
        return torch.cat(found)

    def _surrogate(self, rows: Sequence[Weighted], log_ratios: Tensor) -> Surrogate:
        bounds = {"clip_low": self.settings.clip_low, "clip_high": self.settings.clip_high}
        joint = self.settings.compounding == "a2po"
        weighted = [row.sample.advantages * (1.0 if joint else row.preceding) for row in rows]
        advantages = torch.as_tensor(np.concatenate(weighted), dtype=torch.float32, device=log_ratios.device)
        preceding = None
        if joint:
            each = torch.as_tensor([row.preceding for row in rows], dtype=torch.float32, device=log_ratios.device)
            sizes = torch.as_tensor([len(row.sample.advantages) for row in rows], device=log_ratios.device)
            preceding = preceding_ratios(each, **bounds).repeat_interleave(sizes)
        return clipped_surrogate(log_ratios, advantages, preceding=preceding, **bounds)

    def _factors(self, rows: Sequence[Weighted], importance: Tensor) -> Tensor:
        """Return the weight of each decision in the sum of losses, [N]."""
        if self.settings.level == "action":
            return importance
        return importance * _per_token([row.share for row in rows], rows, importance)

    # ------------------------------------------------------------------ numbers that are not finite

    def _refuse_non_finite(self, rows: Sequence[Weighted], log_ratios: Tensor, terms: Tensor, loss: Tensor) -> None:
        if torch.isfinite(loss) and torch.isfinite(log_ratios).all():
            return
        fine = (torch.isfinite(log_ratios) & torch.isfinite(terms)).split([len(row.sample.advantages) for row in rows])
        guilty = [row.sample for row, own in zip(rows, fine, strict=True) if not own.all()]
        raise self._divergence(f"the loss is {loss.item()}", guilty or [row.sample for row in rows])

    def _with_bad_gradients(self, members: Sequence[Weighted]) -> list[Sample]:
        """Return the samples whose own gradient is not finite; all samples where only their sum is not."""
        guilty = []
        for item in members:
            self.optimizer.zero_grad(set_to_none=True)
            self._accumulate([item], UpdateStatistics(), first=False)
            if not all(torch.isfinite(p.grad).all() for p in self.tensors.values() if p.grad is not None):
                guilty.append(item.sample)
        self.optimizer.zero_grad(set_to_none=True)
        return guilty or [item.sample for item in members]

    def _divergence(self, what: str, samples: Sequence[Sample]) -> DivergenceError:
        self.optimizer.zero_grad(set_to_none=True)
        first = samples[0]
        return DivergenceError(
            f"policy {self.policy!r}: {what}, from {len(samples)} actions, the first of agent {first.agent!r} in round "
            f"{first.round} of episode {first.episode}: lower policy_lr, or look at these records",
            samples,
        )


def _per_token(values: Sequence[float], rows: Sequence[Weighted], like: Tensor) -> Tensor:
    """Repeat one number per row for each of its tokens."""
    lengths = torch.as_tensor([len(row.sample.action.token_ids) for row in rows], device=like.device)
    return torch.as_tensor(values, dtype=torch.float32, device=like.device).repeat_interleave(lengths)
