"""From 0 in the worlds of tools: fine-tuning on the oracle's episodes alone, and MARFT-A from there.

    python -m baselines.benchmarks.sft_then_marft --out runs/sft-marft [--worlds shop,desk,travel] [--seeds 0,1,2]
    python -m baselines.benchmarks.sft_then_marft --out runs/sft-marft --dry-run

Per world: the oracle plays the training tasks, their turns become a file, and the untrained team plays the test tasks.
Per seed: `marft sft`, an evaluation, `marft train --start-from` with the same seed, an evaluation. At the end
`marft compare` gives the paired differences over seeds with their intervals, as JSON files in the folder of the world.

Each step is a command of the suite in a process of its own. A finished step leaves a mark in `done`, so the same call
continues after a kill; a training that was cut off is resumed.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

WORLDS = ("shop", "desk", "travel")
ENV = "marft/tools_duo-v0"
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
    """

    model: str = "smollm2-135m"
    horizon: int = 16
    train_tasks: int = 48
    test_tasks: int = 32
    epochs: int = 2
    updates: int = 12
    groups: int = 4
    group_size: int = 4
    max_new_tokens: int = 64
    dtype: str = "auto"


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
    """Yield the steps of the experiment in order.

    Args:
        folder: Folder of the results.
        worlds: Worlds of the tasks.
        seeds: Seeds of fine-tuning and training.
        budget: Size of the experiment.
    """
    for world in worlds:
        home = folder / world
        env = ["--env", ENV, "--data", f"embedded:{world}", "--horizon", str(budget.horizon)]
        limit = ["--limit", str(budget.test_tasks)]
        yield _step(
            f"{world}-oracle",
            home / "oracle",
            ["eval", *env, "--split", "train", "--limit", str(budget.train_tasks), "--policy", "scripted"],
        )
        turns = home / "turns.jsonl"
        yield _step(f"{world}-turns", turns, ["data", "from-runs", str(home / "oracle"), "--where", "success"])
        model = ["--model", budget.model, "--dtype", budget.dtype, "--max-new-tokens", str(budget.max_new_tokens)]
        untrained = home / "untrained"
        yield _step(f"{world}-untrained", untrained, ["eval", *env, *limit, *model, "--temperature", "0.8"])
        for seed in seeds:
            sft, marft = home / f"sft-{seed}", home / f"marft-{seed}"
            length = ["--epochs", str(budget.epochs), "--seed", str(seed)]
            shown = ["sft", "--data", str(turns), *model, "--temperature", "0.8", *length]
            yield _step(f"{world}-sft-{seed}", sft, shown)
            yield _evaluation(f"{world}-sft-{seed}", sft, [*env, *limit])
            size = ["--groups", str(budget.groups), "--group-size", str(budget.group_size), "--micro-batch", "16"]
            length = ["--updates", str(budget.updates), "--policy-lr", "2e-4", "--seed", str(seed)]
            trained = ["train", *env, *model, "--algorithm", "marft-a", "--start-from", str(sft), *size, *length]
            yield _step(f"{world}-marft-{seed}", marft, trained)
            yield _evaluation(f"{world}-marft-{seed}", marft, [*env, *limit])
        sides = {kind: [str(home / f"{kind}-{seed}") for seed in seeds] for kind in ("sft", "marft")}
        for kind, before in (("sft", [str(untrained)]), ("marft", [str(untrained)]), ("marft", sides["sft"])):
            first = "untrained" if before == [str(untrained)] else "sft"
            file = home / f"{first}-against-{kind}.json"
            arguments = ("compare", "--a", *before, "--b", *sides[kind], "--json", str(file))
            yield Step(f"{world}-{first}-against-{kind}", arguments, file)


def _step(name: str, out: Path, arguments: Sequence[str]) -> Step:
    return Step(name, (*arguments, "--out", str(out)), out)


def _evaluation(name: str, run: Path, env: Sequence[str]) -> Step:
    return _step(f"{name}-evaluation", run / "evaluation", ["eval", *env, "--checkpoint", str(run)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or print the steps that are not done."""
    budget = Budget()
    parser = argparse.ArgumentParser(allow_abbrev=False, description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--worlds", default=",".join(WORLDS), help="worlds (default: %(default)s)")
    parser.add_argument("--seeds", default="0,1,2", help="seeds (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="print the commands that are left, and do nothing")
    for name, value in vars(budget).items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(value), default=value, help="(default: %(default)s)")
    chosen = parser.parse_args(arguments)
    budget = Budget(**{name: getattr(chosen, name) for name in vars(budget)})
    worlds, seeds = chosen.worlds.split(","), [int(seed) for seed in chosen.seeds.split(",")]
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
