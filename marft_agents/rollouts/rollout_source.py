"""Where the episodes of an update come from: this process, or workers elsewhere (`rollouts.rollout_workers`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Policy, Sampler, TimedPolicy
from marft_agents.rollouts.prompt_groups import Experience, GroupSettings, PromptGroup, gather, play_groups
from marft_agents.rollouts.rollout import MAX_TURNS, collect
from marft_agents.trajectory import EpisodeStart, Trajectory


class Rollout(NamedTuple):
    """Episodes of one update.

    Attributes:
        experience: The prompt groups that were played.
        seconds_generation: Seconds that policies took to answer, summed over workers.
        metrics: Further metrics of the update: use of prompt caches, or the staleness of episodes that may be stale.
    """

    experience: Experience
    seconds_generation: float
    metrics: dict[str, float]


class RolloutSource(Protocol):
    """Protocol of what plays the episodes of a training run."""

    def rollout(self, update: int) -> Rollout:
        """Return the episodes that update `update` trains on; the team holds the adapters of that version."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """Return the state of a resume, JSON-serialisable; empty where all follows from the number of the update."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        ...


class GroupPlayer:
    """Plays prompt groups by number in this process.

    Args:
        make_env: Makes an independent AEC environment.
        team: Team whose policies are trained; encodes observations.
        policy: Policy that answers the environment: the team itself, a sampler of it, or a `MixedPolicy`.
        grouping: Number of prompt groups, episodes and branches.
        num_envs: Number of games played at the same time.
        max_turns: Most turns of an episode; 0: no limit.
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        team: LanguageModelTeam,
        policy: Policy,
        grouping: GroupSettings,
        *,
        num_envs: int = 64,
        max_turns: int = MAX_TURNS,
    ) -> None:
        self.make_env, self.team, self.grouping = make_env, team, grouping
        self.num_envs, self.max_turns = num_envs, max_turns
        self._policy = TimedPolicy(policy)

    @property
    def seconds(self) -> float:
        """Seconds that the policy took to answer so far."""
        return self._policy.seconds

    def refresh(self) -> None:
        """Have an external sampler load the team's current adapters."""
        if isinstance(self._policy.policy, Sampler):
            self._policy.policy.refresh()

    def play(self, numbers: Sequence[int]) -> list[PromptGroup]:
        """Play prompt groups and their branches, in order."""
        return play_groups(self._collect, numbers, self.grouping, self.team.learners)

    def _collect(self, episodes: Sequence[EpisodeStart]) -> list[Trajectory]:
        return collect(
            self.make_env,
            self._policy,
            episodes,
            seed=self.grouping.seed,
            num_envs=self.num_envs,
            encode=self.team.encode,
            max_turns=self.max_turns,
            valued=self.team.learners,  # only their states have a value to bootstrap
            patience=math.inf,  # batches must not depend on the clock, so that a resumed run repeats them
        )


class LocalRollouts:
    """Rollout source that plays in this process, between the updates.

    Args:
        player: Plays the prompt groups.
        chunk: Number of prompt groups that are played together; 0: all of an update.
    """

    def __init__(self, player: GroupPlayer, chunk: int = 0) -> None:
        self.player, self.chunk = player, chunk

    def rollout(self, update: int) -> Rollout:
        """Play the prompt groups of an update with the current adapters."""
        self.player.refresh()
        before, used = self.player.seconds, replace(self.player.team.prompt_cache_use)
        experience = gather(self._draw, update, self.player.grouping)
        used = self.player.team.prompt_cache_use - used
        return Rollout(experience, self.player.seconds - before, used.metrics())

    def _draw(self, numbers: Sequence[int]) -> list[PromptGroup]:
        groups: list[PromptGroup] = []
        for part in chunks(numbers, self.chunk):
            groups += self.player.play(part)
        return groups

    def state_dict(self) -> Mapping[str, Any]:
        """Return no state: episodes follow from the number of the update."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore nothing."""


def chunks(numbers: Sequence[int], size: int) -> list[Sequence[int]]:
    """Cut numbers into parts of `size`, the last one shorter; 0: one part.

    Examples:
        >>> chunks(range(5), 2)
        [range(0, 2), range(2, 4), range(4, 5)]
    """
    size = size or max(1, len(numbers))
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]
