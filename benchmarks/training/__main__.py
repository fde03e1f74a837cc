"""Command line of the training benchmark."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from baselines.results.visible_console import console
from benchmarks.machine import write_record
from benchmarks.training.contenders import CONTENDERS
from benchmarks.training.page import write_page
from benchmarks.training.plan import FULL, QUICK, execute
from benchmarks.training.preparation import Preparation
from benchmarks.training.report import record, show


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, show and write the results; return exit code 1 if a requested contender did not run, else 0."""
    given = _parser().parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="bench_training_")) if given.out is None else given.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    plan = QUICK if given.quick else FULL
    if given.profile:
        from benchmarks.training.cpu_profile import breakdown

        with Preparation(given.model, folder, plan.threads) as preparation:
            path = preparation.workload("main", plan.main)
        print(breakdown(path, min(plan.rounds)))
        return 0
    started = time.perf_counter()
    results = execute(
        plan, given.contenders, given.model, folder, lambda text: print(text, file=sys.stderr, flush=True)
    )
    show(results, console().print)
    if given.json is not None:
        write_record(given.json, "training", record(results, time.perf_counter() - started))
        write_page(given.json.with_suffix(".md"), results, json.loads(given.json.read_text(encoding="utf-8")))
    return int(any(name in results.refused for name in given.contenders))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Rollouts and updates of several trainers on the same work.")
    parser.add_argument("--quick", action="store_true", help="a small workload once, without growth")
    parser.add_argument(
        "--contenders", type=_names, default=list(CONTENDERS), metavar="A,B", help=", ".join(CONTENDERS)
    )
    parser.add_argument("--model", default="smollm2-135m", help="of all contenders (default: smollm2-135m)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the numbers here, page and picture beside them"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="for workloads, logs and measurements; a run continues where it ended (default: a temporary one)",
    )
    parser.add_argument("--profile", action="store_true", help="say where the time of one update of ours goes instead")
    return parser


def _names(text: str) -> list[str]:
    unknown = [name for name in text.split(",") if name not in CONTENDERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"found {', '.join(unknown)}, wanted some of {', '.join(CONTENDERS)}")
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
