"""Results of the training benchmark as tables, ratios with targets, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from benchmarks.training.contender_process import Row
from benchmarks.training.plan import Results

HEADINGS = ("threads", "contender", "phase", "repetitions", "wall s", "CPU s", "from", "to", "tokens/CPU s", "peak MB")


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
    """Result of a comparison: medians over repetitions, each with the ratio of the figures that were taken in turn.

    Attributes:
        what: Description of the comparison.
        threads: Number of torch threads.
        repetitions: Number of ratios.
        wall: Median ratio of wall times (or of peak memory).
        cpu: Median ratio of CPU times (or of peak memory).
        low: Smallest ratio of CPU times.
        high: Largest ratio of CPU times.
        bound: Target of the ratio, as in `Target`.
        met: True if the ratio of CPU times meets the target; None without a target.
    """

    what: str
    threads: int
    repetitions: int
    wall: float
    cpu: float
    low: float
    high: float
    bound: float | None
    met: bool | None


def _solo(size: int) -> Iterator[Target]:
    """Yield the comparisons of single-agent updates, with groups of `size` answers."""
    where, who = f"solo group-{size}", f"one agent, group of {size}: update,"
    yield Target(f"{who} speed against the reference's", "update", "ours-marft", "reference", 5.0, workload=where)
    for alike, ours, theirs in (("both checkpointing", "ours-lean", "trl"), ("neither", "ours-plain", "trl-plain")):
        yield Target(f"{who} speed against TRL, {alike}", "update", ours, theirs, 3.0, workload=where)
        yield Target(f"{who} peak memory of TRL's, {alike}", "update", ours, theirs, 0.25, memory=True, workload=where)


TARGETS = (
    Target("update: speed against the reference's update alone", "update", "ours-marft", "reference", 5.0),
    Target(
        "from play to new weights, against the reference flow", "update", "ours-marft", "reference", 5.0, also="score"
    ),
    Target("update: speed against TRL", "update", "ours", "trl", 3.0),
    Target("update: speed against TRL, both checkpointing", "update", "ours-lean", "trl", 3.0),
    Target("update: speed against TRL, both without checkpointing", "update", "ours-plain", "trl-plain", 3.0),
    Target("update: speed against CoMLRL", "update", "ours", "comlrl"),
    Target("rollout of 8 games: speed against HF generate", "rollout", "ours", "hf", 2.5),
    Target("rollout of 32 games: speed against HF generate", "rollout", "ours", "hf", 2.5, workload="problems-4"),
    Target("rollout of 64 games: speed against HF generate", "rollout", "ours", "hf", 2.5, workload="problems-8"),
    Target("rollout: speed against TRL", "rollout", "ours", "trl"),
    Target("update: peak memory of TRL's", "update", "ours", "trl", 0.25, memory=True),
    Target("update: peak memory of TRL's, both checkpointing", "update", "ours-lean", "trl", 0.25, memory=True),
    Target(
        "update: peak memory of TRL's, both without checkpointing",
        "update",
        "ours-plain",
        "trl-plain",
        0.25,
        memory=True,
    ),
    Target("update: peak memory of CoMLRL's", "update", "ours", "comlrl", memory=True),
    Target("update: peak memory of the reference's", "update", "ours-marft", "reference", memory=True),
    Target("fine-tuning on the same actions: speed against an update of GRPO", "update", "ours-sft", "ours", 1.0),
    *_solo(8),
    *_solo(16),
    Target("bfloat16, GRPO: update, speed against float32", "update", "ours-bf16", "ours", 2.2),
    Target("bfloat16, MARFT-A: update, speed against float32", "update", "ours-marft-bf16", "ours-marft", 2.2),
    Target("bfloat16, rollout of 8 games: speed against float32", "rollout", "ours-bf16", "ours", 2.0),
    Target("bfloat16: update, speed against the reference in float32", "update", "ours-marft-bf16", "reference", 10.0),
    Target("bfloat16, update: speed against TRL in bfloat16", "update", "ours-bf16", "trl-bf16"),
    Target("bfloat16, update: speed against CoMLRL in bfloat16", "update", "ours-bf16", "comlrl-bf16"),
    Target("bfloat16, update: peak memory of TRL's in bfloat16", "update", "ours-bf16", "trl-bf16", memory=True),
    Target("bfloat16, rollout of 8 games: speed against HF generate in bfloat16", "rollout", "ours-bf16", "hf-bf16"),
    Target("bfloat16, rollout of 8 games: speed against HF generate in float32", "rollout", "ours-bf16", "hf"),
)
FLAT = 1.15  # maximum cost per agent in the largest team, relative to a duo


Key = tuple[str, int, str, str]  # workload, threads, phase, contender


def repeated(rows: Sequence[Row]) -> dict[Key, list[Row]]:
    """Return the repetitions of each measurement in the order in which they were made."""
    found: dict[Key, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.repetition):
        found.setdefault((row.workload, row.threads, row.phase, row.contender), []).append(row)
    return found


def typical(rows: Sequence[Row]) -> list[Row]:
    """Return each measurement once: median times of its repetitions, with the highest peak memory."""
    found = []
    for repetitions in repeated(rows).values():
        wall, cpu = median(row.wall_s for row in repetitions), median(row.cpu_s for row in repetitions)
        peaks = [row.peak_mb for row in repetitions if row.peak_mb is not None]
        found.append(replace(repetitions[0], wall_s=wall, cpu_s=cpu, peak_mb=max(peaks, default=None)))
    return found


def ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Yield the comparisons of `TARGETS` that were measured."""
    measured = repeated(rows)
    for target in TARGETS:
        for threads in sorted({key[1] for key in measured}):
            ours = measured.get((target.workload, threads, target.phase, target.ours), [])
            theirs = measured.get((target.workload, threads, target.phase, target.theirs), [])
            further = measured.get((target.workload, threads, target.also, target.theirs), [])
            if not ours or not theirs or (target.also and not further):
                continue
            pairs = list(zip(ours, theirs, strict=False))  # a contender that ended early has fewer
            if target.memory:
                peaks = [(own.peak_mb, other.peak_mb) for own, other in pairs]
                wall = cpu = [own / other for own, other in peaks if own is not None and other]
            else:
                wall = [(other.wall_s + sum(row.wall_s for row in further)) / own.wall_s for own, other in pairs]
                cpu = [(other.cpu_s + sum(row.cpu_s for row in further)) / own.cpu_s for own, other in pairs]
            if cpu:
                yield _ratio(target.what, threads, wall, cpu, target.bound, below=target.memory)


