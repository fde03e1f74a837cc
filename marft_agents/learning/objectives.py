"""Objectives as pure functions of tensors: log-ratios, clipped surrogate, averaging, value loss, KL estimates."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marft_agents.learning.settings import Averaging, KlEstimator, Normalisation


def action_divisors(lengths: Tensor, words: Tensor, normalisation: Normalisation) -> Tensor:
    """Return the divisors of the actions' summed log-probs, float32 [N].

    - `sum`: 1.
    - `token`: The number of tokens, which gives GSPO's ratio (arXiv 2507.18071, eq. 7).
    - `word`: The number of words of the text (see `count_words`; at least 1), as in TWOSOME (arXiv 2401.14151,
      section 4.2).

    Args:
        lengths: Int [N], tokens per action.
        words: Int [N], words per action.
        normalisation: One of the three kinds above.
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
        new: Float [T], current log-probs of the tokens of all actions, flat.
        old: Float [T], old log-probs of the same tokens.
        owners: Int64 [T], index of the action each token belongs to, in 0..N-1.
        divisors: Float [N], from `action_divisors`.

    Returns:
        Float [N], one log-ratio per action.
    """
    sums = torch.zeros_like(divisors).index_add(0, owners, new - old)
    return sums / divisors


class Surrogate(NamedTuple):
    """Clipped surrogate of N decisions.

    Attributes:
        losses: Float [N], one loss per decision, not reduced.
        clipped: Bool [N], True where the clip is active (the gradient is zero).
    """

    losses: Tensor
    clipped: Tensor


def clipped_surrogate(
    log_ratios: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float, preceding: Tensor | None = None
) -> Surrogate:
    r"""Compute PPO's clipped objective, negated, per decision.

    .. math::
        L_i = -\min\left(r_i A_i,\ \mathrm{clip}(r_i, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_i\right)

    Source: Schulman et al., arXiv 1707.06347, eq. 7. Separate bounds are from DAPO, arXiv 2503.14476, eq. 10. With
    `preceding`, r_i is multiplied by the ratio of the preceding agents, as in A2PO, arXiv 2302.06205, eq. 6.

    Args:
        log_ratios: Float [N], log of the importance ratio of each action or token.
        advantages: Float [N], one advantage per decision.
        clip_low: Epsilon below 1, in [0, 1].
        clip_high: Epsilon above 1, > 0.
        preceding: Float [N], ratio of the agents updated before in the same round (`preceding_ratios`); None: 1.
    """
    ratios = log_ratios.exp()
    if preceding is not None:
        ratios = ratios * preceding
    bounded = ratios.clamp(1 - clip_low, 1 + clip_high)
    # The smaller of both: the clip takes away what a further change would gain, never what it would lose.
    plain, limited = ratios * advantages, bounded * advantages
    return Surrogate(-torch.minimum(plain, limited), limited < plain)


def preceding_ratios(ratios: Tensor, *, clip_low: float, clip_high: float) -> Tensor:
    r"""Clip the joint ratio of the agents updated before to half the clip range; the agent keeps the other half.

    .. math::
        g = \mathrm{clip}\left(\prod_j \frac{\pi_j}{\pi_{j, old}},\ 1 - \tfrac{\epsilon_{low}}{2},
        1 + \tfrac{\epsilon_{high}}{2}\right)

    Source: A2PO, arXiv 2302.06205, eq. 6.

    Args:
        ratios: Float [N], products of the preceding agents' ratios.
        clip_low: Epsilon below 1, in [0, 1].
        clip_high: Epsilon above 1, > 0.
    """
    return ratios.clamp(1 - clip_low / 2, 1 + clip_high / 2)


def widening_clip(place: int, count: int, start: float) -> float:
    r"""Return the share of the clip bounds for the k-th of n agents; the first ones get less (A2PO).

    .. math::
        C(k) = c + (1 - c) \frac{k}{n}

    Source: A2PO, arXiv 2302.06205 (adaptive clipping parameter); its code has c = 0.5.

    Args:
        place: Position k of the agent in the update order, 1-based.
        count: Number n of agents that this update trains.
        start: Constant c in [0, 1]; 1 gives all agents the full bounds.

    Examples:
        >>> [widening_clip(k, 2, 0.5) for k in (1, 2)]
        [0.75, 1.0]
    """
    return start + (1 - start) * place / count


def averaging_shares(lengths: Tensor, averaging: Averaging, *, limit: int) -> Tensor:
    r"""Return the weight of each action's tokens in the loss, relative to a mean over all tokens.

    With N actions of T_i tokens, the loss is the sum over tokens of share_i * L_it, divided by sum_i T_i:

    .. math::
        \text{decision: } \frac{\sum_{it} L_{it}}{\sum_i T_i}, \qquad
        \text{sequence: } \frac{1}{N} \sum_i \frac{1}{T_i} \sum_t L_{it}, \qquad
        \text{constant: } \frac{1}{N} \sum_i \frac{1}{L_{max}} \sum_t L_{it}

    Sources: DAPO, arXiv 2503.14476, eq. 12; GRPO, arXiv 2402.03300, eq. 3; Dr. GRPO, arXiv 2503.20783, section 3.1.

    Args:
        lengths: Int [N], tokens per action of the whole mini-batch.
        averaging: One of the three kinds above.
        limit: L_max, the most tokens that an action may have.

    Returns:
        Float32 [N], one share per action.
    """
    if averaging == "decision":
        return torch.ones_like(lengths, dtype=torch.float32)
    # The mean cancels in the division by sum_i T_i, which is N times the mean: 1 / N is left.
    mean_length = lengths.float().mean()
    return mean_length / lengths if averaging == "sequence" else (mean_length / limit).expand(len(lengths))


def truncated_importance(old: Tensor, sampled: Tensor, *, cap: float) -> Tensor:
    r"""Return truncated importance weights for samples of an engine that differs from the trained model.

    .. math::
        w = \min\left(\frac{\pi_{old}(a)}{\mu(a)},\ C\right)

    Source: Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training", 2025 (truncated
    importance sampling), https://fengyao.notion.site/off-policy-rl.

    Args:
        old: Float [N], log-probs of the decisions under the trained model before its first step.
        sampled: Float [N], log-probs under the engine that sampled them.
        cap: Largest weight C, > 0.
    """
    return (old - sampled).exp().clamp(max=cap)


def value_loss(
    values: Tensor, targets: Tensor, *, huber_delta: float, before: Tensor | None = None, clip: float | None = None
) -> Tensor:
    r"""Compute the Huber loss per value, with optional PPO value clipping.

    .. math::
        L_i = \max\left(h(V_i - R_i),\ h(\mathrm{clip}(V_i, V^{old}_i - c, V^{old}_i + c) - R_i)\right)

    h is quadratic up to `huber_delta` and linear beyond. Source: MAPPO, arXiv 2103.01955, appendix; MARFT, arXiv
    2504.16129, appendix A.

    Args:
        values: Float [N], V on the scale of the head.
        targets: Float [N], regression targets R on the same scale.
        huber_delta: Error at which h turns linear, > 0.
        before: Float [N], V^old before the update; only read with `clip`.
        clip: Bound c on the change of a value, > 0; None: the loss of the unclipped values alone.

    Returns:
        Float [N], one loss per value.
    """

    def huber(predictions: Tensor) -> Tensor:
        return torch.nn.functional.huber_loss(predictions, targets, reduction="none", delta=huber_delta)

    if clip is None or before is None:
        return huber(values)
    # The larger loss: a value that has moved too far gets no gradient to go on, but one to come back.
    return torch.maximum(huber(values), huber(before + (values - before).clamp(-clip, clip)))


def kl_estimate(log_ratios: Tensor, kind: KlEstimator = "k3") -> Tensor:
    r"""Estimate KL(old || new) per sampled decision, from log r = log new - log old.

    k1 = -log r; k2 = (log r)^2 / 2; k3 = (r - 1) - log r (unbiased, never negative).
    Source: Schulman, "Approximating KL divergence", 2020, http://joschu.net/blog/kl-approx.html.

    Args:
        log_ratios: Float [N], log new - log old of decisions sampled from the old policy.
        kind: Estimator: k1, k2 or k3.
    """
    if kind == "k1":
        return -log_ratios
    if kind == "k2":
        return log_ratios.square() / 2
    return torch.expm1(log_ratios) - log_ratios
