"""From trajectories to training samples: values, chained advantages, returns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from marft_agents.advantages import Array, chain_steps, gae, normalise
from marft_agents.records import Action, Trajectory, Turn
from marft_agents.settings import LearnerSettings


@dataclass(frozen=True)
class Sample:
    """One trained action with what it is credited for.

    Attributes:
        agent: who acted.
        episode: index of its trajectory in the batch.
        round: round of the game.
        action: the recorded tokens and log-probs.
        values: [n] V before each decision; n = 1 at action level, T at token level.
        returns: [n] regression targets of V.
        advantages: [n], normalised per agent.
    """

    agent: str
    episode: int
    round: int
    action: Action
    values: Array
    returns: Array
    advantages: Array


@dataclass(frozen=True)
class Link:
    """A trainable turn in the chain of an episode: where a value is needed.

    Attributes:
        episode: index of the trajectory.
        turn: the turn; its reward includes what untrained turns after it earned.
    """

    episode: int
    turn: Turn


def links(trajectories: Sequence[Trajectory]) -> list[Link]:
    """Return the trainable turns of all finished episodes, episode by episode.

    Turns without tokens (scripted or remote agents) belong to the environment: their reward goes to the
    trainable turn before them. Failed episodes are left out.
    """
    found: list[Link] = []
    for index, trajectory in enumerate(trajectories):
        if trajectory.failure is not None:
            continue
        for turn in trajectory.turns:
            if len(turn.action.token_ids):
                found.append(Link(index, turn))
            elif found and found[-1].episode == index and turn.reward:
                last = found[-1].turn
                found[-1] = Link(index, replace(last, reward=last.reward + turn.reward))
    return found


def estimate(
    trajectories: Sequence[Trajectory],
    chain: Sequence[Link],
    values: Sequence[Array],
    bootstraps: Mapping[int, float],
    settings: LearnerSettings,
) -> list[Sample]:
    """Run GAE along each episode's chain, centre advantages (see `centring`) and scale them per agent.

    Args:
        trajectories: the episodes.
        chain: their trainable turns, from `links`.
        values: per link [1] or [T], V before each decision.
        bootstraps: episode index -> value after it, for the truncated ones; missing means 0.
        settings: discount, lambda, level.

    Returns:
        One sample per link, in the same order.
    """
    samples: list[Sample] = []
    for episode in sorted({link.episode for link in chain}):
        members = [i for i, link in enumerate(chain) if link.episode == episode]
        trajectory = trajectories[episode]
        rewards, discounts, lambdas = chain_steps(
            [chain[i].turn.reward for i in members],
            [len(values[i]) for i in members],
            discount=settings.discount,
            trace_decay=settings.trace_decay,
            terminated=not trajectory.truncated,
        )
        flat = np.concatenate([values[i] for i in members])
        bootstrap = bootstraps.get(episode, 0.0) if trajectory.truncated else 0.0
        advantages = gae(rewards, flat, discounts, lambdas, bootstrap)
        cuts = np.cumsum([len(values[i]) for i in members])[:-1]
        for i, own in zip(members, np.split(advantages, cuts), strict=True):
            turn = chain[i].turn
            samples.append(Sample(turn.agent, episode, turn.round, turn.action, values[i], own + values[i], own))
    groups = [trajectories[sample.episode].group if settings.centring == "group" else 0 for sample in samples]
    return _normalised(samples, groups)


def _normalised(samples: Sequence[Sample], groups: Sequence[int]) -> list[Sample]:
    """Centre advantages per agent and group, then scale them per agent."""
    centred = list(samples)
    for members in _partition(list(zip((s.agent for s in samples), groups, strict=True))):
        mean = np.concatenate([samples[i].advantages for i in members]).mean()
        for i in members:
            centred[i] = replace(samples[i], advantages=samples[i].advantages - mean)
    for members in _partition([s.agent for s in samples]):
        scaled = normalise(np.concatenate([centred[i].advantages for i in members]))
        cuts = np.cumsum([len(centred[i].advantages) for i in members])[:-1]
        for i, own in zip(members, np.split(scaled, cuts), strict=True):
            centred[i] = replace(centred[i], advantages=own)
    return centred


def _partition(keys: Sequence[Hashable]) -> list[list[int]]:
    """Return the indices of equal keys together, in order of first appearance."""
    parts: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        parts.setdefault(key, []).append(i)
    return list(parts.values())
