"""`marft train`: train a team on an environment, or resume a run."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shutil
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from baselines.cli.config_file import add_config, to_toml
from baselines.cli.device_flag import add_device_flag, devices_of
from baselines.cli.environment_flags import (
    add_environment_flags,
    add_run_flags,
    factory,
    keep_grades,
    notes_of,
    tasks_of,
)
from baselines.cli.progress import TrainingTable
from baselines.cli.settings_flags import add_knobs, flag, given_knobs
from baselines.cli.terminal import say
from baselines.experiment.config_trust import EVERYTHING, Uses
from baselines.experiment.data_checksums import refuse_changed, task_checksum
from baselines.experiment.experiment import SETTINGS, Experiment
from baselines.experiment.held_out_validation import held_out_tasks
from baselines.experiment.learning_curve import draw_curve
from baselines.experiment.presets import PRESETS
from baselines.experiment.rollouts import identity, open_rollouts
from baselines.experiment.run_surface import keep_surface
from baselines.experiment.samplers import OWN, add_sampler_flag
from baselines.training_data.recordings import sha256_of
from marft_agents.learning.algorithms import ALGORITHMS
from marft_agents.learning.learner import Learner
from marft_agents.learning.ranks import ALONE, Ranks, RankSettings
from marft_agents.metric_names import TOKENS_TOTAL
from marft_agents.models.pretrained import Dtype
from marft_agents.policies.language_model import Devices, LanguageModelTeam
from marft_agents.rollouts.ray_workers import cluster
from marft_agents.runs import checkpoint
from marft_agents.runs.folder_lock import RunFolderError, owned
from marft_agents.runs.ray_ranks import run_ranks
from marft_agents.runs.run_folder import RunFolder, check_free, read_metrics, write_json
from marft_agents.runs.trainer import Trainer, TrainingSchedule
from marft_agents.setting_fields import SettingsError
from marft_common import written_files
from marft_envs.tasks.tools.tool_access import check_surface

DEFAULTS: Mapping[str, Any] = {  # applied after parsing: --resume must tell given flags from defaults
    "algorithm": "marft-a",
    "model": ["smollm2-135m"],
    "sampler": OWN,
    "canary": True,
    "sharing": "separate",
    "dtype": "auto",
    "preset": "laptop",
}
LEARNERS = tuple(field.name for field in dataclasses.fields(RankSettings))
CHANGEABLE = ("updates", "epochs", "budget_tokens", "device", "ray", *LEARNERS)  # on resume
WITH_RESUME = (*CHANGEABLE, "trust_config")
NO_FLAGS = ("command", "run", "default_split", "resume")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft train`."""
    add_run_flags(parser, out="folder of the run")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help=f"go on with the run in DIR; only {_flags(WITH_RESUME)} may be given with it",
    )
    parser.add_argument(
        "--start-from",
        type=Path,
        metavar="RUN",
        help="start from the adapters of a run of marft sft or train, RUN@best, RUN@update-00012, or of a checkpoint; "
        "optimizers and critic are new",
    )
    parser.add_argument(
        "--replay-from",
        type=Path,
        metavar="FILE",
        help="turn file of marft data from-runs that --replay-share mixes in (default: solved episodes of the run)",
    )
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        help="; ".join(f"{name}: {a.description}" for name, a in ALGORITHMS.items())
        + f" (default: {DEFAULTS['algorithm']})",
    )
    add_model_flags(parser)
    add_sampler_flag(parser)
    parser.add_argument(
        "--sharing",
        choices=("separate", "shared"),
        help=f"one adapter per agent, or one for all (default: {DEFAULTS['sharing']})",
    )
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help="where settings come from that are neither given nor set by the algorithm "
        f"(default: {DEFAULTS['preset']})",
    )
    add_environment_flags(parser, split="train")
    for kind, title in SETTINGS.values():
        add_knobs(parser, kind, title=title, presets=PRESETS, preset=DEFAULTS["preset"])
    parser.add_argument(
        "--print-config",
        action="store_true",
        default=None,
        help="print all that these flags come to as TOML for --config, and do nothing else",
    )
    add_config(parser, run)


def _flags(names: Iterable[str]) -> str:
    return ", ".join(map(flag, names))


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add --model, --dtype and --device."""
    parser.add_argument(
        "--model",
        action="append",
        metavar="[AGENT=]MODEL",
        default=None,
        help="a folder, hub id, .gguf file, smollm2-135m (default), tiny or tiny-words; AGENT=MODEL for one agent; may "
        "be repeated. frozen:MODEL is not trained, endpoint:URL#NAME is model NAME of an OpenAI-compatible server, and "
        "a2a:URL an A2A agent",
    )
    parser.add_argument(
        "--dtype",
        choices=get_args(Dtype),
        help="dtype of the frozen models; auto: bfloat16 on CUDA, float32 on the CPU (default: auto)",
    )
    add_device_flag(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft train`."""
    if arguments.resume is not None:
        experiment, out = _resumed(arguments), arguments.resume
    else:
        if arguments.env is None or (arguments.out is None and not arguments.print_config):
            raise ValueError("marft train needs --env ID and --out DIR (or --resume DIR)")
        experiment, out = experiment_of(arguments), arguments.out
    if arguments.print_config:
        say(to_toml(experiment, out=arguments.out, device=arguments.device), end="")
        return 0
    metrics = train(experiment, out, device=devices_of(arguments.device), resume=arguments.resume is not None)
    budget = experiment.schedule.budget_tokens
    spent = f" with {metrics['tokens']:.0f} of {budget} tokens" if budget else ""
    say(
        f"{out}: {metrics['updates']:.0f} updates{spent}; success of the last {metrics['window']:.0f}: "
        f"{metrics['success']:.3f}; curve {out / 'curve.png'}; checkpoint {checkpoint.resolve(out)}"
    )
    return 0


