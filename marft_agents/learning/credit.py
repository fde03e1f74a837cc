"""Credit assignment: advantages and value targets of a batch.

With a critic, GAE runs along steps. A step is a turn of the team's chain (MARFT), a round with one joint advantage
(MAPPO), or one of an agent's own turns (IPPO). Without a critic, a return is compared with those of its group. Each
episode counts once in the group mean and standard deviation, however many turns an agent has in it. Leave-one-out
removes the whole episode, so the baseline does not depend on the action.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marft_agents.learning.advantages import (
    SMALLEST_SPREAD,
    Array,
    chain_steps,
    costs_to_go,
    gae,
    group_mean,
    leave_one_out,
    length_adaptive_lambda,
    normalise,
    normalise_nonzero,
    preceding_lambdas,
)
from marft_agents.learning.batch import Batch, Index, numbered, offsets_of, positions
from marft_agents.learning.settings import LearnerSettings

ROUNDING = 1e-12  # relative; smaller differences are float64 rounding errors


def estimate(batch: Batch, settings: LearnerSettings, ratios: Array | None = None) -> Batch:
    """Return the batch with `advantages`, `credit` and, with a critic, `returns`.

    Args:
        batch: Batch with values and bootstrap values, if there is a critic, and shaping.
        settings: Learner settings that choose the estimator.
        ratios: Float64 [R], M of each pair (episode, round): ratio pi / pi_old of the agents updated before, for A2PO;
            None: no correction.
    """
    if settings.critic:
        credit, returns = _along_steps(batch, settings, ratios)
    else:
        credit, returns = _compared(batch, _outcomes(batch, settings), settings), batch.returns
    advantages = _scaled(batch, _centred(batch, credit, settings), settings)
    return batch._replace(advantages=advantages, credit=credit, returns=returns)


# ------------------------------------------------------------------ with a critic


class Steps(NamedTuple):
    """The S steps of the GAE recursion, segment after segment; every segment is a recursion of its own.

    Attributes:
        action: Int64 [S], action before which the critic is evaluated.
        reward: Float64 [S], reward that follows the step: the team's, or with rewards = "own" the agent's.
        ends: Int64 [G], number of steps up to the end of each of the G segments.
        value_of: Int64 [D], the value that each decision gets its credit from, numbered in the order of the steps.
        following: Int64 [S], step after each; None: the next one of its segment. The end of a segment is the step that
            the next segment begins with.
    """

    action: Index
    reward: Array
    ends: Index
    value_of: Index
    following: Index | None = None


def credit_steps(batch: Batch, settings: LearnerSettings) -> Steps:
    """Return the steps along which GAE runs: turns of the chain, rounds, or each agent's own turns."""
    everyone = np.arange(len(batch.actions))  # [N], in the order of play
    if settings.credit == "chain":
        steps = Steps(everyone, batch.reward, _ends(batch.episode), np.arange(len(batch.values)))
        return steps if settings.chain_links == "order" else _along_reads(batch, steps)
    if settings.credit == "round":
        _, first = np.unique(batch.joint, return_index=True)
        reward = np.bincount(batch.joint, batch.reward).astype(np.float64)
        return Steps(first, reward, _ends(batch.episode[first]), np.repeat(batch.joint, batch.num_decisions))
    own = np.lexsort((everyone, batch.agent, batch.episode))  # turn after turn, per episode and agent
    segment = numbered(zip(batch.episode[own].tolist(), batch.agent[own].tolist(), strict=True))
    value_of = np.argsort(positions(batch.value_offsets, own))
    if settings.rewards == "own":
        return Steps(own, batch.reward[own], _ends(segment), value_of)
    # The reward of a step is that of all turns of the team from the agent's turn up to `following`, excluded.
    following = np.searchsorted(batch.episode, batch.episode[own], side="right")  # end of the episode
    same = segment[1:] == segment[:-1]
    following[:-1][same] = own[1:][same]  # or the agent's next turn: others' rewards before it follow the own turn
    reward = np.array([batch.reward[start:end].sum() for start, end in zip(own, following, strict=True)])
    return Steps(own, reward, _ends(segment), value_of)


def _along_reads(batch: Batch, chain: Steps) -> Steps:
    """Return the steps of the chain, each followed by the first that read it; its reward is all that comes before."""
    step_of = {place: i for i, place in enumerate(zip(batch.episode.tolist(), batch.turn.tolist(), strict=True))}
    following = np.repeat(chain.ends, np.diff(chain.ends, prepend=0))  # of what nobody read
    for i, (episode, reader) in enumerate(zip(batch.episode.tolist(), batch.reader.tolist(), strict=True)):
        following[i] = step_of.get((episode, reader), following[i])
    reward = np.array([chain.reward[i:end].sum() for i, end in enumerate(following)])
    return chain._replace(reward=reward, following=following)


def _ends(segment: Index) -> Index:
    """Return the ends of runs of equal numbers, int64 [G]."""
    return np.append(np.flatnonzero(np.diff(segment)) + 1, len(segment))


