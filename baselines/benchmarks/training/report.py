"""Results of the training benchmark as tables, ratios with targets, and JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from baselines.benchmarks.training.contender_process import Row
from baselines.benchmarks.training.plan import Results

HEADINGS = ("threads", "contender", "phase", "wall s", "CPU s", "tokens/s", "tokens/CPU s", "peak MB")


@dataclass(frozen=True)
class Target:
    """Planned comparison of two contenders on one workload.

    Attributes:
        what: Description of the comparison.
        phase: Phase that is compared.
        ours: Name of our contender.
        theirs: Name of the other contender.
        bound: Target of the ratio: a minimum for speed, a maximum for memory; None sets no target.
        memory: True compares peak memory, ours / theirs; False compares time, theirs / ours.
        also: Further phase that the other contender needs for the same work; empty for none.
        workload: Name of the workload.
    """

    what: str
    phase: str
    ours: str
    theirs: str
    bound: float | None = None
    memory: bool = False
    also: str = ""
    workload: str = "main"


@dataclass(frozen=True)
class Ratio:
    """Result of a comparison.

    Attributes:
        what: Description of the comparison.
        threads: Number of torch threads.
        wall: Ratio of wall times (or of peak memory).
        cpu: Ratio of CPU times (or of peak memory).
        bound: Target of the ratio, as in `Target`.
        met: True if the ratio of CPU times meets the target; None without a target.
    """

    what: str
    threads: int
    wall: float
    cpu: float
    bound: float | None
    met: bool | None


def _solo(size: int) -> Iterator[Target]:
    """Yield the comparisons of single-agent updates, with groups of `size` answers."""
    where, who = f"solo group-{size}", f"one agent, group of {size}: update,"
    yield Target(f"{who} speed against the reference's", "update", "ours-marft", "reference", 5.0, workload=where)
    for alike, ours, theirs in (("both checkpointing", "ours-lean", "trl"), ("neither", "ours", "trl-plain")):
        yield Target(f"{who} speed against TRL, {alike}", "update", ours, theirs, 3.0, workload=where)
        yield Target(f"{who} peak memory of TRL's, {alike}", "update", ours, theirs, 0.25, memory=True, workload=where)


TARGETS = (
    Target("update: speed against the reference's update alone", "update", "ours-marft", "reference", 5.0),
    Target(
        "from play to new weights, against the reference flow", "update", "ours-marft", "reference", 5.0, also="score"
    ),
    Target("update: speed against TRL", "update", "ours", "trl", 3.0),
    Target("update: speed against TRL, both checkpointing", "update", "ours-lean", "trl", 3.0),
    Target("update: speed against TRL, both without checkpointing", "update", "ours", "trl-plain", 3.0),
    Target("update: speed against CoMLRL", "update", "ours", "comlrl"),
    Target("rollout of 8 games: speed against HF generate", "rollout", "ours", "hf", 2.5),
    Target("rollout of 32 games: speed against HF generate", "rollout", "ours", "hf", 2.5, workload="problems-4"),
    Target("rollout of 64 games: speed against HF generate", "rollout", "ours", "hf", 2.5, workload="problems-8"),
    Target("rollout: speed against TRL", "rollout", "ours", "trl"),
    Target("update: peak memory of TRL's", "update", "ours", "trl", 0.25, memory=True),
    Target("update: peak memory of TRL's, both checkpointing", "update", "ours-lean", "trl", 0.25, memory=True),
    Target(
        "update: peak memory of TRL's, both without checkpointing", "update", "ours", "trl-plain", 0.25, memory=True
    ),
    Target("update: peak memory of CoMLRL's", "update", "ours", "comlrl", memory=True),
    Target("update: peak memory of the reference's", "update", "ours-marft", "reference", memory=True),
    *_solo(8),
    *_solo(16),
)
FLAT = 1.15  # maximum cost per agent in the largest team, relative to a duo


def best(rows: Sequence[Row]) -> list[Row]:
    """Return the fastest repetition of each measurement, with the highest peak memory of all repetitions."""
    found: dict[tuple[str, int, str, str], Row] = {}
    for row in rows:
        key = (row.workload, row.threads, row.phase, row.contender)
        peaks = [r.peak_mb for r in (row, found.get(key, row)) if r.peak_mb is not None]
        fastest = min(row, found.get(key, row), key=lambda r: r.wall_s)
        found[key] = Row(**{**vars(fastest), "peak_mb": max(peaks, default=None)})
    return list(found.values())


def ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Yield the comparisons of `TARGETS` that were measured."""
    measured = {(row.workload, row.threads, row.phase, row.contender): row for row in best(rows)}
    for target in TARGETS:
        for threads in sorted({key[1] for key in measured}):
            ours = measured.get((target.workload, threads, target.phase, target.ours))
            theirs = measured.get((target.workload, threads, target.phase, target.theirs))
            further = measured.get((target.workload, threads, target.also, target.theirs))
            if ours is None or theirs is None or (target.also and further is None):
                continue
            if not target.memory:
                wall = (theirs.wall_s + (further.wall_s if further else 0.0)) / ours.wall_s
                cpu = (theirs.cpu_s + (further.cpu_s if further else 0.0)) / ours.cpu_s
            elif ours.peak_mb is not None and theirs.peak_mb:
                wall = cpu = ours.peak_mb / theirs.peak_mb
            else:
                continue
            yield Ratio(target.what, threads, wall, cpu, target.bound, _met(cpu, target.bound, target.memory))


