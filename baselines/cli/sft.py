"""`marft sft`: supervised fine-tuning of every agent's adapter on its own recorded turns."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import marft_envs
from baselines.cli.device_flag import devices_of
from baselines.cli.environment_flags import add_environment_flags, add_run_flags, given_keywords, read_keywords
from baselines.cli.progress import EpisodeCount
from baselines.cli.settings_flags import add_knobs, flag, read_knobs
from baselines.cli.terminal import say
from baselines.cli.train import add_model_flags
from baselines.cli.trust_flag import add_trust_flag
from baselines.experiment.config_files import SFT
from baselines.experiment.config_trust import Uses, require_trust
from baselines.experiment.data_checksums import refuse_changed, sha256_of
from baselines.experiment.environments import notes_of, versioned_id
from baselines.experiment.experiment import Experiment, from_record, read_models
from baselines.experiment.run_surface import keep_surface
from baselines.experiment.training import keep_as_own
from baselines.training_data.demonstrations import check_agents, demonstrations
from baselines.training_data.turn_file import HELD_OUT, TRAIN, Example, TurnFileError, manifest_of, read_turns
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.supervised import SupervisedLearner
from marft_agents.metric_names import metric_prefix
from marft_agents.models.adapted_base import LoraSettings
from marft_agents.models.context_window import ContextSettings
from marft_agents.policies.language_model import Devices, check_first_prompts
from marft_agents.runs import checkpoint
from marft_agents.runs.folder_lock import RunFolderError, owned
from marft_agents.runs.run_folder import RunFolder, check_free, read_metrics, write_json
from marft_agents.runs.supervised_trainer import SupervisedSettings, SupervisedTrainer
from marft_agents.runs.trainer import TrainingSchedule, refuse_unsuitable
from marft_agents.setting_fields import SettingsError

FILE = "sft.json"  # settings and data of the run, beside its config.json
WITH_RESUME = ("resume", "device")
NO_FLAGS = ("command", "run", "default_split", "trust_config")
SUPERVISED = Uses(only=("env", "keywords", "models"))  # the settings on which a supervised run acts


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft sft`."""
    parser.add_argument("--data", type=Path, metavar="FILE", help="turn file of marft data from-runs")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with the run in DIR; only --device may be given with it"
    )
    add_run_flags(parser, out="folder of the run")
    add_model_flags(parser)
    parser.add_argument(
        "--sharing", choices=("separate", "shared"), help="one adapter per agent, or one for all (default: separate)"
    )
    add_environment_flags(parser, with_data=False)
    add_knobs(parser, SupervisedSettings, title="supervised fine-tuning")
    add_knobs(parser, SamplingParams, title="sampling")
    add_knobs(parser, ContextSettings, title="context window")
    add_knobs(parser, LoraSettings, title="adapters")
    add_trust_flag(parser)
    parser.set_defaults(run=run)


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


def run(arguments: argparse.Namespace) -> int:
    """Run `marft sft`."""
    if arguments.resume is not None:
        _refuse_with_resume(arguments)
        chosen, out = SupervisedRun.load(arguments.resume, trust=arguments.trust_config), arguments.resume
        _check_unchanged(chosen, out)
        examples, _ = read_turns(chosen.data)
    else:
        if arguments.data is None or arguments.out is None:
            raise ValueError("marft sft needs --data FILE and --out DIR (or --resume DIR)")
        check_free(arguments.out)
        out = arguments.out
        examples, manifest = read_turns(arguments.data)
        chosen = _configured(arguments, manifest)
    with owned(out):  # before a model is loaded
        fine_tune(chosen, examples, out, device=devices_of(arguments.device), resume=arguments.resume is not None)
    _print_result(out)
    return 0


def _check_unchanged(chosen: SupervisedRun, out: Path) -> None:
    """Require the very turn file of a run, before anything in it is read: its path stands in the run's record."""
    if not chosen.data.is_file():
        raise TurnFileError(f"{out / FILE}: data: {chosen.data} is no file; put the turn file of the run there")
    refuse_changed(str(chosen.data), f"sha256 {sha256_of(chosen.data)}", f"sha256 {chosen.sha256}", out)


def _refuse_with_resume(arguments: argparse.Namespace) -> None:
    given = [name for name, value in vars(arguments).items() if value is not None]
    fixed = [name for name in given if name not in (*WITH_RESUME, *NO_FLAGS)]
    if fixed:
        raise RunFolderError(
            f"--resume goes on with the settings of {arguments.resume}; {', '.join(map(flag, fixed))} cannot be "
            "changed (only --device)"
        )


