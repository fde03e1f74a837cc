"""Train the team of an experiment in a run folder: checks, ownership, resume, rollouts, validation and alarms."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from baselines.experiment.config_trust import Uses
from baselines.experiment.data_checksums import refuse_changed, sha256_of, task_checksum
from baselines.experiment.environments import factory, keep_grades, notes_of, tasks_of
from baselines.experiment.held_out_validation import HeldOut, held_out_tasks
from baselines.experiment.learning_curve import draw_curve
from baselines.experiment.progress import Ended, Noted, Progress, Started, Updated, loading, silent
from baselines.experiment.rollouts import identity, open_rollouts
from baselines.experiment.run_surface import keep_surface
from baselines.experiment.samplers import OWN
from marft_agents.learning.distributed import follow, release
from marft_agents.learning.learner import Learner
from marft_agents.learning.ranks import ALONE, Ranks
from marft_agents.metric_names import TOKENS_TOTAL
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.team_building import Devices
from marft_agents.rollouts.ray_workers import cluster
from marft_agents.runs import checkpoint
from marft_agents.runs.folder_lock import RunFolderError, owned
from marft_agents.runs.ray_ranks import run_ranks
from marft_agents.runs.run_folder import RunFolder, check_free, read_metrics, write_json
from marft_agents.runs.trainer import Trainer
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Action
from marft_common import written_files
from marft_envs.tasks.tools.tool_access import check_surface

if TYPE_CHECKING:
    from baselines.experiment.experiment import Experiment

ReadPools = Callable[[Path, LanguageModelTeam], Mapping[str, list[Action]]]
"""Reads the replayed turns of a file, by policy."""


def _refuse_shorter(experiment: Experiment, run: Path) -> None:
    """Raise RunFolderError if a run has completed more updates than the experiment asks for."""
    newest = checkpoint.latest(run / "checkpoints")
    done = 0 if newest is None else int(newest.name.removeprefix("update-"))
    planned = experiment.schedule.max_updates
    if planned < done:
        epochs = f" ({experiment.schedule.epochs} epochs)" if experiment.schedule.epochs else ""
        raise RunFolderError(
            f"--updates counts those of the whole run: found {planned}{epochs}, wanted {done} or "
            f"more, since {run} has done {done}"
        )


def train(
    experiment: Experiment,
    out: Path,
    *,
    device: Devices = None,
    resume: bool = False,
    progress: Progress = silent,
    replay: ReadPools | None = None,
    curve: bool = True,
) -> dict[str, float]:
    """Train a team and write configuration, metrics, checkpoints and learning curve to a run folder.

    Args:
        experiment: Complete configuration of the run.
        out: Run folder to write.
        device: Device of the models, see `build_team`.
        resume: True continues from the newest checkpoint in `out`.
        progress: Gets the events of the training; with several learners it is sent to the process of the first.
        replay: Reads the turn file of `replay_from`, see `baselines.training_data.demonstrations.replay_pools`.
        curve: False draws no learning curve.

    Returns:
        "success", mean success of the last "window" updates (at most 10), "updates" of the whole run, and "tokens"
        generated for them (missing for a run resumed from a checkpoint that did not count them).
    """
    if device is not None and experiment.ranks.learners > 1:
        raise SettingsError("--device: the device of several learners follows from --learner-gpus; leave out --device")
    with contextlib.ExitStack() as ownership:
        ownership.enter_context(owned(out))
        if not resume:
            check_free(out)
        experiment.tracking.check_installed()
        run = TrainingRun(experiment, out, device, resume, progress, replay)
        with cluster(run.experiment.rollouts, run.experiment.ranks):  # before any model is loaded
            if experiment.ranks.learners == 1:
                run.work(ALONE)
            else:
                ownership.close()  # rank 0 owns the folder
                out = out.resolve()
                shared = next(folder for folder in (out, *out.parents) if folder.is_dir())
                work = partial(_on_rank, experiment, out, resume, progress, replay)
                run_ranks(work, experiment.ranks, shared, identity=identity)
        return _result(out, curve)


def _result(out: Path, curve: bool) -> dict[str, float]:
    """Draw the learning curve of a run, and return the numbers of `train`."""
    history = read_metrics(out)
    if not history:
        raise RunFolderError(f"{out} has done all its updates, and {out / 'metrics.jsonl'} has lost the lines of all")
    if curve:
        draw_curve({out.name: history}, out / "curve.png")
    last, window = history[-1], history[-10:]
    tokens = {"tokens": last[TOKENS_TOTAL]} if TOKENS_TOTAL in last else {}
    return tokens | {
        "success": sum(metrics["team/success"] for metrics in window) / len(window),
        "window": len(window),
        "updates": last["update"] + 1,
    }


class TrainingRun:
    """A run that has passed all checks that need no model.

    Args:
        experiment: Complete configuration of the run.
        out: Run folder to write.
        device: Device of the models, see `build_team`.
        resume: True continues from the newest checkpoint in `out`.
        progress: Gets the events of the training.
        replay: Reads the turn file of `replay_from`.
    """

    def __init__(
        self,
        experiment: Experiment,
        out: Path,
        device: Devices = None,
        resume: bool = False,
        progress: Progress = silent,
        replay: ReadPools | None = None,
    ) -> None:
        self.out, self.device, self.resume, self.replay = out, device, resume, replay
        self.progress = progress
        self.starts_anew = not resume or checkpoint.latest(out / "checkpoints") is None
        self.make_env = factory(experiment.env, experiment.keywords)
        self.env = self.make_env()
        keep_grades(self.env, out)
        self.experiment = experiment.scheduled(self.env)
        if resume:
            _refuse_shorter(self.experiment, out)
        self.held_out = held_out_tasks(
            experiment.env, experiment.keywords, experiment.validation, self.env, warn=self._note
        )
        if self.starts_anew and self.experiment.start_from is not None:  # a checkpoint of this run is newer than it
            checkpoint.check_agents(Path(self.experiment.start_from), self.env.possible_agents)
        self.notes = _notes(self.env, self.held_out, experiment.sampler, experiment.replay_from)
        if not self.starts_anew:
            self._refuse_changes(checkpoint.notes_of(out))
        self.settings = self.experiment.check(self.env)
        if experiment.ranks.learners == 1:
            self.experiment = self.experiment.sized(self.env.possible_agents, device)

    def _note(self, text: str) -> None:
        self.progress(Noted(text))

    def _refuse_changes(self, recorded: Mapping[str, str]) -> None:
        """Refuse to go on with other tools or other data than a checkpoint was trained with."""
        check_surface(recorded.get("tool_surface"), self.notes.get("tool_surface"))
        data = self.experiment.keywords.get("data", "embedded")
        named = {
            "tasks": f"the tasks of the training (--data {data})",
            "held_out_tasks": f"the tasks of the validation (--data {data})",
            "replayed_turns": f"the turns of {self.experiment.replay_from}",
        }
        for name, what in named.items():
            if name in recorded:
                refuse_changed(what, self.notes.get(name), recorded[name], self.out)

    def work(self, ranks: Ranks) -> None:
        """Train as rank 0, or share the passes of its updates."""
        with contextlib.ExitStack() as stack:
            if not ranks.rank:
                stack.enter_context(owned(self.out))
            agents = self.env.possible_agents
            if not ranks.rank and (told := loading(self.experiment.models.values())):
                self._note(told)
            team, learner = self.experiment.load_models(agents, self.settings, self.device, ranks, self.replay)
            stack.enter_context(contextlib.closing(team))
            if ranks.rank:
                follow(learner)
            else:
                self._train(team, learner, stack)
                release(learner.ranks)

    def _load(self, team: LanguageModelTeam, learner: Learner) -> tuple[int, Mapping[str, Any] | None]:
        """Load adapters and state to go on from; return the updates done, and the lines that each record had then."""
        if not self.starts_anew:
            if "tasks" in self.notes and "tasks" not in checkpoint.notes_of(self.out):
                self._note(
                    f"{self.out}: its checkpoint was written by an older version, which did not record its tasks: "
                    "whether they changed since is not known"
                )
            return checkpoint.load(self.out, team, learner), checkpoint.records_of(self.out)
        if self.resume:
            self._note(f"{self.out}: the run ended before its first checkpoint; it starts anew with its config.json")
        if self.experiment.start_from is not None:
            checkpoint.load_adapters(Path(self.experiment.start_from), team)
        return 0, None

    def _train(self, team: LanguageModelTeam, learner: Learner, stack: contextlib.ExitStack) -> None:
        """Play and update as rank 0 until the schedule ends; `stack` closes what it opens."""
        # sizes resolved for this device
        experiment = dataclasses.replace(self.experiment, learner=learner.settings, engine=team.engine)
        out, env = self.out, self.env
        validator = None
        if self.held_out is not None:
            validator = self.held_out.validator(team, experiment.validation, experiment.schedule, warn=self._note)
        done, recorded = self._load(team, learner)
        exported = out / "adapters"
        shutil.rmtree(exported, ignore_errors=True)  # those of a killed learner
        opened = open_rollouts(
            experiment, team, learner.settings, exported, make_env=self.make_env, device=self.device, warn=self._note
        )
        rollouts = stack.enter_context(opened)
        for line in team.engine_limits() if experiment.sampler == OWN else ():
            self._note(line)
        schedule = experiment.schedule
        updates = schedule.updates if schedule.budget_tokens else schedule.max_updates
        stack.callback(self.progress, Ended())  # also where an error ends the run
        policies = tuple(team.policies)
        self.progress(Started(updates, policies, schedule.budget_tokens, experiment.sampling.max_new_tokens))
        record, tracking = experiment.to_dict(), experiment.tracking
        folder = RunFolder(out, record, resume_at=done, recorded=recorded, notes=self.notes, tracking=tracking)
        keep_surface(env, out)
        if done:  # a run of this user from here on, whoever began it
            keep_as_own(out, experiment)
        Trainer(
            self.make_env,
            team,
            learner,
            experiment.schedule,
            folder=folder,
            rollouts=rollouts,
            on_update=lambda update, metrics: self.progress(Updated(update, metrics)),
            health=experiment.health,
            on_alarm=self.progress,
            tasks=tasks_of(env, "epochs") if experiment.schedule.epochs else (),
            validator=validator,
        ).run()
        folder.close()


def _notes(env: Any, held_out: HeldOut | None, sampler: str, replay_from: str | None) -> dict[str, str]:
    """Return what decides a run beside its configuration: tools, and checksums of its data."""
    found: dict[str, str | None] = dict(notes_of(env))
    found["sampler"] = None if sampler == OWN else sampler
    found["tasks"] = task_checksum(env)
    if held_out is not None:
        found["held_out_tasks"] = task_checksum(held_out.make_env())
    if replay_from is not None and Path(replay_from).is_file():
        found["replayed_turns"] = f"sha256 {sha256_of(Path(replay_from))}"
    return {name: value for name, value in found.items() if value is not None}


def keep_as_own(run: Path, experiment: Experiment) -> None:
    """Make the record of a resumed run this user's own; it is rewritten where the experiment became a longer one."""
    file = run / "config.json"
    if experiment.load(run, Uses(only=())) != experiment:
        write_json(file, experiment.to_dict(), own=True)
    else:
        written_files.enter(file, file.read_bytes())


def _on_rank(
    experiment: Experiment, out: Path, resume: bool, progress: Progress, replay: ReadPools | None, ranks: Ranks
) -> None:
    """Train as one of several ranks, on the device that Ray Train gives it."""
    from ray.train.torch import get_device

    device = get_device() if experiment.ranks.learner_gpus else torch.device("cpu")
    TrainingRun(experiment, out, device, resume, progress, replay).work(ranks)
