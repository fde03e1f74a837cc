"""Metrics of one policy's update."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from marft_agents.learning.advantages import SMALLEST_SPREAD, explained_variance
from marft_agents.learning.batch import Batch
from marft_agents.learning.ranks import Ranks
from marft_agents.metric_names import metric_prefix


class UpdateStatistics:
    """Collects the statistics of one policy's update, micro-batch by micro-batch.

    Attributes:
        stopped: True if early stopping on KL ended the passes.
        grad_norms: Gradient norm of each optimizer step, before clipping.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.grad_norms: list[float] = []
        self._first_pass: list[float] = []
        self._tensors: dict[str, list[Tensor]] = defaultdict(list)

    def add(self, log_ratios: Tensor, **others: Tensor) -> None:
        """Add the tensors of one micro-batch.

        Args:
            log_ratios: Float [N], log(pi / pi_old) per decision.
            **others: Tensors whose mean is logged under their name.
        """
        self._tensors["log_ratios"].append(log_ratios.detach())
        for name, tensor in others.items():
            self._tensors[name].append(tensor.detach().float())
        if not self.grad_norms and len(log_ratios):  # before the first step
            self._first_pass.append(log_ratios.detach().abs().max().item())

    def add_replayed(self, nll: Tensor) -> None:
        """Add the negative log-likelihoods [T] of the tokens of replayed actions."""
        self._tensors["replay_nll"].append(nll.detach().float())

    def of_all(self, ranks: Ranks) -> UpdateStatistics:
        """Return the statistics of all ranks together; every rank has made the same steps."""
        if ranks.count == 1:
            return self
        joined = UpdateStatistics()
        joined.stopped, joined.grad_norms = self.stopped, self.grad_norms
        # One tensor a name: a gather pickles, and micro-batches are of no interest to the others.
        own = {name: torch.cat(parts).cpu() for name, parts in self._tensors.items()}
        for tensors, first_pass in ranks.gather((own, self._first_pass)):
            joined._first_pass += first_pass
            for name, tensor in tensors.items():
                joined._tensors[name].append(tensor)
        return joined

    def summary(self, policy: str, rows: Batch) -> dict[str, float]:
        """Return the metrics of the update as `{policy}/{name}`.

        - `entropy`: Mean over tokens, nats.
        - `kl`: K3 estimate of KL(old || new), mean over decisions, nats.
        - `kl_stopped`: 1 if early stopping on KL ended the passes.
        - `clip_share`: Share of decisions whose clip is active.
        - `ratio_max`, `ratio_min`: Extremes of pi / pi_old over decisions.
        - `first_pass_log_ratio_max`: Largest |log ratio| before the first step; 0 but for float error.
        - `grad_norm`: Mean gradient norm before clipping.
        - `tokens_mean`: Mean number of tokens of an action.
        - `cap_hit_share`: Share of actions that the token limit cut.
        - `kl_reference`: Mean KL to the base without adapter, nats per token.
        - `nll`: Mean negative log-likelihood over the tokens of positive actions.
        - `replay_nll`: Mean negative log-likelihood over the tokens of replayed actions.
        - `importance`: Mean importance weight, where another engine sampled actions.
        - `importance_capped`: Share of these weights that reached the cap.
        - `advantage_mean`, `_std`, `_min`, `_max`, `advantage_zero_share`: Advantages before centring and scaling.
        - `return_mean`, `return_std`: Value targets, with a critic.
        - `explained_variance`: Of the values before this update, with a critic.

        The metrics `kl_reference`, `nll`, `replay_nll`, `importance` and `importance_capped` exist only where they are
        computed.
        """
        tensors: Mapping[str, Tensor] = {name: torch.cat(parts) for name, parts in self._tensors.items()}
        ratios = tensors["log_ratios"].exp()
        values = {}
        for name, tensor in tensors.items():  # entropy, kl, clip_share and others are means of what `add` was given
            if name != "log_ratios" and len(tensor):
                values[name] = tensor.mean().item()
        values |= {
            "kl_stopped": float(self.stopped),
            "ratio_max": ratios.max().item(),
            "ratio_min": ratios.min().item(),
            "first_pass_log_ratio_max": max(self._first_pass, default=0.0),
            "grad_norm": float(np.mean(self.grad_norms)) if self.grad_norms else 0.0,
            "tokens_mean": float(rows.lengths.mean()),
            "cap_hit_share": float(np.mean([not action.stopped for action in rows.actions])),
        }
        values |= _credit_statistics(rows)
        return {f"{metric_prefix(policy)}/{name}": value for name, value in values.items()}


def _credit_statistics(rows: Batch) -> dict[str, float]:
    """Return the metrics of advantages, value targets and values; see `UpdateStatistics.summary`."""
    found = {
        "advantage_mean": rows.credit.mean(),
        "advantage_std": rows.credit.std(),
        "advantage_min": rows.credit.min(),
        "advantage_max": rows.credit.max(),
        "advantage_zero_share": np.mean(np.abs(rows.credit) < SMALLEST_SPREAD),
    }
    if len(rows.returns):
        found |= {"return_mean": rows.returns.mean(), "return_std": rows.returns.std()}
        found["explained_variance"] = explained_variance(rows.values, rows.returns)
    return {name: float(value) for name, value in found.items()}
