"""Quickstart results over seeds: Markdown tables (all problems, by kind) and a plot.

Intervals are 95 %. The first table begins with the smallest gain. Kinds are the column `subject` of the stories.

`python -m baselines.quickstart_table runs/quickstart-seed-* [--png docs/quickstart.png]`
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import envs_data
from baselines.cli.main import guarded
from baselines.cli.terminal import say
from baselines.experiment.learning_curve import Points, draw_curve
from baselines.results.statistics import grid_mean, paired_difference
from marft_agents.runs.evaluation import Interval, wilson
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.run_folder import read_metrics

COMMAND = "make quickstart ARGS='--seed {seed}'"
_UNSEEN = wilson(0.0, 0)  # interval of a kind without scored episodes


def read_summary(run: Path) -> dict[str, Any]:
    """Read the quickstart.json of a run folder.

    Raises:
        RunFolderError: The folder holds no finished quickstart.
    """
    file = run / "quickstart.json"
    if not file.is_file():
        raise RunFolderError(f"{run} holds no finished quickstart: {file.name} is missing; run {COMMAND}")
    summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return summary


def table(summaries: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table with a row per run, the smallest gain first."""
    lines = ["| what | before | after | paired gain | command |", "|---|---|---|---|---|"]
    for summary in sorted(summaries, key=lambda s: float(s["paired_gain"][0])):
        cells = [str(Interval(*summary[name])) for name in ("before", "after", "paired_gain")]
        what = f"duo on held-out `stories`, greedy, seed {summary['seed']}"
        lines.append(f"| {what} | {' | '.join(cells)} | `{COMMAND.format(seed=summary['seed'])}` |")
    return "\n".join(lines)


def row_of_all(runs: Sequence[Path]) -> str:
    """Return the row of the mean over seeds, with the intervals of `marft bench`: over seeds and problems.

    Args:
        runs: Run folders of finished quickstarts, at least two.
    """
    scores = {}
    for evaluation in ("before", "after"):
        files = [run / evaluation / "evaluation.json" for run in runs]
        records = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        scores[evaluation] = [np.asarray(record["scores"], np.float64).ravel() for record in records]
    gain = paired_difference(scores["before"], scores["after"])
    cells = [str(grid_mean(scores[evaluation])) for evaluation in ("before", "after")]
    p_value = "p < 0.001" if gain.p_value < 0.001 else f"p = {gain.p_value:.3f}"
    cells.append(f"{gain.interval}; {p_value}, MDE {gain.detectable:.3f}")
    return f"| mean of {len(runs)} seeds | {' | '.join(cells)} | |"


def read_kinds(run: Path, evaluation: str) -> dict[str, Interval]:
    """Return the accuracy by kind of held-out problem, over the episodes of an evaluation that did not fail.

    Args:
        run: Run folder of a finished quickstart.
        evaluation: Name of an evaluation, "before" or "after".

    Raises:
        RunFolderError: The folder does not hold the episodes.
    """
    file = run / evaluation / "episodes.jsonl"
    if not file.is_file():
        raise RunFolderError(f"{run} holds no episodes of {evaluation}: {file} is missing; run {COMMAND}")
    problems = envs_data.rows("stories", "test")
    successes: dict[str, list[float]] = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines():
        episode = json.loads(line)
        if episode["failure"] is None:
            kind = problems[int(episode["infos"]["task_index"])]["subject"]
            successes[kind].append(float(episode["infos"]["success"]))
    return {kind: wilson(sum(found) / len(found), len(found)) for kind, found in successes.items()}


def table_by_kind(runs: Mapping[int, Path]) -> str:
    """Return a Markdown table of accuracy by kind of problem and seed.

    Args:
        runs: Run folders of finished quickstarts by seed.
    """
    lines = ["| kind of problem | seed | before | after |", "|---|---:|---|---|"]
    rows = []
    for seed, run in runs.items():
        before, after = read_kinds(run, "before"), read_kinds(run, "after")
        rows += [(kind, seed, before.get(kind, _UNSEEN), after[kind]) for kind in after]
    lines += [f"| {' | '.join(map(str, row))} |" for row in sorted(rows, key=lambda row: row[:2])]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and plot the learning curves."""
    parser = argparse.ArgumentParser(prog="python -m baselines.quickstart_table", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders of finished quickstarts")
    parser.add_argument("--png", type=Path, help="also draw all learning curves")
    given = parser.parse_args(arguments)

    def work() -> int:
        summaries = [read_summary(run) for run in given.runs]
        say(table(summaries))
        if len(given.runs) > 1:
            say(row_of_all(given.runs))
        say()
        say(table_by_kind({int(s["seed"]): run for s, run in zip(summaries, given.runs, strict=True)}))
        if given.png is not None:
            labels = [f"seed {summary['seed']}" for summary in summaries]
            points = [Points(Interval(*s["before"]), Interval(*s["after"])) for s in summaries]
            draw_curve(
                {label: read_metrics(run) for label, run in zip(labels, given.runs, strict=True)},
                given.png,
                held_out=dict(zip(labels, points, strict=True)),
                title="quickstart: reasoner -> actor under one shared reward (points: 200 held-out problems)",
            )
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