def experiment_of(arguments: argparse.Namespace) -> Experiment:
    """Return the experiment of a new run from its flags and `DEFAULTS`."""
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    return Experiment.from_arguments(argparse.Namespace(**{**DEFAULTS, **given}))


def _resumed(arguments: argparse.Namespace) -> Experiment:
    uses = EVERYTHING if arguments.ray is None else Uses(but=("rollouts.ray",))
    experiment = Experiment.load(arguments.resume, uses, trust=arguments.trust_config)
    given = [name for name, value in vars(arguments).items() if value is not None]
    fixed = [name for name in given if name not in (*WITH_RESUME, *NO_FLAGS)]
    if fixed:
        raise RunFolderError(
            f"--resume goes on with the settings in {arguments.resume / 'config.json'}; "
            f"{_flags(fixed)} cannot be changed (only {_flags(CHANGEABLE)})"
        )
    longer = given_knobs(arguments, TrainingSchedule)
    length, other = ("epochs", "updates") if experiment.schedule.epochs else ("updates", "epochs")
    if other in longer:
        raise RunFolderError(f"{arguments.resume} counts {length}: to make it longer give --{length}, not --{other}")
    if longer.get("budget_tokens", 0) != experiment.schedule.budget_tokens:
        _refuse_less(longer.get("budget_tokens", 0), arguments.resume)
    if arguments.ray is not None:  # the cluster of today has another address
        experiment = dataclasses.replace(
            experiment, rollouts=dataclasses.replace(experiment.rollouts, ray=arguments.ray)
        )
    return dataclasses.replace(
        experiment,
        schedule=dataclasses.replace(experiment.schedule, **longer),
        ranks=dataclasses.replace(experiment.ranks, **given_knobs(arguments, RankSettings)),
    )


