"""Advantages, returns and baselines, as pure functions of numpy arrays.

The chain of an episode is its turns in playing order: agent after agent within a round, then the next round. At action
level a step is a turn; at token level a step is a token. One recursion serves both: only the discount at each step
differs, never a flag. A discount of 0 marks termination. Truncation has a discount > 0 into a bootstrapped value, so
the two cannot be confused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
SMALLEST_SPREAD = 1e-6  # smaller standard deviations count as 0: dividing by them would amplify rounding errors


def gae(
    rewards: Array,
    values: Array,
    discounts: Array,
    lambdas: Array,
    bootstrap: float,
    following: npt.NDArray[np.int64] | None = None,
) -> Array:
    r"""Compute generalised advantage estimates (GAE) with a discount and a lambda per step.

    .. math::
        \delta_k = r_k + \gamma_k V_{k+1} - V_k, \qquad
        A_k = \delta_k + \gamma_k \lambda_k A_{k+1}, \qquad V_K = \text{bootstrap},\ A_K = 0

    Source: Schulman et al., arXiv 1506.02438, eq. 16; along the agent chain as in MARFT, arXiv 2504.16129,
    section 4.1.

    Args:
        rewards: Float64 [K]; r_k follows step k.
        values: Float64 [K]; V_k before step k.
        discounts: Float64 [K] in [0, 1]; gamma_k between steps k and k + 1, 0 where the episode terminated.
        lambdas: Float64 [K] in [0, 1]; lambda_k between steps k and k + 1.
        bootstrap: V_K, the value after the last step (ignored where its discount is 0).
        following: Int64 [K] in (k, K], the step after each in place of k + 1: paths that join instead of one chain.

    Returns:
        Float64 [K], the advantages A_k.

    Examples:
        >>> gae(np.array([0., 1.]), np.array([.5, .5]), np.array([1., 0.]), np.ones(2), 0.0).tolist()
        [0.5, 0.5]
    """
    count = len(values)
    after = list(range(1, count + 1)) if following is None else following.tolist()
    known = [*values.tolist(), float(bootstrap)]  # V_0 to V_K
    advantages = np.zeros(count + 1)  # A_0 to A_K
    for k in range(count - 1, -1, -1):
        delta = rewards[k] + discounts[k] * known[after[k]] - known[k]
        advantages[k] = delta + discounts[k] * lambdas[k] * advantages[after[k]]
    return advantages[:-1]


def chain_steps(
    turn_rewards: Array,
    turn_lengths: npt.NDArray[np.int64],
    *,
    discounts: Array,
    trace_decay: float,
    token_discount: float = 1.0,
    token_trace_decays: Sequence[float] | float = 1.0,
) -> tuple[Array, Array, Array]:
    """Convert turns to the steps of their chain.

    Args:
        turn_rewards: Float64 [K], team reward after each turn.
        turn_lengths: Int64 [K], steps per turn: tokens at token level, all 1 at action level.
        discounts: Float64 [K], gamma between each turn and the next, in [0, 1]; 0 where nothing follows.
        trace_decay: Lambda between a turn and the next, in [0, 1].
        token_discount: Gamma between tokens inside a turn, in [0, 1].
        token_trace_decays: [K], lambda between tokens inside each turn, or one number for all turns.

    Returns:
        Rewards, discounts and lambdas, each float64 [sum of lengths]; a turn's reward follows its last step.

    Examples:
        >>> [x.tolist() for x in chain_steps(np.ones(2), np.array([2, 1]), discounts=np.array([0.9, 0]), trace_decay=1)]
        [[0.0, 1.0, 1.0], [1.0, 0.9, 0.0], [1.0, 1.0, 1.0]]
    """
    ends = np.cumsum(turn_lengths) - 1  # last step of each turn, [K]
    total = int(turn_lengths.sum())
    rewards, steps = np.zeros(total), np.full(total, token_discount)
    lambdas = np.repeat(np.broadcast_to(np.asarray(token_trace_decays, np.float64), len(ends)), turn_lengths)
    # Between turns, from the last step of one to the first of the next, the discount and lambda of turns hold.
    rewards[ends], steps[ends], lambdas[ends] = turn_rewards, discounts, trace_decay
    return rewards, steps, lambdas


def normalise(advantages: Array, *, epsilon: float = SMALLEST_SPREAD) -> Array:
    """Centre advantages and scale them to unit standard deviation; all-equal advantages become zeros.

    Args:
        advantages: Float64 [N], N >= 0.
        epsilon: Standard deviation up to which all advantages become 0.
    """
    if len(advantages) == 0:
        return advantages
    centred = advantages - advantages.mean()
    spread = float(centred.std())
    return centred / spread if spread > epsilon else np.zeros_like(advantages)


def normalise_nonzero(advantages: Array) -> Array:
    r"""Normalise the nonzero advantages; exact zeros stay zero and count in neither mean nor standard deviation.

    .. math::
        A'_k = \frac{A_k - \mu}{\sigma + 10^{-8}}, \qquad \mu, \sigma \text{ over } \{A_k \ne 0\}

    Source: MARFT, arXiv 2504.16129, appendix A. There the zeros are padding. Here they are decisions, such as those of
    a failed episode while V = 0. Leaving them out compares solved actions with each other alone, so the presets use
    `normalise`.

    Args:
        advantages: Float64 [N]; all become zero where the nonzero ones are all equal.

    Examples:
        >>> normalise_nonzero(np.array([0.0, 1.0, 3.0])).round(6).tolist()
        [0.0, -1.0, 1.0]
    """
    counted = advantages[advantages != 0]
    normalised = np.zeros_like(advantages)
    if len(counted) and counted.std() > SMALLEST_SPREAD:
        normalised[advantages != 0] = (counted - counted.mean()) / (counted.std() + 1e-8)
    return normalised


def length_adaptive_lambda(length: int, alpha: float) -> float:
    r"""Return the length-adaptive lambda between the tokens of an action; its traces sum to a share of the length.

    .. math::
        \lambda = 1 - \frac{1}{\alpha l}, \qquad \text{so that } \sum_{t=0}^{\infty} \lambda^t = \alpha l

    Source: VAPO, arXiv 2504.05118, section 3.2 (length-adaptive GAE); 0 for actions shorter than 1 / alpha.

    Args:
        length: Number of tokens l of the action, >= 1.
        alpha: Share of the length, > 0; VAPO's is 0.05.
    """
    return max(0.0, 1.0 - 1.0 / (alpha * length))


def preceding_lambdas(lambdas: Array, ratios: Array) -> Array:
    r"""Cut traces where the agents updated before have become less likely to act as recorded.

    .. math::
        \lambda'_k = \lambda_k \min(1, \rho_{k+1})

    Source: A2PO, arXiv 2302.06205, section 4.1 (preceding-agent off-policy correction).

    Args:
        lambdas: Float64 [K]; lambda_k between rounds k and k + 1.
        ratios: Float64 [K]; rho_k, new over old probability of the preceding agents' actions in round k.
    """
    cut: Array = lambdas * np.append(np.minimum(1.0, ratios[1:]), 1.0)  # nothing follows the last round
    return cut


def group_mean(returns: Array) -> Array:
    r"""Return the GRPO baseline: the group mean, for each member of a group.

    .. math::
        b_i = \frac{1}{G} \sum_j R_j

    Source: DeepSeekMath, arXiv 2402.03300, section 4.1.1.

    Args:
        returns: Float64 [G], the returns of one group.

    Examples:
        >>> group_mean(np.array([0., 1., 2.])).tolist()
        [1.0, 1.0, 1.0]
    """
    return np.full_like(returns, returns.mean())


def leave_one_out(returns: Array) -> Array:
    r"""Return the leave-one-out baseline of RLOO and C3: the mean of the others, independent of one's own action.

    .. math::
        b_i = \frac{1}{G - 1} \sum_{j \ne i} R_j

    Source: RLOO, arXiv 2402.14740, section 2.2; of alternatives of one turn: C3, arXiv 2603.06859.

    Args:
        returns: Float64 [G], the returns of one group; with G = 1 the baseline is the return itself (advantage 0).

    Examples:
        >>> leave_one_out(np.array([0., 1., 2.])).tolist()
        [1.5, 1.0, 0.5]
    """
    if len(returns) < 2:
        return returns.copy()
    others: Array = (returns.sum() - returns) / (len(returns) - 1)
    return others


def costs_to_go(costs: Array) -> Array:
    """Return [T], for each token the undiscounted sum of its own and all later costs of its action."""
    return costs[::-1].cumsum()[::-1]


def overlong_punishment(length: int, limit: int, share: float) -> float:
    r"""Return DAPO's soft overlong punishment of an action, from 0 to -1.

    .. math::
        R(l) = -\max\left(0, \frac{l - (L_{max} - L_{cache})}{L_{cache}}\right), \qquad L_{cache} = s L_{max}

    Source: DAPO, arXiv 2503.14476, eq. 13; its L_cache is a fifth of its L_max.

    Args:
        length: Number of tokens l of the action, <= `limit`.
        limit: L_max, the most tokens that an action may have.
        share: Punished share s of the limit, in [0, 1]; 0 punishes nothing.

    Examples:
        >>> [overlong_punishment(l, 10, 0.4) for l in (6, 8, 10)]
        [0.0, -0.5, -1.0]
    """
    if share == 0:
        return 0.0
    return min(0.0, (limit - length) / (share * limit) - 1.0)


def explained_variance(values: Array, returns: Array) -> float:
    """Return the explained variance 1 - Var(returns - values) / Var(returns); 0 where the returns do not vary."""
    variance = float(np.var(returns)) if len(returns) else 0.0
    return 1.0 - float(np.var(returns - values)) / variance if variance > 0 else 0.0
