"""`marft train`: train a team on an environment, or resume a run."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from baselines.cli.config_file import add_config
from baselines.cli.device_flag import add_device_flag, devices_of
from baselines.cli.environment_flags import add_environment_flags, add_run_flags
from baselines.cli.program_flags import add_program_flags, keywords_of, name_program
from baselines.cli.progress import TrainingDisplay
from baselines.cli.settings_flags import add_knobs, flag, given_knobs
from baselines.cli.terminal import say, say_loading, stoppable
from baselines.experiment.config_files import to_toml
from baselines.experiment.config_trust import EVERYTHING, Uses
from baselines.experiment.experiment import SETTINGS, Experiment, read_models
from baselines.experiment.presets import DEFAULT_PRESET, PRESETS
from marft_agents.learning.algorithms import ALGORITHMS
from marft_agents.learning.rank_settings import RankSettings
from marft_agents.models.base_settings import Dtype
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.schedule import TrainingSchedule

WHOLE = ("algorithm", "sharing", "sampler", "canary", "preset", "dtype", "start_from", "replay_from")
LEARNERS = tuple(field.name for field in dataclasses.fields(RankSettings))
CHANGEABLE = ("updates", "epochs", "budget_tokens", "device", "ray", *LEARNERS)  # on resume
WITH_RESUME = (*CHANGEABLE, "trust_config")
NO_FLAGS = ("command", "run", "default_split", "resume")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft train`."""
    add_run_flags(parser, out="folder of the run")
    add_program_flags(parser)
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
        + f" (default: {Experiment.algorithm})",
    )
    add_model_flags(parser)
    add_sampler_flag(parser)
    parser.add_argument(
        "--sharing",
        choices=("separate", "shared"),
        help=f"one adapter per agent, or one for all (default: {Experiment.sharing})",
    )
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help=f"where settings come from that are neither given nor set by the algorithm (default: {DEFAULT_PRESET})",
    )
    add_environment_flags(parser, split="train")
    for kind, title in SETTINGS.values():
        add_knobs(parser, kind, title=title, presets=PRESETS, preset=DEFAULT_PRESET)
    parser.add_argument(
        "--print-config",
        action="store_true",
        default=None,
        help="print all that these flags come to as TOML for --config, and do nothing else",
    )
    add_config(parser, run)


def _flags(names: Iterable[str]) -> str:
    return ", ".join(map(flag, names))


def add_sampler_flag(parser: argparse.ArgumentParser) -> None:
    """Add --sampler and --canary."""
    parser.add_argument(
        "--sampler",
        metavar="own|vllm|URL,URL",
        help="what plays the training episodes: own generation, vLLM in this process, or a server with a /v1 API that "
        "loads LoRA adapters, like http://localhost:8000/v1; with --ray one server per worker, separated by commas "
        f"(default: {Experiment.sampler})",
    )
    parser.add_argument(
        "--canary",
        action=argparse.BooleanOptionalAction,
        help="after each update, check that the sampler plays the adapters as they were just trained, and stop the run "
        f"if it does not (default: {Experiment.canary})",
    )


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
        name_program(arguments)
        if arguments.env is None or (arguments.out is None and not arguments.print_config):
            needed = missing(arguments, "env", "out")
            raise ValueError(f"marft train needs --env ID and --out DIR (or --resume DIR): {needed}")
        experiment, out = experiment_of(arguments), arguments.out
    if arguments.print_config:
        say(to_toml(experiment, out=arguments.out, device=arguments.device), end="")
        return 0
    say_loading(())  # the flags are checked: what follows takes seconds
    from baselines.training_data.demonstrations import replay_pools
    from marft_agents.runs import checkpoint

    with stoppable(["marft", "train", "--resume", str(out)], out / "config.json"):
        metrics = experiment.run(
            out,
            TrainingDisplay(),
            device=devices_of(arguments.device),
            resume=arguments.resume is not None,
            replay=replay_pools,
        )
    budget = experiment.schedule.budget_tokens
    spent = f" with {metrics['tokens']:.0f} of {budget} tokens" if budget else ""
    say(
        f"{out}: {metrics['updates']:.0f} updates{spent}; success of the last {metrics['window']:.0f}: "
        f"{metrics['success']:.3f}; curve {out / 'curve.png'}; checkpoint {checkpoint.resolve(out)}"
    )
    return 0


def missing(arguments: argparse.Namespace, *names: str) -> str:
    """Return which of some flags were found and which were not."""
    given = [f"{flag(name)} {getattr(arguments, name)}" for name in names if getattr(arguments, name) is not None]
    others = [flag(name) for name in names if getattr(arguments, name) is None]
    return f"found {' and '.join(given) or 'neither'}, give {' and '.join(others)}"


def experiment_of(arguments: argparse.Namespace) -> Experiment:
    """Return the experiment of a new run from its flags.

    Raises:
        SettingsError: Flags are out of range, or contradict each other or the algorithm.
    """
    settings = {name: getattr(arguments, name) for name in WHOLE if getattr(arguments, name) is not None}
    for kind, _ in SETTINGS.values():
        settings |= given_knobs(arguments, kind)
    if arguments.model is not None:
        settings["models"] = read_models(arguments.model)
    return Experiment(arguments.env, keywords=keywords_of(arguments), **settings)


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
    from marft_agents.runs import checkpoint

    newest = checkpoint.latest(run / "checkpoints")
    spent = 0 if newest is None else checkpoint.tokens_of(newest) or 0
    if 0 < budget_tokens < spent:
        raise RunFolderError(
            f"--budget-tokens counts those of the whole run: found {budget_tokens}, wanted {spent} or more, since "
            f"{run} has generated {spent}"
        )
