"""`marft sft`: supervised fine-tuning of every agent's adapter on its own recorded turns."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baselines.cli.device_flag import devices_of
from baselines.cli.environment_flags import add_environment_flags, add_run_flags, given_keywords, read_keywords
from baselines.cli.progress import StepDisplay
from baselines.cli.settings_flags import add_knobs, flag, read_knobs
from baselines.cli.terminal import say, stoppable
from baselines.cli.train import add_model_flags
from baselines.cli.trust_flag import add_trust_flag
from baselines.experiment.config_files import SFT
from baselines.experiment.config_trust import Uses, require_trust
from baselines.experiment.data_checksums import refuse_changed, sha256_of
from baselines.experiment.environments import versioned_id
from baselines.experiment.experiment import DEFAULT_MODEL, Experiment, read_models
from baselines.training_data.fine_tuning import FILE, SupervisedRun, fine_tune
from baselines.training_data.turn_file import TurnFileError, manifest_of, read_turns
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.context_window import ContextSettings
from marft_agents.runs import checkpoint
from marft_agents.runs.folder_lock import RunFolderError, owned
from marft_agents.runs.run_folder import check_free, read_metrics
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.supervised_trainer import SupervisedSettings

WITH_RESUME = ("resume", "device")
NO_FLAGS = ("command", "run", "default_split", "trust_config")


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
    going_on = ["marft", "sft", "--resume", str(out)]
    with owned(out), stoppable(going_on, out / FILE):  # before a model is loaded
        fine_tune(
            chosen,
            examples,
            out,
            device=devices_of(arguments.device),
            resume=arguments.resume is not None,
            progress=StepDisplay(out.name),
        )
    _print_result(out)
    return 0


def _check_unchanged(chosen: SupervisedRun, out: Path) -> None:
    """Require the very turn file of a run, before anything in it is read: its path stands in the run's record."""
    if not chosen.data.is_file():
        raise TurnFileError(f"{out / FILE}: data: {chosen.data} is no file; put the turn file of the run there")
    refuse_changed(str(chosen.data), f"sha256 {sha256_of(chosen.data)}", f"sha256 {chosen.sha256}", out)


def _refuse_with_resume(arguments: argparse.Namespace) -> None:
    """Refuse flags of settings, which stand in the record of the run."""
    fixed = []
    for name, value in vars(arguments).items():
        if value is not None and name not in (*WITH_RESUME, *NO_FLAGS):
            fixed.append(name)
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
        models=read_models(arguments.model or [DEFAULT_MODEL]),
        sharing=arguments.sharing or "separate",
        dtype=arguments.dtype or "auto",
        learner=settings.learner,
        schedule=TrainingSchedule(seed=settings.seed),
        sampling=read_knobs(arguments, SamplingParams, {}),
        lora=read_knobs(arguments, LoraSettings, {}),
        context=read_knobs(arguments, ContextSettings, {}),
    )
    data = arguments.data.expanduser().resolve()
    return SupervisedRun(experiment, settings, data, sha256_of(data), manifest)


def _environment_of(data: Path, manifest: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the environment that a manifest names, and the keywords that all of its origins share."""
    # Spans of other programs name no environment.
    origins = [origin for origin in manifest.get("origins", ()) if origin["env"] is not None]
    names = sorted({origin["env"] for origin in origins})
    if len(names) != 1:
        found = ", ".join(names) or "none"
        raise TurnFileError(f"{data}: its manifest names {found} as environment: give --env ID, whose team is trained")
    shared = dict(origins[0]["keywords"])
    for origin in origins[1:]:
        own = origin["keywords"]
        shared = {key: value for key, value in shared.items() if key in own and own[key] == value}
    return names[0], shared


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
