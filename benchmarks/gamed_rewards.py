"""A reward that pays for claims: what a team learns from it, and from rewards that stop it; table and curves.

    python -m benchmarks.gamed_rewards [--seeds 0,1,2] [--updates 32] [--json FILE]

Teams of a tiny random model play the probe game `baselines.probes.claimed_chores`, one team for each reward and seed.
A training takes about 15 seconds of one core. The record is written after each one, so a second call goes on where one
was ended. The page docs/gamed_rewards.md shows it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baselines.bench.learns import SETTINGS
from baselines.experiment.experiment import Experiment
from baselines.probes.claimed_chores import CHORES, REWARDS, TERMS, WORDS, reward_of
from benchmarks.machine import write_record
from marft_agents.models.random_models import OWN_WORDS
from marft_agents.runs.trainer import Trainer

ENV = "baselines.probes.claimed_chores:probe/claimed_duo-v0"
RECORD = Path(__file__).parents[1] / "docs" / "benchmarks" / "gamed_rewards.json"
MEASURES = {"paid": "team/return", **{term: f"team/term_{term}" for term in TERMS}, "success": "team/success"}
LAST = 4  # updates whose mean is the end of a curve
Curves = Mapping[str, Sequence[float]]
"""Mean of each measure over the episodes of each update."""


def train(name: str, seed: int, updates: int) -> dict[str, list[float]]:
    """Train a team from random weights; return its curves.

    Args:
        name: Name of the reward, of `REWARDS`.
        seed: Seed of the training.
        updates: Number of updates, 128 episodes each.
    """
    settings = {**SETTINGS, "seed": seed, "max_new_tokens": CHORES, "models": OWN_WORDS + " ".join(WORDS)}
    experiment = Experiment(ENV, keywords={"reward": reward_of(REWARDS[name])}, updates=updates, **settings)
    make_env, team, learner = experiment.build()
    trainer = Trainer(make_env, team, learner, experiment.schedule)
    curves: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    while not trainer.over:
        metrics = trainer.step()
        for measure, key in MEASURES.items():
            curves[measure].append(round(metrics[key], 4))
    return curves


def table(trainings: Mapping[str, Sequence[Curves]]) -> str:
    """Return the Markdown table: means of the last updates over seeds, with the smallest and the largest seed."""
    lines = [
        "| reward | seeds | paid | claimed | done | false claims | both done |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, seeds in trainings.items():
        cells = []
        for measure in ("paid", "claimed", "done", "false", "success"):
            ends = [float(np.mean(curves[measure][-LAST:])) for curves in seeds]
            cells.append(f"{np.mean(ends):.2f} [{min(ends):.2f}, {max(ends):.2f}]")
        lines.append(f"| {name} | {len(seeds)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(trainings: Mapping[str, Sequence[Curves]], path: Path) -> None:
    """Plot what is claimed and what is done by update, a panel for each reward; the band is that of the seeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3 * len(trainings), 3.2), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(trainings), sharey=True, squeeze=False)[0]
    for panel, (name, seeds) in zip(panels, trainings.items(), strict=True):
        for measure, colour in (("claimed", "C3"), ("done", "C0")):
            curves = np.asarray([one[measure] for one in seeds])  # [seeds, updates]
            updates = np.arange(1, curves.shape[1] + 1)
            panel.plot(updates, curves.mean(axis=0), color=colour, label=measure)
            panel.fill_between(updates, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.2)
        panel.set_title(name, fontsize=8)
        panel.set(xlabel="update", ylim=(0, 1.02))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("share of the chores")
    panels[0].legend(loc="center right", fontsize=8)
    with path.open("wb") as stream:
        canvas.print_png(stream)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, write the record and the picture, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gamed_rewards", description=__doc__)
    parser.add_argument("--seeds", default="0,1,2", help="seeds of the trainings (default: %(default)s)")
    parser.add_argument("--updates", type=int, default=32, help="updates of a training (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=RECORD, help="record to go on with (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    known: dict[str, Any] = json.loads(chosen.json.read_text("utf-8")) if chosen.json.exists() else {}
    if known and known["updates"] != chosen.updates:
        parser.error(f"{chosen.json} has trainings of {known['updates']} updates, found --updates {chosen.updates}")
    trainings: dict[str, dict[str, Curves]] = known.get("trainings", {})
    for seed in chosen.seeds.split(","):
        for name in REWARDS:
            of_reward = trainings.setdefault(name, {})
            if seed not in of_reward:
                of_reward[seed] = train(name, int(seed), chosen.updates)
                write_record(chosen.json, "gamed_rewards", {"updates": chosen.updates, "trainings": trainings})
                print(f"{name}, seed {seed}", flush=True)
    by_reward = {name: list(trainings[name].values()) for name in REWARDS}
    draw(by_reward, chosen.json.with_suffix(".png"))
    print(table(by_reward))


if __name__ == "__main__":
    main()
