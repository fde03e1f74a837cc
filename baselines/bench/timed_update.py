"""One short update of a task's team, timed: a forecast where nothing was measured yet."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from baselines.bench.plan import BenchTask
from baselines.experiment.experiment import Experiment
from baselines.experiment.progress import Event, Started, Updated
from baselines.experiment.samplers import OWN
from marft_agents.metric_names import TOKENS_TOTAL
from marft_agents.models.pretrained import resolve
from marft_agents.models.random_models import random_model
from marft_agents.rollouts.rollout_settings import OFF

FEW, MORE = 4, 64  # episodes of the timed update, at most
COLD_S = 5.0  # CPU seconds of a first update, below which what it imports and makes once may be most of them
SHORT_S = 1.0  # CPU seconds of an update of few episodes, below which one of more is timed
LARGEST = 2 * 2**30  # bytes of weights; a larger model is not loaded for a forecast


class UntimedError(RuntimeError):
    """A model that is not loaded for a forecast; names the reason."""


@dataclass(frozen=True)
class TimedUpdate:
    """Time of one update.

    Attributes:
        model: Name of the model.
        task: Name of the task whose team was trained.
        tokens: Tokens that the update generated.
        episodes: Episodes of the update.
        seconds: Wall-clock seconds of the update.
        cpu_seconds: Seconds of all cores together.
        rollout_share: Share of the time in which episodes were played.
    """

    model: str
    task: str
    tokens: float
    episodes: float
    seconds: float
    cpu_seconds: float
    rollout_share: float


def timed_update(task: BenchTask, algorithm: str) -> TimedUpdate:
    """Train the first team of a task for one update of a few episodes; if that is short, for one of more.

    Args:
        task: Task whose model is timed.
        algorithm: Name of the training algorithm.

    Raises:
        UntimedError: The weights are not on this machine, are too large to be loaded for a forecast, or the training
            is not one of a single process.
    """
    refuse_large(task.plan.model)
    team = next(iter(task.teams.values()))
    alone = {"epochs": 0, "validate_every": 0}
    experiment = task.experiment(team, algorithm, 0, max_new_tokens=task.plan.max_new_tokens, updates=1, settings=alone)
    if experiment.rollouts.ray != OFF or experiment.ranks.learners > 1 or experiment.sampler != OWN:
        raise UntimedError("its trainings need more than one process")
    found = _timed(_limited(experiment, FEW), task)
    if found.cpu_seconds < COLD_S:
        found = _timed(_limited(experiment, FEW), task)
    return found if found.cpu_seconds > SHORT_S else _timed(_limited(experiment, MORE), task)


def _limited(experiment: Experiment, episodes: int) -> Experiment:
    """Return a training with at most so many episodes an update, and at least one prompt group."""
    schedule = experiment.schedule
    groups = max(1, min(schedule.groups, episodes // schedule.group_size))
    return dataclasses.replace(experiment, schedule=dataclasses.replace(schedule, groups=groups))


def _timed(experiment: Experiment, task: BenchTask) -> TimedUpdate:
    """Time the one update of a training, without the loading of the model."""
    from baselines.experiment.training import train

    times: list[tuple[float, float]] = []
    metrics: dict[str, float] = {}

    def note(event: Event) -> None:
        if isinstance(event, Started | Updated):
            times.append((time.perf_counter(), time.process_time()))
        if isinstance(event, Updated):
            metrics.update(event.metrics)

    with tempfile.TemporaryDirectory(prefix="marft-forecast-") as folder:
        train(experiment, Path(folder, "run"), progress=note, curve=False)
    [(before, cpu_before), (after, cpu_after)] = times
    return TimedUpdate(
        model=task.plan.model,
        task=task.name,
        tokens=metrics[TOKENS_TOTAL],
        episodes=experiment.schedule.groups * experiment.schedule.group_size,
        seconds=after - before,
        cpu_seconds=cpu_after - cpu_before,
        rollout_share=metrics["seconds/rollout"] / (metrics["seconds/rollout"] + metrics["seconds/update"]),
    )


def refuse_large(model: str) -> None:
    """Refuse a model that would be downloaded, or would take much memory.

    Raises:
        UntimedError: The weights are not on this machine, or too large to be loaded for a forecast.
    """
    if random_model(model) is not None:
        return
    folder = Path(resolve(model))
    if not folder.is_dir():
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            folder = Path(snapshot_download(str(folder), local_files_only=True))
        except LocalEntryNotFoundError as error:
            raise UntimedError(f"the weights of {model} are not on this machine") from error
    size = sum(file.stat().st_size for pattern in ("*.safetensors", "*.bin") for file in folder.glob(pattern))
    if not size:
        raise UntimedError(f"the weights of {model} are not on this machine")
    if size > LARGEST:
        raise UntimedError(f"{model} is too large to be loaded for a forecast")
