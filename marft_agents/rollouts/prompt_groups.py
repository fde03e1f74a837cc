"""Prompt groups of one update: their episodes, dynamic sampling and branches.

Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2) replaces zero-advantage groups. All compared returns of such a
group are equal, so a group baseline learns nothing from it. It is replaced by a further prompt group, or left out
if none was better. Metrics report the first prompt groups only, since a selection by informativeness is no fair
sample of the tasks. With epochs, only the first prompt groups follow the order of tasks. Further ones are sampled
with replacement, so the position in the epoch stays a function of the update.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from marft_agents.learning.advantages import SMALLEST_SPREAD
from marft_agents.rollouts.branching import Branches, branch
from marft_agents.rollouts.rollout import group_episodes, tasks_of_update
from marft_agents.trajectory import TERM, EpisodeStart, Trajectory, mean_terms, score


class AllEpisodesFailedError(RuntimeError):
    """All episodes of an update failed, or all of its branches; names the first cause."""


@dataclass(frozen=True)
class GroupSettings:
    """Number of prompt groups, episodes and branches of an update.

    Attributes:
        seed: Seed of the run.
        groups: Number of prompt groups per update.
        group_size: Number of episodes per prompt group.
        extra_rounds: Largest number of times that zero-advantage groups are resampled (dynamic sampling); 0: never.
        branches: Number of actions compared per branched turn; 0: whole episodes are trained.
        branched_turns: Number of turns of an episode that are branched; 0: all.
        by_turn: True to compare the return from each turn of an episode on, False to compare the episode's return.
        own_rewards: True to compare each agent's own rewards, False to compare those of the team.
        tasks: Reset options of all tasks, sampled without replacement epoch by epoch. Empty: the environment samples
            with replacement.
    """

    seed: int
    groups: int
    group_size: int
    extra_rounds: int = 0
    branches: int = 0
    branched_turns: int = 0
    by_turn: bool = False
    own_rewards: bool = False
    tasks: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class PromptGroup:
    """Played prompt group with its branches.

    Attributes:
        episodes: Episodes played from its start.
        trained: Trajectories to train on: the episodes, or groups of their branches.
        siblings: Further episodes played as branches, including failed ones.
        differing: For each compared group, True if its outcomes differ.
    """

    episodes: tuple[Trajectory, ...]
    trained: tuple[Trajectory, ...]
    siblings: tuple[Trajectory, ...]
    differing: tuple[bool, ...]

    @property
    def informative(self) -> bool:
        """True if the outcomes of some compared group differ."""
        return any(self.differing)


@dataclass(frozen=True)
class Experience:
    """All prompt groups played for one update.

    Attributes:
        first: The update's own prompt groups; metrics report these.
        further: Replacements for zero-advantage groups.
        batch: Prompt groups to train on: the first ones. With dynamic sampling these are the informative ones of all
            rounds, at most as many; all first ones if none is informative.
    """

    first: tuple[PromptGroup, ...]
    further: tuple[PromptGroup, ...]
    batch: tuple[PromptGroup, ...]

    @property
    def trained(self) -> list[Trajectory]:
        """Trajectories that the update trains on."""
        return list(chain.from_iterable(group.trained for group in self.batch))

    @property
    def reported(self) -> list[Trajectory]:
        """Episodes of the first prompt groups: a fair sample of tasks and policies."""
        return list(chain.from_iterable(group.episodes for group in self.first))

    @property
    def played(self) -> list[Trajectory]:
        """All trajectories that were played, group by group."""
        return list(chain.from_iterable(group.episodes + group.siblings for group in self.first + self.further))

    def metrics(self) -> dict[str, float]:
        """Return `episode_metrics` of the first prompt groups, and counts of further groups and branches.

        `team/informative_groups`: share of the compared groups of the first prompt groups whose outcomes differ; the
        others have zero advantage under a group baseline. `team/draws`: prompt groups of all rounds. `team/branches`
        and `team/branches_failed`: siblings played, and the number of them that failed or did not replay.
        `team/extra_tokens`: tokens sampled in further prompt groups and in siblings, without replayed ones.
        """
        siblings = list(chain.from_iterable(group.siblings for group in self.first + self.further))
        further = list(chain.from_iterable(group.episodes for group in self.further))
        informative = list(chain.from_iterable(group.differing for group in self.first))
        extra_tokens = 0
        for trajectory in further + siblings:
            for turn in trajectory.turns[trajectory.branch or 0 :]:  # those of a sibling before its branch are replayed
                extra_tokens += turn.action.num_tokens
        return episode_metrics(self.reported) | {
            "team/informative_groups": float(np.mean(informative)) if informative else 0.0,
            "team/draws": float(len(self.first + self.further)),
            "team/branches": float(len(siblings)),
            "team/branches_failed": float(sum(sibling.failure is not None for sibling in siblings)),
            "team/extra_tokens": float(extra_tokens),
        }


def gather(draw: Callable[[Sequence[int]], Sequence[PromptGroup]], update: int, grouping: GroupSettings) -> Experience:
    """Gather the prompt groups of one update; the choice of tasks is a function of seed, update and round.

    Args:
        draw: Plays prompt groups by their numbers and returns them in order, see `play_groups`.
        update: Index of the update.
        grouping: Number of prompt groups, episodes and branches.

    Raises:
        AllEpisodesFailedError: All episodes of the first prompt groups failed, or all branches.
    """
    # An update owns `rounds` blocks of `size` numbers, used or not: so its first groups do not depend on how many
    # rounds the updates before it needed.
    rounds, size = 1 + grouping.extra_rounds, grouping.groups
    first = draw(range(update * rounds * size, (update * rounds + 1) * size))
    _refuse_all_failed("episodes", chain.from_iterable(group.episodes for group in first))
    _refuse_all_failed("branches", chain.from_iterable(group.siblings for group in first))
    batch, further = list(first), list[PromptGroup]()
    for block in range(update * rounds + 1, (update + 1) * rounds):
        uninformative = [i for i, group in enumerate(batch) if not group.informative]
        if not uninformative:
            break
        drawn = draw(range(block * size, block * size + len(uninformative)))
        further += drawn
        for i, group in zip(uninformative, drawn, strict=True):
            if group.informative:
                batch[i] = group
    if grouping.extra_rounds:  # those that stayed without information are left out, unless nothing else is there
        batch = [group for group in batch if group.informative] or batch
    return Experience(tuple(first), tuple(further), tuple(batch))


def play_groups(
    play: Callable[[Sequence[EpisodeStart]], Sequence[Trajectory]],
    numbers: Sequence[int],
    grouping: GroupSettings,
    agents: Collection[str] | None = None,
) -> list[PromptGroup]:
    """Play prompt groups and their branches; an episode depends on the seed and the number of its group alone.

    Args:
        play: Plays episodes; returns their trajectories in order.
        numbers: Numbers of the prompt groups in the run. Blocks of `grouping.groups` numbers follow each other: the
            first prompt groups of an update, then those of each extra round.
        grouping: Number of prompt groups, episodes and branches.
        agents: Agents whose turns are branched; None for all agents that play tokens.
    """
    episodes: list[EpisodeStart] = []
    for number in numbers:
        episodes += _episodes(number, grouping)
    played = play(episodes)
    found = [Branches((trajectory,)) for trajectory in played]  # without branches an episode is trained as it is
    if grouping.branches:
        found = branch(
            play,
            episodes,
            played,
            alternatives=grouping.branches,
            seed=grouping.seed,
            most_turns=grouping.branched_turns,
            agents=agents,
        )
    groups = []
    for first in range(0, len(played), grouping.group_size):
        of_group = slice(first, first + grouping.group_size)
        trained: list[Trajectory] = []
        siblings: list[Trajectory] = []
        for branches in found[of_group]:
            trained += branches.trained
            siblings += branches.siblings
        differs = differing(trained, by_turn=grouping.by_turn, own_rewards=grouping.own_rewards)
        groups.append(PromptGroup(tuple(played[of_group]), tuple(trained), tuple(siblings), tuple(differs)))
    return groups


def _episodes(number: int, grouping: GroupSettings) -> list[EpisodeStart]:
    """Return the starts of the episodes of a prompt group."""
    block, place = divmod(number, grouping.groups)
    update, extra = divmod(block, 1 + grouping.extra_rounds)
    options = None  # the environment samples a task
    if grouping.tasks and not extra:  # only the first groups of an update follow the order of an epoch
        options = tasks_of_update(grouping.seed, update, grouping.groups, grouping.tasks)[place]
    return group_episodes(grouping.seed, number, grouping.group_size, options)


def _refuse_all_failed(what: str, trajectories: Iterable[Trajectory]) -> None:
    causes = [trajectory.failure for trajectory in trajectories]
    if causes and None not in causes:
        raise AllEpisodesFailedError(f"all {len(causes)} {what} of the update failed; the first: {causes[0]}")


def differing(trajectories: Sequence[Trajectory], *, by_turn: bool = False, own_rewards: bool = False) -> list[bool]:
    """Return per group of episodes that did not fail: True if their outcomes differ.

    Args:
        trajectories: Trajectories of any groups.
        by_turn: True to compare the return from each agent's turn of a round on, False to compare episode returns.
        own_rewards: True to compare each agent's own rewards, False to compare those of the team.
    """
    groups: dict[int, dict[Hashable, list[float]]] = {}  # outcomes that are compared, by group and key
    for trajectory in trajectories:
        if trajectory.failure is None:
            outcomes = groups.setdefault(trajectory.group, {})
            for place, outcome in _outcomes(trajectory, by_turn, own_rewards):
                outcomes.setdefault(place, []).append(outcome)
    differ = []
    for outcomes in groups.values():
        differ.append(any(max(alike) - min(alike) > SMALLEST_SPREAD for alike in outcomes.values()))
    return differ


def _outcomes(trajectory: Trajectory, by_turn: bool, own_rewards: bool) -> Iterator[tuple[Hashable, float]]:
    """Yield (key, outcome) pairs; outcomes of equal keys are compared."""
    agents = {turn.agent for turn in trajectory.turns}
    if by_turn:
        following = dict.fromkeys(agents, 0.0)  # rewards from the turn on, by agent
        for turn in reversed(trajectory.turns):
            for agent in agents:
                following[agent] += turn.reward_of(agent) if own_rewards else turn.reward
            yield (turn.agent, turn.round), following[turn.agent]
    elif own_rewards:
        if trajectory.branch is not None:  # only that turn is trained
            agents = {trajectory.turns[trajectory.branch].agent}
        for agent in agents:
            yield agent, trajectory.return_of(agent)
    else:
        yield (), trajectory.team_return


def episode_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return metrics of episodes: means over those that did not fail.

    `team/success` and `team/return` (the undiscounted sum of the team reward): means; `team/tokens`: sum;
    `team/failed`: number of failed episodes; `team/term_NAME`: mean of each term of the team reward before weighting,
    over the episodes that have it.
    """
    values: dict[str, list[float]] = defaultdict(list)  # of each episode, by metric
    played = []
    for trajectory in trajectories:
        if trajectory.failure is not None:
            continue
        played.append(trajectory)
        values["success"].append(score(trajectory))
        values["return"].append(trajectory.team_return)
        values["invalid"].append(trajectory.infos.get("invalid", 0.0))
        values["turns"].append(len(trajectory.turns))
        values["tokens"].append(trajectory.num_tokens)
        values["truncated"].append(trajectory.truncated)
    metrics: dict[str, float] = {}
    for name, own in values.items():
        metrics[f"team/{name}"] = float(sum(own) if name == "tokens" else np.mean(own))
    metrics["team/failed"] = float(len(trajectories) - len(played))
    for name, value in mean_terms(played).items():
        metrics[f"team/{TERM}{name}"] = value
    return metrics