def per_agent(rows: Sequence[Row], teams: Mapping[int, str]) -> Iterator[Ratio]:
    """Yield the cost per agent in larger teams relative to that in a duo."""
    measured = repeated(rows)
    if 2 not in teams:
        return
    for size in sorted(size for size in teams if size > 2):
        for (workload, threads, phase, contender), big in measured.items():
            small = measured.get((teams[2], threads, phase, contender))
            if workload != teams[size] or small is None:
                continue
            pairs = list(zip(big, small, strict=False))  # the largest team is measured once
            wall = [(large.wall_s / size) / (duo.wall_s / 2) for large, duo in pairs]
            cpu = [(large.cpu_s / size) / (duo.cpu_s / 2) for large, duo in pairs]
            bound = FLAT if contender.startswith("ours") and size == 8 else None
            what = f"{phase}: cost per agent, team of {size} over team of 2, {contender}"
            yield _ratio(what, threads, wall, cpu, bound, below=True)


def _ratio(
    what: str, threads: int, wall: Sequence[float], cpu: Sequence[float], bound: float | None, *, below: bool
) -> Ratio:
    middle = median(cpu)
    met = _met(middle, bound, below)
    return Ratio(what, threads, len(cpu), median(wall), middle, min(cpu), max(cpu), bound, met)


def all_ratios(results: Results) -> list[Ratio]:
    """Return the comparisons of `TARGETS` and the costs per agent that were measured."""
    teams = results.axes.get("per agent", {}) | results.axes.get("large team", {})
    return [*ratios(results.rows), *per_agent(results.rows, teams or results.axes.get("team", {}))]


def _met(ratio: float, bound: float | None, below: bool) -> bool | None:
    if bound is None:
        return None
    return ratio <= bound if below else ratio >= bound


def cells(repetitions: Sequence[Row]) -> tuple[str, ...]:
    """Return a measurement as table cells, in the order of `HEADINGS`."""
    (row,) = typical(repetitions)
    cpu = [one.cpu_s for one in repetitions]
    peak = "?" if row.peak_mb is None else f"{row.peak_mb:,.0f}"
    times = (f"{row.wall_s:.1f}", f"{row.cpu_s:.1f}", f"{min(cpu):.1f}", f"{max(cpu):.1f}")
    return (
        str(row.threads), row.contender, row.phase, str(len(cpu)), *times, f"{row.tokens / row.cpu_s:.1f}", peak
    )  # fmt: skip


def ratio_cells(ratio: Ratio) -> tuple[str, ...]:
    """Return a comparison as table cells."""
    bound = "" if ratio.bound is None else f"{ratio.bound:g}"
    met = {None: "", True: "yes", False: "no"}[ratio.met]
    spread = f"{ratio.cpu:.2f}" + (f" [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio.repetitions > 1 else "")
    return ratio.what, str(ratio.threads), str(ratio.repetitions), f"{ratio.wall:.2f}", spread, bound, met


def tables(results: Results) -> Iterator[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Yield title, headings and rows of each table."""
    rows = typical(results.rows)
    main = [group for group in repeated(results.rows).values() if group[0].workload == "main"]
    yield "Side by side", HEADINGS, [cells(group) for group in sorted(main, key=lambda g: (g[0].threads, g[0].phase))]
    made = all_ratios(results)
    headings = ("ratio", "threads", "repetitions", "by wall", "by CPU", "target", "met")
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


def record(results: Results, seconds: float) -> dict[str, Any]:
    """Return all results as a record for JSON."""
    return {
        "seconds": seconds,
        "versions": results.versions,
        "refused": results.refused,
        "workloads": results.workloads,
        "axes": results.axes,
        "ratios": [asdict(ratio) for ratio in all_ratios(results)],
        "rows": [asdict(row) for row in results.rows],
    }
