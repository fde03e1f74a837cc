"""Supervised fine-tuning of a team on recorded turns: its configuration and its run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import marft_envs
from baselines.experiment.config_trust import Uses
from baselines.experiment.environments import notes_of
from baselines.experiment.experiment import Experiment, from_record
from baselines.experiment.progress import Ended, Noted, Progress, Started, Updated, loading, silent
from baselines.experiment.run_surface import keep_surface
from baselines.experiment.training import keep_as_own
from baselines.training_data.demonstrations import check_agents, demonstrations
from baselines.training_data.turn_file import HELD_OUT, TRAIN, Example, TurnFileError
from marft_agents.learning.supervised import SupervisedLearner
from marft_agents.policies.team_building import Devices, check_first_prompts
from marft_agents.rollouts.text_spaces import refuse_unsuitable
from marft_agents.runs import checkpoint
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.run_folder import RunFolder, write_json
from marft_agents.runs.supervised_trainer import SupervisedSettings, SupervisedTrainer
from marft_agents.setting_fields import SettingsError

FILE = "sft.json"  # settings and data of the run, beside its config.json
SUPERVISED = Uses(only=("env", "keywords", "models"))  # the settings on which a supervised run acts


@dataclasses.dataclass(frozen=True)
class SupervisedRun:
    """Complete configuration of a supervised run.

    Attributes:
        experiment: Environment, models, adapters and sampling parameters.
        settings: Length and optimizer.
        data: Path of the turn file.
        sha256: Hash of the turn file.
        manifest: Its manifest; empty for a file without one.
    """

    experiment: Experiment
    settings: SupervisedSettings
    data: Path
    sha256: str
    manifest: Mapping[str, Any]

    @classmethod
    def load(cls, run: Path, *, trust: bool | None = False) -> SupervisedRun:
        """Read the configuration of a run folder.

        Args:
            run: Folder of the run.
            trust: True to act on the record of somebody else.

        Raises:
            RunFolderError: It holds no run of `marft sft`.
            UntrustedConfigError: This user did not write it here, and it names commands, modules, servers or paths.
        """
        experiment, file = Experiment.load(run, SUPERVISED, trust=trust), run / FILE
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
            settings = from_record(SupervisedSettings, told["settings"])
            return cls(experiment, settings, Path(told["data"]), told["sha256"], told["manifest"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(f"{run} is no run of marft sft: {file}: {type(error).__name__}: {error}") from error

    def write(self, run: Path) -> None:
        """Write `sft.json` to a run folder."""
        settings = dataclasses.asdict(self.settings)
        told = {"data": str(self.data), "sha256": self.sha256, "settings": settings, "manifest": dict(self.manifest)}
        write_json(run / FILE, told)


def fine_tune(
    chosen: SupervisedRun,
    examples: list[Example],
    out: Path,
    *,
    device: Devices = None,
    resume: bool = False,
    progress: Progress = silent,
) -> None:
    """Fine-tune a team and write configuration, metrics and checkpoints to a run folder.

    Args:
        chosen: Complete configuration of the run.
        examples: Turns of its file.
        out: Run folder to write.
        device: Device of the models, see `build_team`.
        resume: True continues from the newest checkpoint in `out`.
        progress: Gets the events of the training; an update is a step.
    """
    experiment = chosen.experiment
    env = marft_envs.make(experiment.env, **experiment.keywords)
    refuse_unsuitable(env)
    check_agents(chosen.data, examples, env.possible_agents)
    if experiment.sampling.greedy:
        raise SettingsError("temperature = 0, wanted > 0: log-likelihoods are those of the sampling parameters")
    check_first_prompts(env, experiment.models, experiment.sampling, experiment.context)
    if told := loading(experiment.models.values()):
        progress(Noted(told))
    team = experiment.build_team(env.possible_agents, device)
    with contextlib.closing(team):
        train = demonstrations(chosen.data, [example for example in examples if example.split == TRAIN], team)
        held_out = demonstrations(chosen.data, [example for example in examples if example.split == HELD_OUT], team)
        if not any(train.values()):
            trained = ", ".join(team.learners) or "none"
            raise TurnFileError(f"{chosen.data}: no turn to train on is of a trained agent; trained are {trained}")
        if idle := [policy for policy, own in train.items() if not own]:
            progress(Noted(f"no turns of {', '.join(idle)}: their adapters stay untrained"))
        total = chosen.settings.epochs * chosen.settings.steps_per_epoch(train)
        learner = SupervisedLearner(team, experiment.learner, seed=chosen.settings.seed, total_updates=total)
        done = 0
        if resume and checkpoint.latest(out / "checkpoints") is not None:
            done = checkpoint.load(out, team, learner)
        recorded = checkpoint.records_of(out) if done else None
        # The record of the run tells its length in updates, which are steps here.
        experiment = dataclasses.replace(experiment, schedule=dataclasses.replace(experiment.schedule, updates=total))
        notes = {**notes_of(env), "turns": chosen.sha256}
        folder = RunFolder(out, experiment.to_dict(), resume_at=done, recorded=recorded, notes=notes)
        keep_surface(env, out)
        if done:  # a run of this user from here on, whoever began it
            keep_as_own(out, experiment)
        chosen.write(out)
        progress(Started(total - done, tuple(train), 0, experiment.sampling.max_new_tokens))
        try:
            SupervisedTrainer(
                team,
                learner,
                chosen.settings,
                train,
                held_out,
                folder=folder,
                on_update=lambda step, metrics: progress(Updated(step, metrics)),
            ).run()
        finally:
            progress(Ended())
        folder.close()
