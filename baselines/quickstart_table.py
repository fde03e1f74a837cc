"""The quickstart's results over seeds: a Markdown table, worst run first, and one picture of all curves.

`python -m baselines.quickstart_table runs/quickstart-seed-* [--png docs/quickstart.png]`
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baselines.command import guarded
from baselines.curve import Points, draw_curve
from marft_agents.evaluation import Interval
from marft_agents.run_folder import RunFolderError, read_metrics

COMMAND = "make quickstart ARGS='--seed {seed}'"


def read_summary(run: Path) -> dict[str, Any]:
    """Return the quickstart.json of a run folder.

    Raises:
        RunFolderError: the folder holds no finished quickstart.
    """
    file = run / "quickstart.json"
    if not file.is_file():
        raise RunFolderError(f"{run} holds no finished quickstart: {file.name} is missing; run {COMMAND}")
    summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return summary


def table(summaries: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown table, a line per run and way of decoding, the smallest gain first."""
    lines = ["| what | before | after | paired gain | command |", "|---|---|---|---|---|"]
    for how in ("greedy", "sampled"):
        for summary in sorted(summaries, key=lambda s: float(s[how]["paired_gain"][0])):
            cells = [str(Interval(*summary[how][name])) for name in ("before", "after", "paired_gain")]
            what = f"duo on held-out `stories`, {how}, seed {summary['seed']}"
            lines.append(f"| {what} | {' | '.join(cells)} | `{COMMAND.format(seed=summary['seed'])}` |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and draw the picture."""
    parser = argparse.ArgumentParser(prog="python -m baselines.quickstart_table", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders of finished quickstarts")
    parser.add_argument("--png", type=Path, help="also draw all learning curves")
    given = parser.parse_args(arguments)

    def work() -> int:
        summaries = [read_summary(run) for run in given.runs]
        print(table(summaries))
        if given.png is not None:
            labels = [f"seed {summary['seed']}" for summary in summaries]
            points = [Points(Interval(*s["sampled"]["before"]), Interval(*s["sampled"]["after"])) for s in summaries]
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
