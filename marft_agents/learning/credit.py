"""Credit assignment: from the turns of episodes to samples with advantages and value targets.

With a critic, GAE runs along steps. A step is a turn of the team's chain (MARFT), a round with one joint advantage
(MAPPO), or one of an agent's own turns (IPPO). Without a critic, a return is compared with those of its group. Each
episode counts once in the group mean and standard deviation, however many turns an agent has in it. Leave-one-out
removes the whole episode, so the baseline does not depend on the action.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

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
from marft_agents.learning.batch import Link, Sample
from marft_agents.learning.settings import LearnerSettings
from marft_agents.trajectory import Trajectory, score

NO_VALUES: Array = np.zeros(0)
ROUNDING = 1e-12  # relative; smaller differences are float64 rounding errors
Ratios = Mapping[tuple[int, int], float]  # (episode, round) -> probability ratio of the preceding agents' actions


@dataclass(frozen=True)
class Step:
    """One step of the GAE recursion.

    Attributes:
        lead: Index of the link at which the critic is evaluated.
        earning: Indices of the links whose rewards follow this step.
        credited: Indices of the links that get the advantage of this step.
    """

    lead: int
    earning: list[int]
    credited: list[int]


def estimate(
    trajectories: Sequence[Trajectory],
    chain: Sequence[Link],
    values: Sequence[Array],
    bootstraps: Mapping[tuple[int, str], float],
    settings: LearnerSettings,
    *,
    costs: Sequence[Array] | None = None,
    ratios: Ratios | None = None,
) -> list[Sample]:
    """Estimate the advantages of every trainable turn, then centre and scale them.

    Args:
        trajectories: Episodes of the batch.
        chain: Trainable turns of the episodes, from `links`.
        values: Per link float64 [m], V before each evaluated decision (see `num_values`); empty without a critic.
        bootstraps: (episode, agent) -> V of the observation after a truncated episode; missing means 0.
        settings: Learner settings that choose the estimator.
        costs: Per link [n], reward shaping added to each decision, not part of any reported reward; None: nothing.
        ratios: (episode, round) -> probability ratio of the preceding agents' actions, for A2PO; None: no correction.

    Returns:
        One sample per link, in the same order.
    """
    sizes = [num_decisions(link, settings) for link in chain]
    shaping = [np.zeros(size) for size in sizes] if costs is None else costs
    if settings.critic:
        advantages, returns = _along_steps(trajectories, chain, values, bootstraps, settings, shaping, ratios)
    else:
        outcomes = _outcomes(trajectories, chain, shaping, settings)
        advantages = _compared(trajectories, chain, outcomes, settings)
        values = returns = [NO_VALUES] * len(chain)
    scaled = _scaled(chain, _centred(trajectories, chain, advantages, settings), settings)
    credited = zip(chain, values, returns, scaled, advantages, strict=True)
    return [
        link.sample(value, target, advantage, credit=credit, positive=score(trajectories[link.episode]) >= 1)
        for link, value, target, advantage, credit in credited
    ]


def num_decisions(link: Link, settings: LearnerSettings) -> int:
    """Return the number of decisions of a turn: 1 at action level, its number of tokens at token level."""
    return len(link.turn.action.token_ids) if settings.level == "token" else 1


def num_values(chain: Sequence[Link], settings: LearnerSettings) -> list[int]:
    """Return per link the number of decisions that the critic evaluates; with joint credit one per round."""
    if settings.credit != "round":
        return [num_decisions(link, settings) for link in chain]
    leads = {step.lead for segment in _segments(chain, settings) for step in segment}
    return [int(i in leads) for i in range(len(chain))]


# ------------------------------------------------------------------ with a critic


def _segments(chain: Sequence[Link], settings: LearnerSettings) -> list[list[Step]]:
    """Return the sequences of steps for GAE: one per episode, or one per episode and agent."""
    segments: list[list[Step]] = []
    for members in _partition([link.episode for link in chain]):
        if settings.credit == "chain":
            segments.append([Step(i, [i], [i]) for i in members])
        elif settings.credit == "round":
            rounds = _partition([chain[i].turn.round for i in members])
            segments.append([Step(members[r[0]], [members[j] for j in r], [members[j] for j in r]) for r in rounds])
        else:
            for own in _partition([chain[i].turn.agent for i in members]):
                ends = [*own[1:], len(members)]  # others' rewards before an agent's next turn follow its own turn
                spans = [members[start:end] for start, end in zip(own, ends, strict=True)]
                segments.append([Step(span[0], span, [span[0]]) for span in spans])
    return segments


def _along_steps(
    trajectories: Sequence[Trajectory],
    chain: Sequence[Link],
    values: Sequence[Array],
    bootstraps: Mapping[tuple[int, str], float],
    settings: LearnerSettings,
    shaping: Sequence[Array],
    ratios: Ratios | None,
) -> tuple[list[Array], list[Array]]:
    """Run GAE along all segments; return per link advantages [n] and value targets [m]."""
    advantages, returns = [NO_VALUES] * len(chain), [NO_VALUES] * len(chain)
    for segment in _segments(chain, settings):
        lead = chain[segment[0].lead]
        trajectory = trajectories[lead.episode]
        asked = [values[step.lead] for step in segment]
        lengths = [len(own) for own in asked]
        rewards, discounts, lambdas = chain_steps(
            [sum(chain[i].turn.reward for i in step.earning) for step in segment],
            lengths,
            discount=settings.discount,
            trace_decay=settings.trace_decay,
            terminated=not trajectory.truncated,
            token_discount=settings.token_discount,
            token_trace_decays=[_inner_lambda(length, settings) for length in lengths],
        )
        rewards = rewards + np.concatenate([_step_costs(step, shaping, settings) for step in segment])
        if ratios is not None:
            played = [chain[step.lead].turn.round for step in segment]
            lambdas = preceding_lambdas(lambdas, np.array([ratios[lead.episode, r] for r in played]))
        flat = np.concatenate(asked)
        whose = lead.turn.agent if settings.credit == "own" else trajectory.final_agent
        bootstrap = bootstraps.get((lead.episode, whose), 0.0) if trajectory.truncated else 0.0
        found = gae(rewards, flat, discounts, lambdas, bootstrap)
        if settings.value_trace_decay is None:
            targets = found + flat
        else:
            targets = gae(rewards, flat, discounts, np.full_like(lambdas, settings.value_trace_decay), bootstrap) + flat
        cuts = np.cumsum(lengths)[:-1]
        for step, own, target in zip(segment, np.split(found, cuts), np.split(targets, cuts), strict=True):
            returns[step.lead] = target
            for i in step.credited:
                advantages[i] = np.broadcast_to(own, num_decisions(chain[i], settings))
    return advantages, returns


def _inner_lambda(length: int, settings: LearnerSettings) -> float:
    """Return lambda between the tokens of a turn of `length` tokens."""
    if settings.length_adaptive:
        return length_adaptive_lambda(length, settings.length_adaptive)
    return settings.token_trace_decay


def _step_costs(step: Step, shaping: Sequence[Array], settings: LearnerSettings) -> Array:
    """Return the reward shaping of a step: summed over a round with joint credit, else one number per decision."""
    if settings.credit == "round":
        return np.array([sum(float(shaping[i].sum()) for i in step.credited)])
    return shaping[step.lead]


# ------------------------------------------------------------------ without a critic


def _outcomes(
    trajectories: Sequence[Trajectory], chain: Sequence[Link], shaping: Sequence[Array], settings: LearnerSettings
) -> list[Array]:
    """Return per link the outcome of each decision [n]: the episode's return or the reward-to-go, plus costs-to-go."""
    if settings.compare == "draw":
        returns = [trajectories[link.episode].team_return for link in chain]
    else:
        returns = [0.0] * len(chain)
        for members in _partition([link.episode for link in chain]):
            rewards = [chain[i].turn.reward for i in members]
            following = 0.0
            for i, reward in zip(reversed(members), reversed(rewards), strict=True):
                returns[i] = following = reward + settings.discount * following
    return [value + costs_to_go(costs) for value, costs in zip(returns, shaping, strict=True)]


