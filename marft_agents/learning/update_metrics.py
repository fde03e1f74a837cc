"""What is logged of one policy's update."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from marft_agents.learning.advantages import SMALLEST_SPREAD, explained_variance
from marft_agents.learning.batch import Sample
from marft_agents.metric_names import metric_prefix


class UpdateStatistics:
    """Collects what happened in one policy's update, micro-batch by micro-batch.

    Attributes:
        stopped: the KL bound ended the passes.
        grad_norms: norm of the gradient of each optimizer step, before it is scaled down.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.grad_norms: list[float] = []
        self._first_pass: list[float] = []
        self._tensors: dict[str, list[Tensor]] = defaultdict(list)

    def add(self, log_ratios: Tensor, *, first: bool, **others: Tensor) -> None:
        """Add one micro-batch.

        Args:
            log_ratios: log(pi / pi_old) per decision.
            first: it is of the first pass.
            **others: tensors whose mean is logged under their name.
        """
        self._tensors["log_ratios"].append(log_ratios.detach())
        for name, tensor in others.items():
            self._tensors[name].append(tensor.detach().float())
        if first and not self.grad_norms:
            self._first_pass.append(log_ratios.detach().abs().max().item())

    def summary(self, policy: str, samples: Sequence[Sample]) -> dict[str, float]:
        """Return metrics by name, each under the policy's.

        entropy: mean over tokens, nats. kl: k3 estimate of KL(old || new), mean over decisions, nats; kl_stopped: 1 if
        it ended the passes. clip_share: share of decisions whose clip is active. ratio_max, ratio_min: of pi / pi_old.
        first_pass_log_ratio_max: largest |log ratio| before the first step, 0 but for float error. grad_norm: mean
        before scaling. tokens_mean: length of an action; cap_hit_share: share of actions that the limit cut.
        kl_reference: mean KL to the base without adapter, nats per token. nll: mean over the tokens of positive
        actions. importance, importance_capped: mean weight of decisions that another engine sampled, and the share that
        was cut. The last four only where they are computed. Of the credit before it is scaled: advantage_mean, _std,
        _min, _max, advantage_zero_share; with a critic return_mean, return_std, explained_variance (of the values
        before this update).
        """
        tensors: Mapping[str, Tensor] = {name: torch.cat(parts) for name, parts in self._tensors.items()}
        ratios = tensors["log_ratios"].exp()
        lengths = [len(s.action.token_ids) for s in samples]
        values = {
            name: tensor.mean().item() for name, tensor in tensors.items() if name != "log_ratios" and len(tensor)
        }
        values |= {
            "kl_stopped": float(self.stopped),
            "ratio_max": ratios.max().item(),
            "ratio_min": ratios.min().item(),
            "first_pass_log_ratio_max": max(self._first_pass, default=0.0),
            "grad_norm": float(np.mean(self.grad_norms)) if self.grad_norms else 0.0,
            "tokens_mean": float(np.mean(lengths)),
            "cap_hit_share": float(np.mean([not s.action.stopped for s in samples])),
        }
        values |= _credit_statistics(samples)
        return {f"{metric_prefix(policy)}/{name}": value for name, value in values.items()}


def _credit_statistics(samples: Sequence[Sample]) -> dict[str, float]:
    """Return what `UpdateStatistics.summary` says of the credit."""
    credit = np.concatenate([s.credit for s in samples])
    found = {
        "advantage_mean": credit.mean(),
        "advantage_std": credit.std(),
        "advantage_min": credit.min(),
        "advantage_max": credit.max(),
        "advantage_zero_share": np.mean(np.abs(credit) < SMALLEST_SPREAD),
    }
    values, returns = (np.concatenate([getattr(s, name) for s in samples]) for name in ("values", "returns"))
    if len(returns):
        found |= {"return_mean": returns.mean(), "return_std": returns.std()}
        found["explained_variance"] = explained_variance(values, returns)
    return {name: float(value) for name, value in found.items()}
