"""Branches of finished episodes: alternative actions at one turn after an identical history.

The siblings of a turn are further episodes. They replay all earlier turns and continue under the same policies. Their
returns differ by the action of that turn and by the turns after it, so comparing them credits the turn alone.
Leave-one-out over the alternatives is the counterfactual credit of C3 (arXiv 2603.06859). The groups, one per task,
history, agent and turn, are those of AT-GRPO's tree sampling (arXiv 2510.11062). AT-GRPO continues from the candidate
with the highest reward. Here the stem is an ordinary episode, so its states are those that the policies reach.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from marft_agents.rollouts.recorded_game import NOT_DETERMINISTIC
from marft_agents.trajectory import EpisodeStart, Trajectory

# Sibling numbers start beyond all other episode numbers. SeedSequence reads 32-bit words and pads with zeros. At this
# distance no sibling shares its randomness with another episode at another turn.
SIBLINGS = 1 << 64
TURNS = 1 << 16  # group numbers stay within 64 bits; later turns are not branched


@dataclass(frozen=True)
class Branches:
    """Branches of one episode.

    Attributes:
        trained: A group per branched turn: the episode itself, then its siblings that did not fail. `branch` is the
            index of the trained turn. Groups of one are left out.
        siblings: All siblings that were played, including failed ones.
    """

    trained: tuple[Trajectory, ...] = ()
    siblings: tuple[Trajectory, ...] = ()


def branch(
    play: Callable[[Sequence[EpisodeStart]], Sequence[Trajectory]],
    episodes: Sequence[EpisodeStart],
    trajectories: Sequence[Trajectory],
    *,
    alternatives: int,
    seed: int,
    most_turns: int = 0,
    agents: Collection[str] | None = None,
) -> list[Branches]:
    """Play the siblings of finished episodes.

    Args:
        play: Plays episodes; returns their trajectories in order.
        episodes: Episodes that were played.
        trajectories: Their trajectories in the same order; failed ones have no branches.
        alternatives: Number of actions compared per turn, the recorded one included; >= 2.
        seed: Seed for choosing the turns.
        most_turns: Largest number of branched turns per episode, chosen uniformly; 0 branches all.
        agents: Agents whose turns are branched; None for all agents that play tokens.

    Returns:
        The branches of each episode.
    """
    forks: list[tuple[int, int]] = []  # episode and turn
    plan: list[EpisodeStart] = []  # of each fork `alternatives` - 1 siblings: the recorded action is the first one
    for i, (episode, trajectory) in enumerate(zip(episodes, trajectories, strict=True)):
        for turn in _forked(episode, trajectory, seed, most_turns, agents):
            forks.append((i, turn))
            for k in range(1, alternatives):
                plan.append(_sibling(episode, trajectory, turn, turn * alternatives + k))
    played = iter(play(plan) if plan else ())  # all siblings of all episodes side by side
    found = [Branches()] * len(episodes)
    for i, turn in forks:
        siblings = tuple(_compared(trajectories[i], next(played), turn) for _ in range(1, alternatives))
        group = tuple(sibling for sibling in siblings if sibling.failure is None)
        if group:  # the episode itself compares with its siblings; without any it would be a group of one
            group = (replace(trajectories[i], branch=turn, group=group[0].group), *group)
        found[i] = Branches(found[i].trained + group, found[i].siblings + siblings)
    return found


def _forked(
    episode: EpisodeStart, trajectory: Trajectory, seed: int, most_turns: int, agents: Collection[str] | None
) -> list[int]:
    """Return the turns of an episode to branch, in order."""
    if trajectory.failure is not None:
        return []
    turns = []
    for k, turn in enumerate(trajectory.turns[:TURNS]):
        if len(turn.action.token_ids) and (agents is None or turn.agent in agents):
            turns.append(k)
    if most_turns and len(turns) > most_turns:
        generator = np.random.default_rng(np.random.SeedSequence([seed, episode.number], spawn_key=(0,)))
        turns = sorted(int(k) for k in generator.choice(turns, size=most_turns, replace=False))
    return turns


def _sibling(base: EpisodeStart, trajectory: Trajectory, turn: int, index: int) -> EpisodeStart:
    """Return the episode to play as one sibling; `index` > 0 is unique among the siblings of this episode."""
    return replace(
        base,
        number=base.number + index * SIBLINGS,
        group=base.number * TURNS + turn,
        prefix=tuple(earlier.action for earlier in trajectory.turns[:turn]),
    )


def _compared(base: Trajectory, sibling: Trajectory, turn: int) -> Trajectory:
    """Return a sibling with its branched turn, marked as failed if its replay diverged."""
    failure = sibling.failure or _divergence(base, sibling, turn)
    return replace(sibling, branch=turn, failure=failure)


def _divergence(base: Trajectory, sibling: Trajectory, turn: int) -> str | None:
    """Describe the first difference between a replay and its record; None if they agree."""
    if len(sibling.turns) <= turn:
        return f"replay: the game was over before turn {turn}; {NOT_DETERMINISTIC}"
    for k, (was, now) in enumerate(zip(base.turns[: turn + 1], sibling.turns, strict=False)):
        compared = [("agent", was.agent, now.agent), ("round", was.round, now.round)]
        if k < turn:  # the branched turn itself is another action, and pays another reward
            compared += [("reward", was.reward, now.reward), ("rewards", was.rewards, now.rewards)]
        for name, recorded, found in compared:
            if recorded != found:
                return f"replay of turn {k}: {name} {recorded!r} was recorded, found {found!r}; {NOT_DETERMINISTIC}"
    # Of a group this turn alone is trained, so its prompt has to be the same one.
    if not np.array_equal(base.turns[turn].action.prompt_ids, sibling.turns[turn].action.prompt_ids):
        agent = base.turns[turn].agent
        return f"replay of turn {turn}: {agent} sees another prompt than was recorded; {NOT_DETERMINISTIC}"
    return None
