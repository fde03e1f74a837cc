"""`marft train`: train a team on an environment, or go on with a run."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import torch

from baselines.curve import draw_curve
from baselines.environment import add_environment_flags, notes_of
from baselines.experiment import PRESETS, SETTINGS, Experiment
from baselines.flags import add_knobs
from baselines.progress import TrainingTable
from baselines.sampler import OWN, add_sampler_flag, check_sampler, open_sampler
from marft_agents import checkpoint
from marft_agents.algorithms import ALGORITHMS
from marft_agents.run_folder import RunFolder, RunFolderError, read_metrics
from marft_agents.trainer import Trainer
from marft_envs.tools.surface import check_surface


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `marft train`."""
    parser = commands.add_parser("train", help="train a team of language models on an environment")
    parser.add_argument("--env", metavar="ID", help="environment, like marft/math_duo-v0")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the run")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with the run in DIR; only --updates may be given with it"
    )
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        default="marft-a",
        help="; ".join(f"{name}: {a.description}" for name, a in ALGORITHMS.items()) + " (default: marft-a)",
    )
    add_model_flags(parser)
    add_sampler_flag(parser)
    parser.add_argument(
        "--sharing", choices=("separate", "shared"), default="separate", help="one adapter per agent, or one for all"
    )
    parser.add_argument(
        "--preset", choices=PRESETS, default="laptop", help="where settings that are not given come from"
    )
    add_environment_flags(parser, split="train")
    for kind, title in SETTINGS.values():
        add_knobs(parser, kind, title=title)
    parser.set_defaults(run=run)


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add --model and --device."""
    parser.add_argument(
        "--model",
        action="append",
        metavar="[AGENT=]MODEL",
        default=None,
        help="a folder, hub id, .gguf file, smollm2-135m (default) or tiny; AGENT=MODEL for one agent",
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: CUDA if there, else CPU)")


def device_of(arguments: argparse.Namespace) -> torch.device | None:
    """Return the device that was asked for, or None.

    Raises:
        ValueError: there is no such device.
    """
    if arguments.device is None:
        return None
    try:
        device = torch.device(arguments.device)
    except RuntimeError as error:
        raise ValueError(f"--device {arguments.device!r}: wanted cpu or cuda[:N]") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"--device {arguments.device!r}: this machine has {torch.cuda.device_count()} CUDA devices")
    return device


def run(arguments: argparse.Namespace) -> int:
    """Run `marft train`."""
    check_sampler(arguments.sampler)
    arguments.model = arguments.model or ["smollm2-135m"]
    if arguments.resume is not None:
        experiment, out = _resumed(arguments), arguments.resume
    else:
        if arguments.env is None or arguments.out is None:
            raise ValueError("marft train needs --env ID and --out DIR (or --resume DIR)")
        experiment, out = Experiment.from_arguments(arguments), arguments.out
    metrics = train(
        experiment, out, device=device_of(arguments), resume=arguments.resume is not None, sampler=arguments.sampler
    )
    print(
        f"{out}: {experiment.schedule.updates} updates; success of the last {metrics['window']:.0f}: "
        f"{metrics['success']:.3f}; curve {out / 'curve.png'}; checkpoint {checkpoint.resolve(out)}"
    )
    return 0


def _resumed(arguments: argparse.Namespace) -> Experiment:
    experiment = Experiment.load(arguments.resume)
    names = [f.name for kind, _ in SETTINGS.values() for f in dataclasses.fields(kind) if f.name != "updates"]
    given = [name for name in [*names, "env", "out"] if getattr(arguments, name, None) is not None]
    if given:
        raise RunFolderError(
            f"--resume goes on with the settings in {arguments.resume / 'config.json'}; "
            f"--{given[0].replace('_', '-')} can not be changed (only --updates)"
        )
    if arguments.updates is None:
        return experiment
    schedule = dataclasses.replace(experiment.schedule, updates=arguments.updates)
    return dataclasses.replace(experiment, schedule=schedule)


def train(
    experiment: Experiment, out: Path, *, device: torch.device | None = None, resume: bool = False, sampler: str = OWN
) -> dict[str, float]:
    """Train and keep everything in a run folder.

    Args:
        experiment: what to do.
        out: the run folder.
        device: of the models.
        resume: go on from the newest checkpoint.
        sampler: what plays the training episodes: own, vllm or the URL of a server.

    Returns:
        success: mean over the last updates; window: how many.
    """
    make_env, team, learner = experiment.build(device)
    notes, done = notes_of(make_env()), 0
    if sampler != OWN:
        notes["sampler"] = sampler
    if resume and checkpoint.latest(out / "checkpoints") is None:
        print(f"{out}: the run ended before its first checkpoint; it starts anew with its config.json", file=sys.stderr)
    elif resume:
        check_surface(checkpoint.notes_of(out).get("tool_surface"), notes.get("tool_surface"))
        done = checkpoint.load(out, team, learner)
    folder = RunFolder(out, experiment.to_dict(), resume_at=done, notes=notes)
    with (
        open_sampler(sampler, team, out / "adapters") as policy,
        TrainingTable(experiment.schedule.updates, list(team.policies)) as table,
    ):
        Trainer(
            make_env,
            team,
            learner,
            experiment.schedule,
            folder=folder,
            policy=policy,
            on_update=table.add,
            health=experiment.health,
            on_alarm=table.alarm,
        ).run()
    folder.close()
    history = read_metrics(out)
    draw_curve({out.name: history}, out / "curve.png")
    window = history[-10:]
    return {"success": sum(m["team/success"] for m in window) / len(window), "window": len(window)}