def _along_steps(batch: Batch, settings: LearnerSettings, ratios: Array | None) -> tuple[Array, Array]:
    """Run GAE along the steps of every segment; return credit [D] and value targets [V]."""
    steps = credit_steps(batch, settings)
    at = positions(batch.value_offsets, steps.action)  # the values, in the order of the steps
    values, lengths = batch.values[at], batch.num_values[steps.action]
    last = np.zeros(len(lengths), np.bool_)
    last[steps.ends - 1] = True
    after = None  # the value after each; None: the next one
    if steps.following is not None:
        last = steps.following == np.repeat(steps.ends, np.diff(steps.ends, prepend=0))
        after = np.arange(1, len(values) + 1)
        after[np.cumsum(lengths) - 1] = offsets_of(lengths)[steps.following]
    # Within an action: one lambda for all, or for each one that grows with its length (VAPO).
    token_trace_decays: float | list[float] = settings.token_trace_decay
    if settings.length_adaptive:
        token_trace_decays = [length_adaptive_lambda(length, settings.length_adaptive) for length in lengths]
    rewards, discounts, lambdas = chain_steps(
        steps.reward,
        lengths,
        # A discount of 0 where the game ended for good; a truncated one bootstraps from V after its last turn.
        discounts=np.where(last & batch.terminated[steps.action], 0.0, settings.discount),
        trace_decay=settings.trace_decay,
        token_discount=settings.token_discount,
        token_trace_decays=token_trace_decays,
    )  # [V] each
    rewards += np.bincount(steps.value_of, batch.shaping)  # the costs of all decisions of a round, or of one
    if ratios is not None:
        lambdas = preceding_lambdas(lambdas, ratios[batch.joint[steps.action]])

    ends = offsets_of(lengths)[steps.ends]  # [G], where the values of each segment end
    bootstraps = batch.bootstrap[steps.action[steps.ends - 1]].tolist()

    def recursion(lambdas: Array) -> Array:
        parts, start = [], 0
        for end, bootstrap in zip(ends.tolist(), bootstraps, strict=True):
            s = slice(start, end)
            path = None if after is None else after[s] - start
            parts.append(gae(rewards[s], values[s], discounts[s], lambdas[s], bootstrap, path))
            start = end
        return np.concatenate(parts)

    advantages = recursion(lambdas)
    # Decoupled GAE (VAPO): the value targets may have a lambda of their own, mostly 1.
    targets = advantages
    if settings.value_trace_decay is not None:
        targets = recursion(np.full_like(lambdas, settings.value_trace_decay))
    returns = np.zeros_like(values)
    returns[at] = targets + values  # back from the order of the steps to that of the batch
    return advantages[steps.value_of], returns


# ------------------------------------------------------------------ without a critic


def _outcomes(batch: Batch, settings: LearnerSettings) -> Array:
    """Return the outcome of each decision [D]: its return or reward-to-go, plus costs-to-go."""
    outcomes = batch.team_return
    if settings.compare == "turn":
        outcomes = np.zeros_like(batch.reward)
        following: dict[tuple[int, int], float] = {}  # reward-to-go of the next turn, by episode; own: and by agent
        for i in reversed(range(len(outcomes))):
            key = (int(batch.episode[i]), int(batch.agent[i]) if settings.rewards == "own" else 0)
            following[key] = outcomes[i] = batch.reward[i] + settings.discount * following.get(key, 0.0)
    flat = np.repeat(outcomes, batch.num_decisions)
    if batch.shaping.any():
        flat += np.concatenate([costs_to_go(own) for own in np.split(batch.shaping, batch.decision_offsets[1:-1])])
    return flat


def _compared(batch: Batch, outcomes: Array, settings: LearnerSettings) -> Array:
    """Subtract the baseline of each group [D]; with scaling = "group" divide by its standard deviation.

    A group is an agent's turns of a prompt group, or those of one round and branch.
    """
    if settings.baseline == "none":
        return outcomes
    keys = [batch.group, batch.agent] + ([batch.branch, batch.round] if settings.compare == "turn" else [])
    baselines, scales = np.zeros_like(batch.reward), np.zeros_like(batch.reward)  # [N]
    by_action = outcomes[batch.decision_offsets[:-1]]  # outcome of the first decision of each action
    for members in _groups(*keys):
        # An episode counts once: its mean over the agent's turns in it. `part` says which of them a member is in.
        episodes, part = np.unique(batch.episode[members], return_inverse=True)
        means = np.array([by_action[members[part == k]].mean() for k in range(len(episodes))])
        spread = float(means.std()) if settings.scaling == "group" else 1.0
        baselines[members] = (group_mean if settings.baseline == "group" else leave_one_out)(means)[part]
        scales[members] = 1.0 / spread if spread > SMALLEST_SPREAD else 0.0
    count = batch.num_decisions
    return _less(outcomes, np.repeat(baselines, count)) * np.repeat(scales, count)


# ------------------------------------------------------------------ centring and scaling


def _centred(batch: Batch, advantages: Array, settings: LearnerSettings) -> Array:
    """Subtract the mean per agent over the batch, or per agent over the decisions of one prompt group; [D]."""
    if settings.centring == "none":
        return advantages
    means = np.zeros_like(advantages)
    for members in _groups(batch.agent, *([batch.group] if settings.centring == "group" else [])):
        at = positions(batch.decision_offsets, members)
        means[at] = advantages[at].mean()
    return _less(advantages, means)


def _scaled(batch: Batch, advantages: Array, settings: LearnerSettings) -> Array:
    """Normalise the advantages [D] per agent or over all agents."""
    if settings.scaling == "batch":
        return normalise(advantages)
    if settings.scaling == "batch-nonzero":
        return normalise_nonzero(advantages)
    if settings.scaling in ("none", "group"):
        return advantages
    scaled = np.zeros_like(advantages)
    for members in _groups(batch.agent):
        at = positions(batch.decision_offsets, members)
        scaled[at] = normalise(advantages[at])
    return scaled


def _less(values: Array, baselines: Array) -> Array:
    """Subtract baselines; set differences within rounding error to 0, so that nothing is trained on them."""
    difference = values - baselines
    return np.where(np.abs(difference) > ROUNDING * np.abs(values), difference, 0.0)


def _groups(*keys: Index) -> list[Index]:
    """Return the actions of each group that agrees in all keys [N], in order."""
    number = numbered(zip(*(key.tolist() for key in keys), strict=True))
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
