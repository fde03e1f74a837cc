"""Objectives as pure functions of tensors: log-ratios, clipped surrogate, value loss, KL estimates."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Normalisation = Literal["sum", "token", "word"]


def action_divisors(lengths: Tensor, words: Tensor, normalisation: Normalisation) -> Tensor:
    """Return what an action's summed log-prob is divided by.

    sum: 1; token: the number of tokens; word: the number of words of its text (at least 1), as in TWOSOME
    (arXiv 2401.14151, section 4.2).

    Args:
        lengths: int [N], tokens per action.
        words: int [N], words per action.
        normalisation: which of the three.
    """
    if normalisation == "sum":
        return torch.ones_like(lengths, dtype=torch.float32)
    return (lengths if normalisation == "token" else words).clamp(min=1).float()


def action_log_ratios(new: Tensor, old: Tensor, owners: Tensor, divisors: Tensor) -> Tensor:
    r"""Sum token log-ratios into action log-ratios.

    .. math::
        \log r_i = \frac{1}{n_i} \sum_j \left[\log \pi(w^{i,j} | \cdot) - \log \pi_{old}(w^{i,j} | \cdot)\right]

    Source: MARFT, arXiv 2504.16129, section 4.1.1 (joint log-prob of an action as the sum over its tokens).

    Args:
        new: [T] current log-probs of all tokens, flat.
        old: [T] recorded log-probs.
        owners: int64 [T], the action each token belongs to, in 0..N-1.
        divisors: [N], see `action_divisors`.

    Returns:
        [N].
    """
    sums = torch.zeros_like(divisors).index_add(0, owners, new - old)
    return sums / divisors


class Surrogate(NamedTuple):
    """The clipped surrogate of a set of decisions.

    Attributes:
        losses: [N], one per decision, not reduced.
        clipped: bool [N], True where the clip is active (the gradient is zero).
    """

    losses: Tensor
    clipped: Tensor


def clipped_surrogate(log_ratios: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float) -> Surrogate:
    r"""PPO's clipped objective, negated, per decision.

    .. math::
        L_i = -\min\left(r_i A_i,\ \mathrm{clip}(r_i, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_i\right)

    Source: Schulman et al., arXiv 1707.06347, eq. 7; separate bounds as in DAPO, arXiv 2503.14476, eq. 10.

    Args:
        log_ratios: [N], log of the probability ratio of each action or token.
        advantages: [N].
        clip_low: epsilon below 1.
        clip_high: epsilon above 1.
    """
    ratios = log_ratios.exp()
    bounded = ratios.clamp(1 - clip_low, 1 + clip_high)
    plain, limited = ratios * advantages, bounded * advantages
    return Surrogate(-torch.minimum(plain, limited), (limited < plain) & (ratios != bounded))


def value_loss(values: Tensor, targets: Tensor, *, huber_delta: float) -> Tensor:
    """Huber loss per value [N]: quadratic within `huber_delta` of the target, linear beyond."""
    return torch.nn.functional.huber_loss(values, targets, reduction="none", delta=huber_delta)


def kl_estimate(log_ratios: Tensor, kind: Literal["k1", "k2", "k3"] = "k3") -> Tensor:
    r"""Estimate KL(old || new) per sampled decision, from log r = log new - log old.

    k1 = -log r; k2 = (log r)^2 / 2; k3 = (r - 1) - log r (unbiased, never negative).
    Source: Schulman, "Approximating KL divergence", 2020, http://joschu.net/blog/kl-approx.html.

    Args:
        log_ratios: [N] under samples of the old law.
        kind: the estimator.
    """
    if kind == "k1":
        return -log_ratios
    if kind == "k2":
        return log_ratios.square() / 2
    return torch.expm1(log_ratios) - log_ratios
