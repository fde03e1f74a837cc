"""From 0 in the worlds of tools, and in recall: fine-tuning on the oracle's episodes alone, and MARFT-A from there.

    python -m benchmarks.sft_then_marft --out runs/sft-marft [--worlds shop,desk,travel] [--seeds 0,1,2]
    python -m benchmarks.sft_then_marft --out runs/sft-marft --dry-run

Per world: the oracle plays the training tasks, their turns become a file, and the untrained team plays the test tasks.
Per seed: `marft sft`, an evaluation, `marft train --start-from` with the same seed, an evaluation. At the end
`marft compare` gives the paired differences over seeds with their intervals, as JSON files in the folder of the world.
`--record FILE` only writes the results that there are as one small file; worlds that only the file has stay in it.
`--plot PNG` draws it.

Each step is a command of the suite in a process of its own. A finished step leaves a mark in `done`, so the same call
continues after a kill; a training that was cut off is resumed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.experiment.source_commit import source_commit
from benchmarks.machine import described, machine, write_record
from marft_agents.models.random_models import LINEAR_LAYERS

WORLDS = ("shop", "desk", "travel")
OTHERS = {"recall": ("--env", "marft/recall_duo-v0")}  # flags of worlds that are no data of `tools`
TRAINING = ("sft", "train")  # commands that --resume continues


@dataclass(frozen=True)
class Budget:
    """Size of the experiment.

    Attributes:
        model: Model of both agents.
        horizon: Rounds of an episode.
        train_tasks: Training tasks whose solution is imitated.
        test_tasks: Test tasks of every evaluation.
        epochs: Epochs of fine-tuning.
        updates: Updates of MARFT-A.
        groups: Prompt groups per update, of `group_size` episodes each.
        group_size: Episodes of a prompt group.
        max_new_tokens: Longest action in tokens.
        dtype: Dtype of the frozen model, `--dtype` of the commands.
        temperature: Sampling temperature of fine-tuning, training and evaluation.
        batch_size: Turns of an agent per step of fine-tuning.
        rank: Rank of the adapters, in all linear layers: with `q_proj` and `v_proj` alone, two epochs solve nothing.
        policy_lr: Adam step size of MARFT-A.
    """

    model: str = "smollm2-135m"
    horizon: int = 12
    train_tasks: int = 48
    test_tasks: int = 24
    epochs: int = 2
    updates: int = 6
    groups: int = 4
    group_size: int = 4
    max_new_tokens: int = 64
    dtype: str = "bfloat16"
    temperature: float = 0.5
    batch_size: int = 8
    rank: int = 16
    policy_lr: float = 2e-4


@dataclass(frozen=True)
class Step:
    """One command of the suite.

    Attributes:
        name: Name of the step and of its mark.
        arguments: Arguments of `marft`.
        out: Folder that it writes.
    """

    name: str
    arguments: tuple[str, ...]
    out: Path

    def command(self) -> list[str]:
        """Return the arguments now: those of a resume where a training has begun."""
        if self.arguments[0] in TRAINING and (self.out / "config.json").is_file():
            return [self.arguments[0], "--resume", str(self.out)]
        return list(self.arguments)


def steps(folder: Path, worlds: Sequence[str], seeds: Sequence[int], budget: Budget) -> Iterator[Step]:
    """Yield the steps of the experiment in order: fine-tuning in all worlds first, since MARFT takes longest.

    Args:
        folder: Folder of the results.
        worlds: Worlds of the tasks.
        seeds: Seeds of fine-tuning and training.
        budget: Size of the experiment.
    """
    for world in worlds:
        yield from _fine_tuning(folder / world, seeds, budget)
    for world in worlds:
        yield from _training(folder / world, seeds, budget)


def _fine_tuning(home: Path, seeds: Sequence[int], budget: Budget) -> Iterator[Step]:
    """Yield the steps up to the fine-tuned teams of one world, whose folder is `home`."""
    env, model, world = _env(home, budget), _model(budget), home.name
    demonstrated = ["--split", "train", "--limit", str(budget.train_tasks), "--policy", "scripted"]
    yield _step(f"{world}-oracle", home / "oracle", ["eval", *env, *demonstrated])
    turns, untrained = home / "turns.jsonl", home / "untrained"
    yield _step(f"{world}-turns", turns, ["data", "from-runs", str(home / "oracle"), "--where", "success"])
    yield _step(f"{world}-untrained", untrained, ["eval", *env, "--limit", str(budget.test_tasks), *model])
    length = ["--epochs", str(budget.epochs), "--batch-size", str(budget.batch_size)]
    for seed in seeds:
        run = home / f"sft-{seed}"
        shown = ["sft", "--data", str(turns), *model, *_adapters(budget), *length, "--seed", str(seed)]
        yield _step(f"{world}-sft-{seed}", run, shown)
        yield _evaluation(run, budget)
    yield _comparison(home, [untrained], "sft", seeds)


def _training(home: Path, seeds: Sequence[int], budget: Budget) -> Iterator[Step]:
    """Yield the steps from the fine-tuned teams of one world to the trained ones."""
    size = ["--groups", str(budget.groups), "--group-size", str(budget.group_size), "--micro-batch", "16"]
    length = ["--updates", str(budget.updates), "--policy-lr", str(budget.policy_lr)]
    flags = [*_env(home, budget), *_model(budget), *_adapters(budget), "--algorithm", "marft-a", *size, *length]
    for seed in seeds:
        run = home / f"marft-{seed}"
        start = ["--start-from", str(home / f"sft-{seed}"), "--seed", str(seed)]
        yield _step(f"{home.name}-{run.name}", run, ["train", *flags, *start])
        yield _evaluation(run, budget)
    yield _comparison(home, [home / "untrained"], "marft", seeds)
    yield _comparison(home, [home / f"sft-{seed}" for seed in seeds], "marft", seeds)


def _env(home: Path, budget: Budget) -> list[str]:
    tools = ("--env", "marft/tools_duo-v0", "--data", f"embedded:{home.name}")
    return [*OTHERS.get(home.name, tools), "--horizon", str(budget.horizon)]


def _model(budget: Budget) -> list[str]:
    flags = ["--model", budget.model, "--dtype", budget.dtype]
    return [*flags, "--max-new-tokens", str(budget.max_new_tokens), "--temperature", str(budget.temperature)]


def _adapters(budget: Budget) -> list[str]:
    return ["--rank", str(budget.rank), "--alpha", str(2 * budget.rank), "--targets", ",".join(LINEAR_LAYERS)]


def _step(name: str, out: Path, arguments: Sequence[str]) -> Step:
    return Step(name, (*arguments, "--out", str(out)), out)


def _evaluation(run: Path, budget: Budget) -> Step:
    """Return the evaluation of a run on the test tasks."""
    flags = [*_env(run.parent, budget), "--limit", str(budget.test_tasks), "--checkpoint", str(run)]
    return _step(f"{run.parent.name}-{run.name}-evaluation", run / "evaluation", ["eval", *flags])


def _comparison(home: Path, before: Sequence[Path], kind: str, seeds: Sequence[int]) -> Step:
    """Return the comparison of all runs of a kind with what was before: the untrained team, or a run of each seed."""
    what = f"{before[0].name.partition('-')[0]}-against-{kind}"
    after = [str(home / f"{kind}-{seed}") for seed in seeds]
    arguments = ("compare", "--a", *map(str, before), "--b", *after, "--json", str(home / f"{what}.json"))
    return Step(f"{home.name}-{what}", arguments, home / f"{what}.json")


def results(folder: Path, worlds: Sequence[str], budget: Budget) -> dict[str, dict[str, Any]]:
    """Return what is finished, by world.

    Returns:
        World -> commit, processor and budget of its runs, success of each evaluation (also by difficulty), training
        success of each run by update, and the comparisons over all tasks by name. Worlds without an evaluation are
        left out.
    """
    found: dict[str, dict[str, Any]] = {}
    for home in (folder / world for world in worlds):
        files = sorted([*home.glob("*/evaluation.json"), *home.glob("*/evaluation/evaluation.json")])
        evaluated = {file.relative_to(home).parts[0]: _read(file) for file in files}
        if not evaluated:
            continue
        found[home.name] = {
            "commit": source_commit(),
            "processor": described(machine()),
            "budget": vars(budget),
            "success": {name: evaluation["accuracy"] for name, evaluation in evaluated.items()},
            "by_difficulty": {name: _by_difficulty(evaluation) for name, evaluation in evaluated.items()},
            "training": {
                file.parent.name: _training_success(file) for file in sorted(home.glob("marft-*/metrics.jsonl"))
            },
            "compared": {
                file.stem: [row for row in _read(file)["rows"] if row["cohort"] is None]
                for file in sorted(home.glob("*-against-*.json"))
            },
        }
    return found


def _by_difficulty(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of solved tasks by difficulty."""
    scores: dict[str, list[float]] = {}
    levels = evaluation["cohorts"].get("difficulty", ())  # recall has none
    for level, played in zip(levels, evaluation["scores"], strict=False):
        scores.setdefault(str(level), []).extend(played)
    return {level: sum(own) / len(own) for level, own in sorted(scores.items())}