def _configured(arguments: argparse.Namespace, manifest: Mapping[str, Any]) -> SupervisedRun:
    """Return the configuration of a new run; its environment is that of the manifest unless flags name one."""
    settings = read_knobs(arguments, SupervisedSettings, {})
    # `data` of the flags is the turn file, that of the keywords the environment's
    own = argparse.Namespace(**{**vars(arguments), "data": None})
    if arguments.env is not None:
        env_id, keywords = arguments.env, read_keywords(own)
    else:
        env_id, keywords = _environment_of(arguments.data, manifest)
        if not arguments.trust_config:
            file = manifest_of(arguments.data)
            replaced = [f"keywords.{name}" for name in given_keywords(own)]
            require_trust(file, file.read_bytes(), {"env": env_id, "keywords": keywords}, Uses(but=replaced))
        own.env = env_id
        keywords = {**keywords, **read_keywords(own)}
    experiment = Experiment(
        env=versioned_id(env_id),
        keywords=keywords,
        algorithm=SFT,
        models=read_models(arguments.model or ["smollm2-135m"]),
        sharing=arguments.sharing or "separate",
        dtype=arguments.dtype or "auto",
        learner=settings.learner,
        schedule=TrainingSchedule(seed=settings.seed),
        law=read_knobs(arguments, SamplingParams, {}),
        lora=read_knobs(arguments, LoraSettings, {}),
        context=read_knobs(arguments, ContextSettings, {}),
    )
    data = arguments.data.expanduser().resolve()
    return SupervisedRun(experiment, settings, data, sha256_of(data), manifest)


def _environment_of(data: Path, manifest: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the environment that a manifest names, and the keywords that all of its origins share."""
    origins = [origin for origin in manifest.get("origins", ()) if origin["env"] is not None]
    names = sorted({origin["env"] for origin in origins})
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise TurnFileError(f"{data}: its manifest names {found} as environment: give --env ID, whose team is trained")
    first, *others = (origin["keywords"] for origin in origins)
    return names[0], {key: value for key, value in first.items() if all(key in o and o[key] == value for o in others)}


def fine_tune(
    chosen: SupervisedRun, examples: list[Example], out: Path, *, device: Devices = None, resume: bool = False
) -> None:
    """Fine-tune a team and write configuration, metrics and checkpoints to a run folder.

    Args:
        chosen: Complete configuration of the run.
        examples: Turns of its file.
        out: Run folder to write.
        device: Device of the models, see `build_team`.
        resume: True continues from the newest checkpoint in `out`.
    """
    experiment = chosen.experiment
    env = marft_envs.make(experiment.env, **experiment.keywords)
    refuse_unsuitable(env)
    check_agents(chosen.data, examples, env.possible_agents)
    if experiment.law.greedy:
        raise SettingsError("temperature = 0, wanted > 0: log-likelihoods are those of the sampling parameters")
    check_first_prompts(env, experiment.models, experiment.law, experiment.context)
    team = experiment.build_team(env.possible_agents, device)
    with contextlib.closing(team):
        by_split = {
            split: demonstrations(chosen.data, [e for e in examples if e.split == split], team)
            for split in (TRAIN, HELD_OUT)
        }
        train = by_split[TRAIN]
        if not any(train.values()):
            trained = ", ".join(team.learners) or "none"
            raise TurnFileError(f"{chosen.data}: no turn to train on is of a trained agent; trained are {trained}")
        if idle := [policy for policy, own in train.items() if not own]:
            say(f"no turns of {', '.join(idle)}: their adapters stay untrained", error=True)
        total = chosen.settings.epochs * chosen.settings.steps_per_epoch(train)
        learner = SupervisedLearner(team, experiment.learner, seed=chosen.settings.seed, total_updates=total)
        done = 0
        if resume and checkpoint.latest(out / "checkpoints") is not None:
            done = checkpoint.load(out, team, learner)
        recorded = checkpoint.records_of(out) if done else None
        experiment = dataclasses.replace(experiment, schedule=dataclasses.replace(experiment.schedule, updates=total))
        notes = {**notes_of(env), "turns": chosen.sha256}
        folder = RunFolder(out, experiment.to_dict(), resume_at=done, recorded=recorded, notes=notes)
        keep_surface(env, out)
        if done:
            keep_as_own(out, experiment)
        chosen.write(out)
        with EpisodeCount(out.name, total - done, unit="steps") as count:
            SupervisedTrainer(
                team,
                learner,
                chosen.settings,
                train,
                by_split[HELD_OUT],
                folder=folder,
                on_update=lambda _, metrics: count.advance(_note(metrics, list(train))),
            ).run()
        folder.close()


def _note(metrics: Mapping[str, float], policies: list[str]) -> str:
    found = [(name, metrics.get(f"{metric_prefix(name)}/nll")) for name in policies]
    return ", ".join(f"{name} NLL {value:.3f}" for name, value in found if value is not None)


def _print_result(out: Path) -> None:
    """Print the last fit of each policy, on the turns of the last step and on the held-out ones."""
    history = read_metrics(out)
    last = history[-1]
    for prefix in sorted({name.rpartition("/")[0] for name in last if name.endswith("/nll")}):
        told = f"NLL {last[f'{prefix}/nll']:.3f}, token accuracy {last[f'{prefix}/token_accuracy']:.3f}"
        if f"{prefix}/held_out_nll" in last:
            before = history[0].get(f"{prefix}/held_out_before_nll")
            told += (
                f"; held out: NLL {last[f'{prefix}/held_out_nll']:.3f} (before: {before:.3f}), "
                f"token accuracy {last[f'{prefix}/held_out_token_accuracy']:.3f}"
            )
        say(f"{prefix}: {told}")
    say(f"{out}: {len(history)} steps; checkpoint {checkpoint.resolve(out)}")