def per_agent(rows: Sequence[Row], teams: Mapping[int, str]) -> Iterator[Ratio]:
    """Yield the cost per agent in the largest team relative to that in a duo."""
    if len(teams) < 2:
        return
    largest = max(teams)
    duo = min((size for size in teams if size > 1), default=largest)
    measured = {(row.workload, row.phase, row.contender): row for row in best(rows)}
    for (workload, phase, contender), big in measured.items():
        small = measured.get((teams[duo], phase, contender))
        if workload == teams[largest] and small is not None and duo != largest:
            wall = big.wall_s / largest / (small.wall_s / duo)
            cpu = big.cpu_s / largest / (small.cpu_s / duo)
            bound = FLAT if contender.startswith("ours") else None
            what = f"{phase}: cost per agent, team of {largest} over team of {duo}, {contender}"
            yield Ratio(what, big.threads, wall, cpu, bound, _met(cpu, bound, below=True))


def _met(ratio: float, bound: float | None, below: bool) -> bool | None:
    if bound is None:
        return None
    return ratio <= bound if below else ratio >= bound


def cells(row: Row) -> tuple[str, ...]:
    """Return a measurement as table cells, in the order of `HEADINGS`."""
    peak = "?" if row.peak_mb is None else f"{row.peak_mb:,.0f}"
    speeds = (f"{row.tokens / row.wall_s:.1f}", f"{row.tokens / row.cpu_s:.1f}")
    return (str(row.threads), row.contender, row.phase, f"{row.wall_s:.1f}", f"{row.cpu_s:.1f}", *speeds, peak)


def ratio_cells(ratio: Ratio) -> tuple[str, ...]:
    """Return a comparison as table cells."""
    bound = "" if ratio.bound is None else f"{ratio.bound:g}"
    met = {None: "", True: "yes", False: "no"}[ratio.met]
    return ratio.what, str(ratio.threads), f"{ratio.wall:.2f}", f"{ratio.cpu:.2f}", bound, met


def tables(results: Results) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Yield title, headings and rows of each table."""
    rows = best(results.rows)
    main = sorted((row for row in rows if row.workload == "main"), key=lambda r: (r.threads, r.phase))
    yield "Side by side", HEADINGS, [cells(row) for row in main]
    made = [*ratios(results.rows), *per_agent(results.rows, results.axes.get("team", {}))]
    headings = ("ratio", "threads", "by wall", "by CPU", "target", "met")
    yield "Ratios", headings, [ratio_cells(ratio) for ratio in made]
    measured = {(row.workload, row.phase, row.contender): row for row in rows}
    for axis, names in results.axes.items():
        series = list(dict.fromkeys((r.phase, r.contender) for r in rows if r.workload in names.values()))
        for title, figure in (("CPU seconds", _cpu), ("peak MB above rest", _peak)):
            lines = []
            for phase, contender in sorted(series, key=lambda pair: pair[0]):
                figures = [figure(measured.get((name, phase, contender))) for name in names.values()]
                lines.append((phase, contender, *figures))
            sizes = []
            for size, name in names.items():
                prompt = f"{results.workloads[name]['prompt_mean']:.0f} tokens"
                sizes.append(prompt if axis == "prompt" else f"{size:,}")
            yield f"Growth with {axis}: {title}", ("phase", "contender", *sizes), lines


def _cpu(row: Row | None) -> str:
    return "" if row is None else f"{row.cpu_s:.1f}"


def _peak(row: Row | None) -> str:
    return "" if row is None or row.peak_mb is None else f"{row.peak_mb:,.0f}"


def markdown(results: Results) -> str:
    """Return the tables as Markdown."""
    parts = []
    for title, headings, lines in tables(results):
        rows = [f"| {' | '.join(cell)} |" for cell in lines]
        parts.append(
            "\n".join([f"### {title}", "", f"| {' | '.join(headings)} |", "|---" * len(headings) + "|", *rows])
        )
    return "\n\n".join(parts)


def show(results: Results, write: Callable[[Any], None]) -> None:
    """Print the tables on the terminal, and the contenders that did not run."""
    from rich.table import Table

    for title, headings, lines in tables(results):
        table = Table(*headings, title=title)
        for cell in lines:
            table.add_row(*cell)
        write(table)
    for name, why in results.refused.items():
        write(f"{name} did not run: {why}")


def record(results: Results, command: str, seconds: float) -> dict[str, Any]:
    """Return all results as a record for JSON."""
    made = [*ratios(results.rows), *per_agent(results.rows, results.axes.get("team", {}))]
    return {
        "command": command,
        "seconds": seconds,
        "machine": machine(),
        "versions": results.versions,
        "refused": results.refused,
        "workloads": results.workloads,
        "axes": results.axes,
        "ratios": [asdict(ratio) for ratio in made],
        "rows": [asdict(row) for row in results.rows],
    }


def machine() -> dict[str, Any]:
    """Return the machine's system, cores, processor and memory."""
    found: dict[str, Any] = {"system": f"{platform.system()} {platform.release()}", "cores": os.cpu_count()}
    facts = {"/proc/cpuinfo": ("model name", "processor"), "/proc/meminfo": ("MemTotal", "memory")}
    for file, (field, name) in facts.items():
        if Path(file).is_file():
            lines = Path(file).read_text(encoding="utf-8").splitlines()
            found[name] = next((one.split(":", 1)[1].strip() for one in lines if one.startswith(field)), None)
    return found
