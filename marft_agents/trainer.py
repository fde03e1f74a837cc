"""The training loop: play, learn, record, save; one update after the other.

The data position is the number of updates done: which tasks an update draws and which random numbers it uses
follow from (seed, update) alone, so k updates, a kill and a resume equal an uninterrupted run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marft_agents import checkpoint
from marft_agents.evaluation import score
from marft_agents.language_model import LanguageModelTeam
from marft_agents.learner import Learner
from marft_agents.policy import Policy
from marft_agents.records import Trajectory
from marft_agents.rollout import collect, training_episodes
from marft_agents.run_folder import RunFolder
from marft_agents.settings import SettingsError, check_knobs, knob


@dataclass(frozen=True)
class Schedule:
    """How much is played and how often it is saved."""

    updates: int = knob(100, "updates of the whole run", lambda v: v >= 1, ">= 1")
    groups: int = knob(8, "task draws per update", lambda v: v >= 1, ">= 1")
    group_size: int = knob(4, "episodes per task draw", lambda v: v >= 1, ">= 1")
    num_envs: int = knob(64, "games in flight (memory and speed, not results)", lambda v: v >= 1, ">= 1")
    seed: int = knob(0, "of everything random in the run", lambda v: v >= 0, ">= 0")
    keep: int = knob(2, "newest checkpoints to keep; one is written after every update", lambda v: v >= 1, ">= 1")
    keep_every: int = knob(0, "also keep every n-th checkpoint; 0 keeps none extra", lambda v: v >= 0, ">= 0")

    def __post_init__(self) -> None:
        check_knobs(self)


class AllEpisodesFailedError(RuntimeError):
    """No episode of an update could be played; names the first cause."""


class Trainer:
    """Trains a team on any AEC environment with text observations and actions.

    Args:
        make_env: makes an independent environment.
        team: the policies that are trained.
        learner: how they are trained.
        schedule: how much.
        folder: where records and checkpoints go; None keeps nothing.
        policy: who answers the environment; None is the team itself. A `MixedPolicy` of the team and frozen
            agents (scripted, remote) lets the team learn beside them.
        on_update: called with (update, metrics) after each update.

    Raises:
        SettingsError: advantages are centred per group, and groups are of one episode.
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        team: LanguageModelTeam,
        learner: Learner,
        schedule: Schedule,
        *,
        folder: RunFolder | None = None,
        policy: Policy | None = None,
        on_update: Callable[[int, Mapping[str, float]], None] | None = None,
    ) -> None:
        if learner.settings.centring == "group" and schedule.group_size == 1:
            raise SettingsError("centring = 'group' compares episodes of one task draw: wanted group_size >= 2")
        self.make_env = make_env
        self.team = team
        self.learner = learner
        self.schedule = schedule
        self.folder = folder
        self.policy = policy or team
        self.on_update = on_update

    def run(self) -> None:
        """Do the updates that are left."""
        while self.learner.updates < self.schedule.updates:
            self.step()

    def step(self) -> dict[str, float]:
        """Do one update: play, learn, record, save; return its metrics."""
        schedule, update = self.schedule, self.learner.updates
        started = time.perf_counter()
        trajectories = collect(
            self.make_env,
            self.policy,
            training_episodes(schedule.seed, update, schedule.groups, schedule.group_size),
            seed=schedule.seed,
            num_envs=schedule.num_envs,
            encode=self.team.encode,
            patience=math.inf,  # which games answer together must not depend on the clock: a resumed run repeats it
        )
        _refuse_all_failed(trajectories)
        played = time.perf_counter()
        metrics = episode_metrics(trajectories) | self.learner.update(trajectories)
        metrics["seconds/rollout"] = played - started
        metrics["seconds/update"] = time.perf_counter() - played
        if self.folder is not None:
            self.folder.log(update, metrics, trajectories)
            checkpoint.save(
                self.folder.checkpoints,
                self.team,
                self.learner,
                keep=schedule.keep,
                keep_every=schedule.keep_every,
                notes=self.folder.notes,
            )
        if self.on_update is not None:
            self.on_update(update, metrics)
        return metrics


def _refuse_all_failed(trajectories: Sequence[Trajectory]) -> None:
    causes = [t.failure for t in trajectories if t.failure is not None]
    if len(causes) == len(trajectories):
        raise AllEpisodesFailedError(f"all {len(causes)} episodes of the update failed; the first: {causes[0]}")


def episode_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return what an update's episodes were like: means over those that were played to an end.

    `team/success` and `team/return`: means; `team/informative_groups`: share of groups whose members differ in
    return (the others teach a group baseline nothing); `team/failed`: number of failed episodes.
    """
    played = [t for t in trajectories if t.failure is None]
    groups: dict[int, set[float]] = {}
    for trajectory in played:
        groups.setdefault(trajectory.group, set()).add(trajectory.team_return)
    return {
        "team/success": float(np.mean([score(t) for t in played])),
        "team/return": float(np.mean([t.team_return for t in played])),
        "team/invalid": float(np.mean([t.infos.get("invalid", 0.0) for t in played])),
        "team/turns": float(np.mean([len(t.turns) for t in played])),
        "team/tokens": float(sum(t.num_tokens for t in played)),
        "team/truncated": float(np.mean([t.truncated for t in played])),
        "team/informative_groups": float(np.mean([len(returns) > 1 for returns in groups.values()])),
        "team/failed": float(len(trajectories) - len(played)),
    }


def refuse_unsuitable(env: Any) -> None:
    """Raise SettingsError unless an environment's spaces are text, naming the first that is not."""
    from gymnasium.spaces import Text

    for agent in env.possible_agents:
        for kind, space in (
            ("observation", env.observation_space(agent)),
            ("action", env.action_space(agent)),
        ):
            if not isinstance(space, Text):
                raise SettingsError(
                    f"the learner plays text: {kind} space of agent {agent!r} is {space}, wanted gymnasium.spaces.Text"
                )