def _training_success(metrics: Path) -> list[float]:
    """Return the success of the episodes of each update."""
    return [json.loads(line)["team/success"] for line in metrics.read_text(encoding="utf-8").splitlines()]


def plot(record: Mapping[str, Any], path: Path) -> None:
    """Draw for each world the test success of every seed: untrained, fine-tuned, then trained on rewards."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    worlds = record["worlds"]
    figure = Figure(figsize=(3.2 * len(worlds), 3), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(worlds), sharey=True, squeeze=False)[0]
    for panel, (world, found) in zip(panels, worlds.items(), strict=True):
        success = found["success"]
        paths = []
        for seed in sorted(name.partition("-")[2] for name in success if name.startswith("sft-")):
            stages = [success.get(name) for name in ("untrained", f"sft-{seed}", f"marft-{seed}")]
            paths.append([value for value in stages if value is not None])
            panel.plot(paths[-1], "o-", alpha=0.4, label=f"seed {seed}")
        means = [sum(values) / len(values) for values in zip(*paths, strict=False)]
        panel.plot(means, "ks-", label="mean")
        panel.set(title=world, xlim=(-0.3, 2.3), ylim=(-0.02, 1.02))
        panel.set_xticks(range(3), ["untrained", "fine-tuned", "MARFT-A"])
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("success on test tasks")
    panels[-1].legend(fontsize=8)
    with path.open("wb") as stream:
        canvas.print_png(stream)


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or print the steps that are not done."""
    budget = Budget()
    parser = argparse.ArgumentParser(allow_abbrev=False, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--worlds", default=",".join(WORLDS), help="worlds, also recall (default: %(default)s)")
    parser.add_argument("--seeds", default="0,1,2", help="seeds (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="print the commands that are left, and do nothing")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the results that there are, and do nothing")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the record too")
    for name, value in vars(budget).items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(value), default=value, help="(default: %(default)s)")
    chosen = parser.parse_args(arguments)
    budget = Budget(**{name: getattr(chosen, name) for name in vars(budget)})
    worlds, seeds = chosen.worlds.split(","), [int(seed) for seed in chosen.seeds.split(",")]
    if chosen.record is not None:
        kept = _read(chosen.record)["worlds"] if chosen.record.is_file() else {}
        write_record(chosen.record, "sft_then_marft", {"worlds": kept | results(chosen.out, worlds, budget)})
        if chosen.plot is not None:
            plot(_read(chosen.record), chosen.plot)
        return 0
    marks: Path = chosen.out / "done"
    for step in steps(chosen.out, worlds, seeds, budget):
        mark = marks / step.name
        if mark.is_file():
            continue
        print("marft " + shlex.join(step.command()), flush=True)
        if not chosen.dry_run:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-m", "baselines.cli.main", *step.command()], check=True)
            marks.mkdir(parents=True, exist_ok=True)
            mark.write_text(f"{time.perf_counter() - started:.1f} s\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