def _refuse_less(budget_tokens: int, run: Path) -> None:
    """Raise RunFolderError if a run has generated more tokens than a new budget."""
    newest = checkpoint.latest(run / "checkpoints")
    spent = 0 if newest is None else checkpoint.tokens_of(newest) or 0
    if 0 < budget_tokens < spent:
        raise RunFolderError(
            f"--budget-tokens counts those of the whole run: found {budget_tokens}, wanted {spent} or more, since "
            f"{run} has generated {spent}"
        )


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
    curve: bool = True,
) -> dict[str, float]:
    """Train a team and write configuration, metrics, checkpoints and learning curve to a run folder.

    Args:
        experiment: Complete configuration of the run.
        out: Run folder to write.
        device: Device of the models, see `build_team`.
        resume: True continues from the newest checkpoint in `out`.
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
        run = _Run(experiment, out, device, resume)
        with cluster(run.experiment.rollouts, run.experiment.ranks):  # before any model is loaded
            if experiment.ranks.learners == 1:
                run.work(ALONE)
            else:
                ownership.close()  # rank 0 owns the folder
                out = out.resolve()
                shared = next(folder for folder in (out, *out.parents) if folder.is_dir())
                work = partial(_on_rank, experiment.to_dict(), out, resume)
                run_ranks(work, experiment.ranks, shared, identity=identity)
        return _result(out, curve)


def _result(out: Path, curve: bool) -> dict[str, float]:
    """Draw the learning curve of a run, and return the numbers of `train`."""
    history = read_metrics(out)
    if not history:
        raise RunFolderError(f"{out} has done all its updates, and {out / 'metrics.jsonl'} has lost the lines of all")
    if curve:
        draw_curve({out.name: history}, out / "curve.png")
    window = history[-10:]
    tokens = {"tokens": history[-1][TOKENS_TOTAL]} if TOKENS_TOTAL in history[-1] else {}
    return tokens | {
        "success": sum(m["team/success"] for m in window) / len(window),
        "window": len(window),
        "updates": history[-1]["update"] + 1,
    }


class _Run:
    """A run that has passed all checks that need no model.

    Args:
        experiment: Complete configuration of the run.
        out: Run folder to write.
        device: Device of the models, see `build_team`.
        resume: True continues from the newest checkpoint in `out`.
    """

    def __init__(self, experiment: Experiment, out: Path, device: Devices, resume: bool) -> None:
        self.out, self.device, self.resume = out, device, resume
        self.make_env = factory(experiment.env, experiment.keywords)
        self.env = self.make_env()
        keep_grades(self.env, out)
        self.experiment = experiment.scheduled(self.env)
        if resume:
            _refuse_shorter(self.experiment, out)
        self.held_out = held_out_tasks(experiment.env, experiment.keywords, experiment.validation, self.env)
        if self.starts_anew and self.experiment.start_from is not None:
            checkpoint.check_agents(Path(self.experiment.start_from), self.env.possible_agents)
        self.notes = self._notes()
        if not self.starts_anew:
            self._refuse_changes(checkpoint.notes_of(out))
        self.experiment.check(self.env)
        if experiment.ranks.learners == 1:
            self.experiment = self.experiment.sized(self.env.possible_agents, device)

    def _notes(self) -> dict[str, str]:
        """Return what decides the run beside its configuration: tools, and checksums of its data."""
        experiment = self.experiment
        found: dict[str, str | None] = dict(notes_of(self.env))
        found["sampler"] = None if experiment.sampler == OWN else experiment.sampler
        found["tasks"] = task_checksum(self.env)
        if self.held_out is not None:
            found["held_out_tasks"] = task_checksum(self.held_out.make_env())
        if experiment.replay_from is not None and Path(experiment.replay_from).is_file():
            found["replayed_turns"] = f"sha256 {sha256_of(Path(experiment.replay_from))}"
        return {name: value for name, value in found.items() if value is not None}

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

    @property
    def starts_anew(self) -> bool:
        """True if the run has no checkpoint to continue from."""
        return not self.resume or checkpoint.latest(self.out / "checkpoints") is None

    def work(self, ranks: Ranks) -> None:
        """Train as rank 0, or share the passes of its updates."""
        with contextlib.ExitStack() as stack:
            if not ranks.rank:
                stack.enter_context(owned(self.out))
            _, team, learner = self.experiment.build(self.device, self.make_env, ranks)
            stack.enter_context(contextlib.closing(team))
            if ranks.rank:
                learner.follow()
            else:
                self._train(team, learner, stack)
                learner.release()

    def _train(self, team: LanguageModelTeam, learner: Learner, stack: contextlib.ExitStack) -> None:
        experiment = dataclasses.replace(self.experiment, learner=learner.settings)  # sizes resolved for this device
        out, env = self.out, self.env
        validator = None
        if self.held_out is not None:
            validator = self.held_out.validator(team, experiment.validation, experiment.schedule)
        done, recorded = 0, None
        if self.starts_anew:
            if self.resume:
                say(
                    f"{out}: the run ended before its first checkpoint; it starts anew with its config.json",
                    error=True,
                )
            if experiment.start_from is not None:
                checkpoint.load_adapters(Path(experiment.start_from), team)
        else:
            if "tasks" in self.notes and "tasks" not in checkpoint.notes_of(out):
                told = "an older version, which did not record its tasks: whether they changed since is not known"
                say(f"{out}: its checkpoint was written by {told}", error=True)
            done, recorded = checkpoint.load(out, team, learner), checkpoint.records_of(out)
        exported = out / "adapters"
        shutil.rmtree(exported, ignore_errors=True)  # those of a killed learner
        rollouts = stack.enter_context(
            open_rollouts(experiment, team, learner.settings, exported, make_env=self.make_env, device=self.device)
        )
        table = stack.enter_context(
            TrainingTable(
                experiment.schedule.updates if experiment.schedule.budget_tokens else experiment.schedule.max_updates,
                list(team.policies),
                budget_tokens=experiment.schedule.budget_tokens,
                max_new_tokens=experiment.law.max_new_tokens,
            )
        )
        folder = RunFolder(
            out,
            experiment.to_dict(),
            resume_at=done,
            recorded=recorded,
            notes=self.notes,
            tracking=experiment.tracking,
        )
        keep_surface(env, out)
        if done:
            keep_as_own(out, experiment)
        Trainer(
            self.make_env,
            team,
            learner,
            experiment.schedule,
            folder=folder,
            rollouts=rollouts,
            on_update=table.add,
            health=experiment.health,
            on_alarm=table.alarm,
            tasks=tasks_of(env, "epochs") if experiment.schedule.epochs else (),
            validator=validator,
        ).run()
        folder.close()


def keep_as_own(run: Path, experiment: Experiment) -> None:
    """Make the record of a resumed run this user's own; it is rewritten where the experiment became a longer one."""
    file = run / "config.json"
    if Experiment.load(run, Uses(only=())) != experiment:
        write_json(file, experiment.to_dict(), own=True)
    else:
        written_files.enter(file, file.read_bytes())


def _on_rank(record: Mapping[str, Any], out: Path, resume: bool, ranks: Ranks) -> None:
    """Train a recorded experiment as one of several ranks, on the device that Ray Train gives it."""
    from ray.train.torch import get_device

    experiment = Experiment.from_dict(dict(record))
    device = get_device() if experiment.ranks.learner_gpus else torch.device("cpu")
    _Run(experiment, out, device, resume).work(ranks)
