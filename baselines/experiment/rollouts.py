"""Players of training episodes: this process, or the workers of a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from baselines.experiment.environments import factory, tasks_of
from baselines.experiment.samplers import open_sampler, sampler_of
from baselines.experiment.source_commit import source_commit
from marft_agents.learning.settings import LearnerSettings
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.team_building import Devices
from marft_agents.rollouts.ray_workers import RayWorkers, versions
from marft_agents.rollouts.rollout_settings import OFF
from marft_agents.rollouts.rollout_source import GroupPlayer, LocalRollouts, RolloutSource
from marft_agents.rollouts.rollout_workers import WorkerRollouts
from marft_agents.runs.trainer import group_settings

if TYPE_CHECKING:
    from baselines.experiment.experiment import Experiment


@contextlib.contextmanager
def open_rollouts(
    experiment: Experiment,
    team: LanguageModelTeam,
    settings: LearnerSettings,
    folder: Path,
    *,
    make_env: Callable[[], Any],
    device: Devices = None,
    warn: Callable[[str], None],
) -> Iterator[RolloutSource]:
    """Open what plays the training episodes, as a context manager that closes engines and workers.

    Args:
        experiment: Configuration of the run. With Ray, a cluster must be connected (`ray_workers.cluster`).
        team: Team whose policies are trained.
        settings: Settings of the learner.
        folder: Folder of the adapters that engines load.
        make_env: Makes an independent environment.
        device: Device of the learner; workers use the GPUs that Ray gives them, unless this is the CPU.
        warn: Is told of a worker that died.
    """
    rollouts = experiment.rollouts
    if rollouts.ray == OFF or not rollouts.rollout_workers:
        with open_player(experiment, team, settings, folder, make_env=make_env) as player:
            yield LocalRollouts(player, rollouts.chunk)
        return
    places = device.values() if isinstance(device, Mapping) else [device]
    on_cpu = all(place is not None and place.type == "cpu" for place in places)
    build = partial(_open_worker, experiment, str(folder.resolve()), on_cpu)
    workers = RayWorkers(build, team, rollouts, identity=identity, on_death=warn)
    with contextlib.closing(workers):
        grouping = _grouping(experiment, settings, make_env())
        source = WorkerRollouts(workers, grouping, rollouts, max_updates=experiment.schedule.max_updates)
        try:
            yield source
        finally:
            source.cancel()  # no further calls to workers that are about to close


@contextlib.contextmanager
def open_player(
    experiment: Experiment,
    team: LanguageModelTeam,
    settings: LearnerSettings,
    folder: Path,
    *,
    make_env: Callable[[], Any],
    worker: int = 0,
) -> Iterator[GroupPlayer]:
    """Open the player of this process, with its sampler; the arguments are those of `open_rollouts`."""
    sampler = sampler_of(experiment.sampler, worker)
    with open_sampler(sampler, team, folder, canary=experiment.canary) as policy:
        yield GroupPlayer(
            make_env,
            team,
            policy,
            _grouping(experiment, settings, make_env()),
            num_envs=experiment.schedule.num_envs,
            max_turns=experiment.schedule.max_turns,
        )


@contextlib.contextmanager
def _open_worker(experiment: Experiment, folder: str, on_cpu: bool, index: int) -> Iterator[GroupPlayer]:
    """Open the player of a worker in its own process."""
    make_env = factory(experiment.env, experiment.keywords)
    env = make_env()
    settings = experiment.check(env)
    team = experiment.build_team(env.possible_agents, torch.device("cpu") if on_cpu else None)
    # Adapters for engines: workers on one node share the folder.
    own = Path(folder) / f"worker-{index}"
    with (
        contextlib.closing(team),
        open_player(experiment, team, settings, own, make_env=make_env, worker=index) as player,
    ):
        yield player


def _grouping(experiment: Experiment, settings: LearnerSettings, env: Any) -> Any:
    tasks = tasks_of(env, "epochs") if experiment.schedule.epochs else ()
    return group_settings(experiment.schedule, settings, tasks)


def identity() -> dict[str, str]:
    """Return what must be the same in the process of the learner and in a worker's."""
    return versions() | {"commit": source_commit()}
