"""Policy update of one adapter: its loss as a function of a batch and new log-probs, and its optimizer steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from marft_agents.learning.advantages import Array
from marft_agents.learning.batch import Batch, Index
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.objectives import (
    action_divisors,
    action_log_ratios,
    averaging_shares,
    clipped_surrogate,
    kl_estimate,
    preceding_ratios,
    truncated_importance,
)
from marft_agents.learning.scoring import LogProbScorer
from marft_agents.learning.settings import LearnerSettings
from marft_agents.learning.update_metrics import UpdateStatistics
from marft_agents.metric_names import metric_prefix
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.policies.token_log_probs import TokenScores
from marft_agents.trajectory import Action

LARGEST_LOG_RATIO = 20.0  # bound on the log-ratio of a whole action that weights the agents updated later


class LossTerms(NamedTuple):
    """Terms of the loss of some actions, before their averages and the weights of the terms.

    Attributes:
        log_ratios: Float [D], log(pi / pi_old) of each decision.
        importance: Float [D], truncated importance weight of the engine that sampled the actions.
        surrogate: Float [D], negated clipped objective times the importance and the weight in the average.
        clipped: Bool [D], True where the clip is active.
        kl: Float [T], estimated KL to the base without adapter; [0] where the loss has no such term.
        kl_weights: Float [T], weight of each token in the average of `kl`, times the importance of its decision.
        nll: Float [P], negative log-likelihood of the tokens of successful actions; [0] without such a term.
    """

    log_ratios: Tensor
    importance: Tensor
    surrogate: Tensor
    clipped: Tensor
    kl: Tensor
    kl_weights: Tensor
    nll: Tensor


def loss_terms(rows: Batch, new: Tensor, settings: LearnerSettings) -> LossTerms:
    r"""Compute the terms of the policy loss from a batch and the log-probs under the current policy.

    Per decision, with the importance ratio r, the advantage A and the ratio M of the agents updated before:

    .. math::
        -\omega w \min\left(r M A,\ \mathrm{clip}(r, 1 - \epsilon_{low}, 1 + \epsilon_{high}) M A\right)

    With compounding = "a2po" the clipped M multiplies r instead of A (`preceding_ratios`).

    Args:
        rows: The actions, with old log-probs, advantages, M (`preceding`) and weights w.
        new: Float [T], log-probs of the tokens under the current policy.
        settings: Learner settings; the clip bounds are those of this policy.
    """
    device = new.device
    lengths = torch.as_tensor(rows.lengths, device=device)  # [N]
    old, recorded = (torch.as_tensor(x, device=device) for x in (rows.old, rows.recorded))
    # Log-probs of the engine that sampled, [T]: `old` itself where it was the trained model, so that its weight is
    # exactly 1.
    sampled = torch.where(torch.as_tensor(rows.exact, device=device).repeat_interleave(lengths), old, recorded)
    if settings.level == "token":
        log_ratios = new - old
        importance = truncated_importance(old, sampled, cap=settings.importance_cap)
    else:
        words = torch.as_tensor(rows.words, device=device)
        divisors = action_divisors(lengths, words, settings.normalisation)
        owners = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)
        log_ratios = action_log_ratios(new, old, owners, divisors)
        whole = action_log_ratios(old, sampled, owners, torch.ones_like(divisors))
        importance = truncated_importance(whole, torch.zeros_like(whole), cap=settings.importance_cap)

    bounds = {"clip_low": settings.clip_low, "clip_high": settings.clip_high}
    # M of each decision [D]. It scales the advantage, or with A2PO the ratio, within its own clip.
    preceding, advantages, joint = np.repeat(rows.preceding, rows.num_decisions), rows.advantages, None
    if settings.compounding == "a2po":
        joint = preceding_ratios(torch.as_tensor(preceding, dtype=torch.float32, device=device), **bounds)
    else:
        advantages = advantages * preceding
    target = torch.as_tensor(advantages, dtype=torch.float32, device=device)
    surrogate = clipped_surrogate(log_ratios, target, preceding=joint, **bounds)
    weights = torch.as_tensor(np.repeat(rows.weight, rows.num_decisions), device=device)

    kl, kl_weights, nll = new[:0], new[:0], new[:0]
    if settings.penalises_kl:
        kl = kl_estimate(torch.as_tensor(rows.reference, device=device) - new, settings.kl_estimator)
        by_token = importance if settings.level == "token" else importance.repeat_interleave(lengths)
        kl_weights = by_token * torch.as_tensor(rows.weight, device=device).repeat_interleave(lengths)
    if settings.positive_nll:
        nll = -new[torch.as_tensor(np.repeat(rows.positive, rows.lengths), device=device)]
    return LossTerms(
        log_ratios=log_ratios,
        importance=importance,
        surrogate=surrogate.losses * (importance * weights),
        clipped=surrogate.clipped,
        kl=kl,
        kl_weights=kl_weights,
        nll=nll,
    )


def policy_loss(terms: LossTerms, entropy: Tensor, batch: Batch, settings: LearnerSettings) -> Tensor:
    r"""Return the loss of some actions, each term averaged over the mini-batch that they are part of.

    .. math::
        L = \frac{1}{D} \sum_d L_d - c_H \bar H + \beta \sum_t w_t\, \mathrm{KL}_t + \mu\, \overline{\mathrm{NLL}}

    Args:
        terms: Terms of the actions.
        entropy: Float [T], entropy at each of their tokens, nats.
        batch: The whole mini-batch, for the denominators.
        settings: Learner settings: the weights of the terms.
    """
    # Sums of this pass over counts of the whole mini-batch: the gradients of its passes add up to that of the mean.
    tokens, positive = int(batch.lengths.sum()), int(batch.lengths[batch.positive].sum())
    loss = terms.surrogate.sum() / len(batch.advantages)
    loss = loss - settings.entropy_bonus * entropy.sum() / tokens
    further = settings.kl_weight * (terms.kl * terms.kl_weights).sum() / tokens
    further = further + settings.positive_nll * terms.nll.sum() / max(1, positive)
    return loss + further


def split(rows: Batch, settings: LearnerSettings, generator: np.random.Generator, *, limit: int) -> list[Batch]:
    """Return the mini-batches of a PPO epoch, shuffled, with the weights of their tokens in the average.

    Args:
        rows: Actions of a policy.
        settings: Learner settings: number of mini-batches, and the average.
        generator: Random generator of the order; not used for one mini-batch.
        limit: Token limit of an action, for averaging = "constant".
    """
    count = len(rows.actions)
    order = np.arange(count) if settings.mini_batches == 1 else generator.permutation(count)
    found = []
    for part in np.array_split(order, min(settings.mini_batches, count)):
        batch = rows.take(part)
        shares = averaging_shares(torch.as_tensor(batch.lengths), settings.averaging, limit=limit)
        found.append(batch._replace(weight=shares.numpy()))
    return found


def plan_passes(batch: Batch, scorer: LogProbScorer, settings: LearnerSettings) -> list[tuple[Index, bool]]:
    """Cut a mini-batch into forward passes; actions without a gradient get passes of their own.

    Returns:
        Per pass of this rank its actions, int64 [n], and True if it needs a gradient, False if it only feeds the
        statistics.
    """
    # Where the advantage is 0, so is the gradient of the surrogate; other terms of the loss may still pull.
    pulling = np.add.reduceat(batch.advantages != 0, batch.decision_offsets[:-1]) > 0  # [N]
    if settings.entropy_bonus > 0 or settings.penalises_kl:
        pulling[:] = True
    if settings.positive_nll > 0:
        pulling |= batch.positive
    passes = []
    for pulls in (True, False):
        members = np.flatnonzero(pulling == pulls)
        parts = scorer.micro_batches([batch.actions[i] for i in members])
        passes += [(members[part], pulls) for part in parts]
    return passes


class PolicyStep:
    """One policy's part of an update: its actions, adapter, optimizer and statistics.

    Args:
        policy: Name of the policy and of its adapter.
        rows: Actions of the policy's agents.
        base: Base model with that adapter.
        optimizer: Optimizer of the adapter's tensors.
        scorer: Computes log-probs under the policy; its ranks share the passes.
        settings: Learner settings, with the clip bounds of this policy.
        lr: Adam step size of this update.
    """

    def __init__(
        self,
        policy: str,
        rows: Batch,
        base: AdaptedBase,
        optimizer: torch.optim.Optimizer,
        scorer: LogProbScorer,
        settings: LearnerSettings,
        *,
        lr: float,
    ) -> None:
        self.policy, self.base, self.optimizer = policy, base, optimizer
        self.rows = rows._replace(old=rows.old.copy())
        self.scorer, self.settings, self.ranks = scorer, settings, scorer.ranks
        self.tensors: Mapping[str, nn.Parameter] = base.parameters(policy)
        self.statistics = UpdateStatistics()
        self._bad: tuple[str, Batch] | None = None  # what was not finite, and in which actions
        # Without mini-batches the weights are unchanged in the first pass, so its log-probs are log pi_old. They are
        # reused, computed with the same batch shape as later passes, where the recorded ones are not exact.
        exact = np.array([base.repeats(action) for action in rows.actions])
        self._inexact = ~exact & (settings.mini_batches == 1)
        for group in optimizer.param_groups:
            group["lr"] = lr

    def forward(self, batch: Batch, index: Index, *, gradient: bool) -> tuple[Batch, TokenScores]:
        """Return some actions of a mini-batch, with final old log-probs, and their log-probs and entropies now."""
        part = batch.take(index)
        with torch.set_grad_enabled(gradient):
            keep = self.settings.entropy_bonus > 0
            scores = self.scorer.score(self.base, self.policy, part.actions, entropy_gradient=keep)
        inexact = self._inexact[index] if self._inexact.any() else np.zeros(len(index), np.bool_)
        if inexact.any() and not self.statistics.grad_norms:  # before the first step
            new = scores.logprobs.detach().cpu().numpy()
            part = part._replace(old=np.where(np.repeat(inexact, part.lengths), new, part.old))
            self.rows.old[self.rows.tokens_of(index)] = part.old
        return part, scores

    def add(self, part: Batch, terms: LossTerms, entropy: Tensor, loss: Tensor) -> float:
        """Add the statistics of a forward pass; return the sum of its k3 estimates of KL(old || new), in nats."""
        self._look_for_non_finite(part, terms, loss)
        kl = kl_estimate(terms.log_ratios.detach())
        logged = {}
        if self.settings.penalises_kl:
            logged["kl_reference"] = terms.kl
        if self.settings.positive_nll:
            logged["nll"] = terms.nll
        if not part.exact.all():
            capped = terms.importance >= self.settings.importance_cap
            logged |= {"importance": terms.importance, "importance_capped": capped}
        logged |= {"entropy": entropy, "kl": kl, "clip_share": terms.clipped}
        self.statistics.add(terms.log_ratios, **logged)
        return float(kl.sum().item())  # a sum: the caller divides by the decisions of the whole mini-batch

    def _look_for_non_finite(self, part: Batch, terms: LossTerms, loss: Tensor) -> None:
        """Keep the first pass whose loss or log-ratio is not finite: what it was, and the actions that caused it."""
        log_ratios, surrogate = terms.log_ratios.detach(), terms.surrogate.detach()
        if self._bad is not None or (torch.isfinite(loss) and torch.isfinite(log_ratios).all()):
            return
        fine = (torch.isfinite(log_ratios) & torch.isfinite(surrogate)).cpu().numpy()  # [D]
        bad = np.flatnonzero(np.add.reduceat(~fine, part.decision_offsets[:-1]))  # actions with such a decision, of N
        # Where all decisions are finite, another term of the loss is not, and any action of the pass may be its cause.
        self._bad = f"the loss is {loss.item()}", part.take(bad) if len(bad) else part

    def refuse_non_finite(self) -> None:
        """Raise a DivergenceError with the offending actions if the loss or a log-ratio of a pass was not finite.

        It is called after the passes: a pass belongs to one rank, and the others may wait for that rank's further ones.
        """
        if self._bad is not None:
            raise self._divergence(*self._bad)

    def imitate(self, actions: Sequence[Action]) -> None:
        """Add the gradient of `replay_share` times the mean NLL of replayed actions; nothing happens without any.

        Raises:
            DivergenceError: The loss of an action is not finite.
        """
        if not actions:
            return
        total = sum(len(action.token_ids) for action in actions)
        bad = list[float]()
        for part in self.scorer.micro_batches(actions):
            nll = -self.scorer.score(self.base, self.policy, [actions[i] for i in part]).logprobs
            loss = self.settings.replay_share * nll.sum() / total
            if not torch.isfinite(loss):
                bad.append(loss.item())
            self.base.backward(loss)
            self.statistics.add_replayed(nll)
        with self.ranks.joined():
            if bad:
                raise DivergenceError(f"policy {self.policy!r}: the loss of replayed actions is {bad[0]}")

    def descend(self, batch: Batch) -> None:
        """Make one optimizer step along the gradient of a mini-batch: the sum over ranks, clipped to its largest norm.

        Raises:
            DivergenceError: The gradient, or the adapter after the step, is not finite.
        """
        self.ranks.add_gradients(self.tensors.values())
        norm = nn.utils.clip_grad_norm_(self.tensors.values(), self.settings.max_grad_norm)
        if not torch.isfinite(norm):
            raise self._divergence(f"the gradient is {norm.item()}", self._with_bad_gradients(batch))
        self.statistics.grad_norms.append(norm.item())
        self.optimizer.step()
        if not torch.isfinite(nn.utils.get_total_norm(list(self.tensors.values()))):
            raise self._divergence("the step took its adapter to numbers that are not finite", batch)

    def finish(self) -> dict[str, float]:
        """Drop the gradient; return the metrics of all passes, see `UpdateStatistics.summary`.

        With the ratios of HAPPO, `compounded_ratio_max` is the largest factor M on an advantage.
        """
        self.optimizer.zero_grad(set_to_none=True)
        found = self.statistics.of_all(self.ranks).summary(self.policy, self.rows)
        if self.settings.compounding in ("happo", "bounded"):  # a2po clips the product where it enters the loss
            found[f"{metric_prefix(self.policy)}/compounded_ratio_max"] = float(self.rows.preceding.max())
        return found

    @torch.no_grad()
    def ratios(self) -> Array:
        """Return pi / pi_old of each whole action after training, float64 [N]; clipped with compounding = "bounded"."""
        log_ratios = np.zeros(len(self.rows.actions))
        for index, _ in plan_passes(self.rows, self.scorer, self.settings):
            part = self.rows.take(index)
            new = self.scorer.score(self.base, self.policy, part.actions).logprobs
            moved = new - torch.as_tensor(part.old, device=new.device)
            log_ratios[index] = [own.sum().item() for own in moved.split(part.lengths.tolist())]
        ratios: Array = np.exp(np.minimum(LARGEST_LOG_RATIO, self.ranks.total(log_ratios)))  # [N]
        if self.settings.compounding == "bounded":
            ratios = ratios.clip(1 - self.settings.clip_low, 1 + self.settings.clip_high)
        return ratios

    def _with_bad_gradients(self, batch: Batch) -> Batch:
        """Return the actions whose own gradient is not finite; all actions where only their sum is not."""
        bad = np.zeros(len(batch.actions))
        pulling: list[int] = []
        for index, pulls in plan_passes(batch, self.scorer, self.settings):
            if pulls:
                pulling += index.tolist()
        for one in self.ranks.even([[i] for i in sorted(pulling)]):  # each alone: a sum hides whose gradient it is
            self.optimizer.zero_grad(set_to_none=True)
            part, scores = self.forward(batch, np.array(one, np.int64), gradient=True)
            terms = loss_terms(part, scores.logprobs, self.settings)
            self.base.backward(policy_loss(terms, scores.entropy, part, self.settings))
            if not all(torch.isfinite(p.grad).all() for p in self.tensors.values() if p.grad is not None):
                bad[one] = 1
        bad = self.ranks.total(bad)
        return batch.take(np.flatnonzero(bad)) if bad.any() else batch

    def _divergence(self, what: str, rows: Batch) -> DivergenceError:
        self.optimizer.zero_grad(set_to_none=True)
        agent, number, episode = rows.agents[rows.agent[0]], rows.round[0], rows.episode[0]
        return DivergenceError(
            f"policy {self.policy!r}: {what}, from {len(rows.actions)} actions, the first of agent {agent!r} in round "
            f"{number} of episode {episode}: lower policy_lr, or look at these records",
            rows,
        )