def _compared(
    trajectories: Sequence[Trajectory], chain: Sequence[Link], outcomes: Sequence[Array], settings: LearnerSettings
) -> list[Array]:
    """Subtract the baseline of each group; with scaling = "group" divide by its standard deviation."""
    if settings.baseline == "none":
        return list(outcomes)
    advantages = list(outcomes)
    of = group_mean if settings.baseline == "group" else leave_one_out
    for members in _partition([_group(trajectories, link, settings) for link in chain]):
        parts = _partition([chain[i].episode for i in members])
        means = np.array([np.mean([outcomes[members[j]][0] for j in part]) for part in parts])
        spread = float(means.std()) if settings.scaling == "group" else 1.0
        scale = 1.0 / spread if spread > SMALLEST_SPREAD else 0.0
        for part, baseline in zip(parts, of(means), strict=True):
            for j in part:
                advantages[members[j]] = _less(outcomes[members[j]], baseline) * scale
    return advantages


def _group(trajectories: Sequence[Trajectory], link: Link, settings: LearnerSettings) -> Hashable:
    """Return the group key of a turn: (prompt group, agent), or (prompt group, agent, branch, round)."""
    trajectory = trajectories[link.episode]
    place = (trajectory.branch, link.turn.round) if settings.compare == "turn" else ()
    return trajectory.group, link.turn.agent, *place


# ------------------------------------------------------------------ centring and scaling


def _centred(
    trajectories: Sequence[Trajectory], chain: Sequence[Link], advantages: Sequence[Array], settings: LearnerSettings
) -> list[Array]:
    """Subtract the mean per agent over the batch, or per agent over the decisions of one prompt group."""
    centred = list(advantages)
    if settings.centring == "none":
        return centred
    groups = [trajectories[link.episode].group if settings.centring == "group" else 0 for link in chain]
    for members in _partition([(link.turn.agent, group) for link, group in zip(chain, groups, strict=True)]):
        mean = np.concatenate([advantages[i] for i in members]).mean()
        for i in members:
            centred[i] = _less(advantages[i], mean)
    return centred


def _less(values: Array, baseline: float) -> Array:
    """Subtract a baseline; set differences within rounding error to 0, so that nothing is trained on them."""
    difference = values - baseline
    return np.where(np.abs(difference) > ROUNDING * np.abs(values), difference, 0.0)


def _scaled(chain: Sequence[Link], advantages: Sequence[Array], settings: LearnerSettings) -> list[Array]:
    """Normalise the advantages per agent or over all agents."""
    scaled = list(advantages)
    if settings.scaling in ("none", "group"):
        return scaled
    scale = normalise_nonzero if settings.scaling == "batch-nonzero" else normalise
    for members in _partition([link.turn.agent if settings.scaling == "agent" else "" for link in chain]):
        flat = scale(np.concatenate([advantages[i] for i in members]))
        cuts = np.cumsum([len(advantages[i]) for i in members])[:-1]
        for i, own in zip(members, np.split(flat, cuts), strict=True):
            scaled[i] = own
    return scaled


def _partition(keys: Sequence[Hashable]) -> list[list[int]]:
    """Group the indices of equal keys, in order of first appearance."""
    parts: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        parts.setdefault(key, []).append(i)
    return list(parts.values())
