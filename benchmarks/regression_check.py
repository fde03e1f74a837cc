"""Regression guard: a quick run of the ratios that users rely on, compared with the last committed run.

    python -m benchmarks.regression_check [--repetitions 3] [--record]

Both sides of a ratio take turns on this machine, so ratios of two machines differ less than their seconds. The
committed run is `docs/benchmarks/guard.json`, which `--record` writes. The exit code is 1 if a ratio fell below its
share of the committed one: 0.8 on a processor of the same name, 0.5 on another.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import envs, judge
from benchmarks.machine import described, machine, write_record
from benchmarks.ratio_page import FOLDER
from benchmarks.training.plan import SHORT, Plan, execute
from benchmarks.training.report import repeated

RECORD = FOLDER / "guard.json"
SAME, OTHER = 0.8, 0.5  # smallest share of the committed ratio, on a processor of the same name and on another
TRAINING = {  # phase, and the two contenders of `make bench-train`
    "update of MARFT-A: speed against the reference's": ("update", "ours-marft", "reference"),
    "rollout of 4 games: speed against generate": ("rollout", "ours", "hf"),
}


def measured(repetitions: int, model: str, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Return the ratios by name, one for each repetition; above 1 ours is faster.

    Args:
        repetitions: Repetitions of each ratio.
        model: Name of the model for updates and rollouts.
        say: Receives a line of text for each step.
    """
    found = training(repetitions, model, say)
    with tempfile.TemporaryDirectory() as folder:
        found["judged Python test: speed against a subprocess"] = list(judged(repetitions, Path(folder)))
    found["turns of a duo, for each turn of a bare loop"] = list(turns(repetitions))
    return found


def training(repetitions: int, model: str, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Return the ratios of `TRAINING` on a small workload."""
    names = sorted({name for _, *pair in TRAINING.values() for name in pair})
    with tempfile.TemporaryDirectory() as folder:
        rows = execute(Plan(SHORT, {1: repetitions}), names, model, Path(folder), say).rows
    made = repeated(rows)
    found = {}
    for what, (phase, ours, theirs) in TRAINING.items():
        pairs = zip(made["main", 1, phase, ours], made["main", 1, phase, theirs], strict=True)
        found[what] = [other.cpu_s / own.cpu_s for own, other in pairs]
    return found


def judged(repetitions: int, folder: Path) -> Iterator[float]:
    """Yield the CPU time of a plain subprocess over that of a test judged by the backend `landlock`."""
    for _ in range(repetitions):
        beside = judge.plain("python", 1, 50, folder)
        own = judge.judged("landlock", judge.DEFAULT_IMAGE, "python", 1, 50)
        yield (beside.cpu_s / beside.tests) / (own.cpu_s / own.tests)


def turns(repetitions: int) -> Iterator[float]:
    """Yield turns of a duo from `make` over rounds of a loop of the same interpreter, in equal CPU time."""
    games = envs.configurations()["duo, horizon 1, make (AEC)"]
    for _ in range(repetitions):
        speed = envs.measure("duo", games, 0.5).turns_per_cpu_s
        start = time.process_time()
        rounds = sum(len(json.dumps({"turn": number, "agents": ["a", "b"]})) > 0 for number in range(50_000))
        yield speed / (rounds / (time.process_time() - start))


def compare(found: Mapping[str, Sequence[float]], committed: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Return a line for each ratio that fell below its share of the committed one.

    Args:
        found: Ratios of this run by name.
        committed: The committed record.
        here: Description of this machine.
    """
    share = SAME if committed["machine"].get("processor") == here.get("processor") else OTHER
    failures = []
    for name, values in found.items():
        before = median(committed["ratios"][name]) if name in committed["ratios"] else None
        if before is not None and median(values) < share * before:
            failures.append(f"{name}: {median(values):.2f}, wanted at least {share:g} of the committed {before:.2f}")
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and compare; return exit code 1 if a ratio fell."""
    parser = argparse.ArgumentParser(description="Quick ratios, compared with the last committed run.")
    parser.add_argument("--repetitions", type=int, default=3, help="of each ratio (default: 3)")
    parser.add_argument("--model", default="smollm2-135m", help="for updates and rollouts (default: smollm2-135m)")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name} instead of comparing with it")
    given = parser.parse_args(arguments)
    if not given.record and not RECORD.is_file():
        parser.error(f"there is no committed run to compare with: --record writes {RECORD.name}")
    found = measured(given.repetitions, given.model, lambda text: print(text, file=sys.stderr, flush=True))
    for name, values in found.items():
        print(f"{name}: {median(values):.2f} [{min(values):.2f}, {max(values):.2f}]")
    if given.record:
        write_record(RECORD, "regression_check", {"ratios": found})
        return 0
    committed = json.loads(RECORD.read_text(encoding="utf-8"))
    print(f"committed: {described(committed['machine'])}")
    failures = compare(found, committed, machine())
    for line in failures:
        print(f"slower than committed: {line}", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
