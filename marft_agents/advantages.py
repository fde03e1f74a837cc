"""Advantages and returns along the agent chain, as pure functions of numpy arrays.

The chain of an episode is its turns in the order they were played: agent after agent within a round, then the
first agent of the next round. At action level a step is a turn; at token level a step is a token. One recursion
serves both: what differs is the discount at each step, never a flag. A discount of 0 ends the game, so
truncation (discount > 0 into a bootstrapped value) can not be confused with termination.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def gae(rewards: Array, values: Array, discounts: Array, lambdas: Array, bootstrap: float) -> Array:
    r"""Generalised advantage estimation with a discount and a lambda per step.

    .. math::
        \delta_k = r_k + \gamma_k V_{k+1} - V_k, \qquad
        A_k = \delta_k + \gamma_k \lambda_k A_{k+1}, \qquad V_K = \text{bootstrap},\ A_K = 0

    Source: Schulman et al., arXiv 1506.02438, eq. 16; along the agent chain as in MARFT, arXiv 2504.16129,
    section 4.1.

    Args:
        rewards: [K], r_k follows step k.
        values: [K], V_k before step k.
        discounts: [K], gamma_k between step k and k + 1; 0 where the game ended.
        lambdas: [K], lambda_k between step k and k + 1.
        bootstrap: V_K, the value after the last step (ignored where its discount is 0).

    Returns:
        [K] advantages A_k.

    Example:
        >>> gae(np.array([0., 1.]), np.array([.5, .5]), np.array([1., 0.]), np.ones(2), 0.0).tolist()
        [0.5, 0.5]
    """
    advantages = np.zeros_like(values)
    following_value, following_advantage = float(bootstrap), 0.0
    for k in range(len(values) - 1, -1, -1):
        delta = rewards[k] + discounts[k] * following_value - values[k]
        following_advantage = delta + discounts[k] * lambdas[k] * following_advantage
        advantages[k] = following_advantage
        following_value = values[k]
    return advantages


def chain_steps(
    turn_rewards: Sequence[float],
    turn_lengths: Sequence[int],
    *,
    discount: float,
    trace_decay: float,
    terminated: bool,
    token_discount: float = 1.0,
    token_trace_decay: float = 1.0,
) -> tuple[Array, Array, Array]:
    """Lay an episode's turns out as steps of the chain.

    Args:
        turn_rewards: [K] team reward after each turn.
        turn_lengths: [K] steps per turn: tokens at token level, all 1 at action level.
        discount: gamma between a turn and the next.
        trace_decay: lambda between a turn and the next.
        terminated: True if nothing follows the last turn.
        token_discount: gamma between tokens inside a turn.
        token_trace_decay: lambda between tokens inside a turn.

    Returns:
        rewards, discounts, lambdas: float64 [sum of lengths]; a turn's reward follows its last step.
    """
    ends = np.cumsum(np.asarray(turn_lengths, np.int64)) - 1
    total = int(ends[-1]) + 1
    rewards = np.zeros(total)
    rewards[ends] = turn_rewards
    discounts = np.full(total, token_discount)
    lambdas = np.full(total, token_trace_decay)
    discounts[ends] = discount
    lambdas[ends] = trace_decay
    if terminated:
        discounts[-1] = 0.0
    return rewards, discounts, lambdas


def normalise(advantages: Array, *, epsilon: float = 1e-6) -> Array:
    """Centre and scale to unit standard deviation; all-equal advantages become zeros, not noise.

    Args:
        advantages: [N].
        epsilon: below this standard deviation nothing is learned from the differences.
    """
    if len(advantages) == 0:
        return advantages
    centred = advantages - advantages.mean()
    spread = float(centred.std())
    return centred / spread if spread > epsilon else np.zeros_like(advantages)


def explained_variance(values: Array, returns: Array) -> float:
    """Return 1 - Var(returns - values) / Var(returns); 0 where the returns do not vary."""
    variance = float(np.var(returns)) if len(returns) else 0.0
    return 1.0 - float(np.var(returns - values)) / variance if variance > 0 else 0.0
