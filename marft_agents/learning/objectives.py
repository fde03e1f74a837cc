"""Objectives as pure functions of tensors: log-ratios, clipped surrogate, averaging, value loss, KL estimates."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marft_agents.learning.settings import Averaging, KlEstimator, Normalisation


def action_divisors(lengths: Tensor, words: Tensor, normalisation: Normalisation) -> Tensor:
    """Return what an action's summed log-prob is divided by.

    sum: 1; token: the number of tokens, which makes the ratio that of GSPO (arXiv 2507.18071, eq. 7); word: the number
    of words of its text (see `count_words`; at least 1), as in TWOSOME (arXiv 2401.14151, section 4.2).

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


def clipped_surrogate(
    log_ratios: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float, preceding: Tensor | None = None
) -> Surrogate:
    r"""PPO's clipped objective, negated, per decision.

    .. math::
        L_i = -\min\left(r_i A_i,\ \mathrm{clip}(r_i, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_i\right)

    Source: Schulman et al., arXiv 1707.06347, eq. 7; separate bounds as in DAPO, arXiv 2503.14476, eq. 10; r_i times
    the ratio of the preceding agents as in A2PO, arXiv 2302.06205, eq. 6.

    Args:
        log_ratios: [N], log of the probability ratio of each action or token.
        advantages: [N].
        clip_low: epsilon below 1.
        clip_high: epsilon above 1.
        preceding: [N] of the agents updated before in the same round, see `preceding_ratios`; None is 1.
    """
    ratios = log_ratios.exp()
    if preceding is not None:
        ratios = ratios * preceding
    bounded = ratios.clamp(1 - clip_low, 1 + clip_high)
    plain, limited = ratios * advantages, bounded * advantages
    return Surrogate(-torch.minimum(plain, limited), (limited < plain) & (ratios != bounded))


def preceding_ratios(ratios: Tensor, *, clip_low: float, clip_high: float) -> Tensor:
    r"""Hold the joint ratio of the agents updated before within half the clip; the other half is left to the agent.

    .. math::
        g = \mathrm{clip}\left(\prod_j \frac{\pi_j}{\pi_{j, old}},\ 1 - \tfrac{\epsilon_{low}}{2},
        1 + \tfrac{\epsilon_{high}}{2}\right)

    Source: A2PO, arXiv 2302.06205, eq. 6.

    Args:
        ratios: [N], the products.
        clip_low: epsilon below 1.
        clip_high: epsilon above 1.
    """
    return ratios.clamp(1 - clip_low / 2, 1 + clip_high / 2)


def widening_clip(place: int, count: int, start: float) -> float:
    r"""Return the share of the clip bounds that the k-th of n agents gets, so that the first ones leave room.

    .. math::
        C(k) = c + (1 - c) \frac{k}{n}

    Source: A2PO, arXiv 2302.06205 (adaptive clipping parameter); its code has c = 0.5.

    Args:
        place: k, from 1.
        count: n, the agents that this update trains.
        start: c; 1 gives all agents the same.

    Example:
        >>> [widening_clip(k, 2, 0.5) for k in (1, 2)]
        [0.75, 1.0]
    """
    return start + (1 - start) * place / count


def averaging_shares(lengths: Tensor, averaging: Averaging, *, limit: int) -> Tensor:
    r"""Return how much each token of an action counts, relative to a mean over all tokens.

    With N actions of T_i tokens, the loss is the sum over tokens of share_i * L_it, divided by sum_i T_i:

    .. math::
        \text{decision: } \frac{\sum_{it} L_{it}}{\sum_i T_i}, \qquad
        \text{sequence: } \frac{1}{N} \sum_i \frac{1}{T_i} \sum_t L_{it}, \qquad
        \text{constant: } \frac{1}{N} \sum_i \frac{1}{L_{max}} \sum_t L_{it}

    Sources: DAPO, arXiv 2503.14476, eq. 12; GRPO, arXiv 2402.03300, eq. 3; Dr. GRPO, arXiv 2503.20783, section 3.1.

    Args:
        lengths: int [N], tokens per action of the whole mini-batch.
        averaging: which of the three.
        limit: L_max, the most tokens an action may have.

    Returns:
        float [N].
    """
    if averaging == "decision":
        return torch.ones_like(lengths, dtype=torch.float32)
    mean_length = lengths.float().mean()
    return mean_length / lengths if averaging == "sequence" else (mean_length / limit).expand(len(lengths))


def truncated_importance(old: Tensor, sampled: Tensor, *, cap: float) -> Tensor:
    r"""Return the weights that correct for an engine whose law is not quite the trained model's.

    .. math::
        w = \min\left(\frac{\pi_{old}(a)}{\mu(a)},\ C\right)

    Source: Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training", 2025 (truncated
    importance sampling), https://fengyao.notion.site/off-policy-rl.

    Args:
        old: [N] log-probs of the decisions under the model that is trained, before its first step.
        sampled: [N] log-probs under the engine that sampled them.
        cap: C.
    """
    return (old - sampled).exp().clamp(max=cap)


def value_loss(
    values: Tensor, targets: Tensor, *, huber_delta: float, before: Tensor | None = None, clip: float | None = None
) -> Tensor:
    r"""Huber loss per value, of clipped values too.

    .. math::
        L_i = \max\left(h(V_i - R_i),\ h(\mathrm{clip}(V_i, V^{old}_i - c, V^{old}_i + c) - R_i)\right)

    h is quadratic up to `huber_delta` and linear beyond. Source: MAPPO, arXiv 2103.01955, appendix; MARFT, arXiv
    2504.16129, appendix A.

    Args:
        values: [N] V, on the scale of the head.
        targets: [N] R, on the same scale.
        huber_delta: where h turns linear.
        before: [N] V^old, before the update; only read with `clip`.
        clip: c; None: the loss of the unclipped values alone.

    Returns:
        [N].
    """

    def huber(predictions: Tensor) -> Tensor:
        return torch.nn.functional.huber_loss(predictions, targets, reduction="none", delta=huber_delta)

    if clip is None or before is None:
        return huber(values)
    return torch.maximum(huber(values), huber(before + (values - before).clamp(-clip, clip)))


def kl_estimate(log_ratios: Tensor, kind: KlEstimator = "k3") -> Tensor:
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
