"""Write the benchmark's page: update tables and figure between two markers, keep the text around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import described
from benchmarks.training.contender_process import Row
from benchmarks.training.plan import Results
from benchmarks.training.report import markdown, typical

FIGURES: Mapping[str, Callable[[Row], float | None]] = {
    "CPU seconds of an update": lambda row: row.cpu_s,
    "peak MB of an update above rest": lambda row: row.peak_mb,
}
BEGIN, END = "<!-- results -->", "<!-- end of results -->"


def write_page(path: Path, results: Results, facts: Mapping[str, Any]) -> None:
    """Write the results between the markers of a page and the figure beside it; create a missing page."""
    picture = path.with_suffix(".png")
    draw(picture, results)
    before, after = "", ""
    if path.is_file():
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
    made = (f"`{facts['command']}`", facts.get("commit") or "unknown", f"{facts['seconds'] / 60:.0f}")
    told = [
        "| command | commit | minutes | machine |\n|---|---|---|---|",
        f"| {' | '.join((*made, described(facts['machine'])))} |\n",
        *(f"{name}: " + ", ".join(f"{p} {v}" for p, v in found.items()) + "." for name, found in _distinct(facts)),
        *(f"{name} did not run: {why}." for name, why in results.refused.items()),
    ]
    body = "\n\n".join(
        [BEGIN, "\n".join(told), f"![Cost of an update and of a rollout]({picture.name})", markdown(results), END]
    )
    path.write_text(before + body + after, encoding="utf-8")


def _distinct(facts: Mapping[str, Any]) -> list[tuple[str, Mapping[str, str]]]:
    """Return each distinct set of package versions with the names of its contenders."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, found in facts["versions"].items():
        groups.setdefault(tuple(found.items()), []).append(name)
    return [(", ".join(names), dict(found)) for found, names in groups.items()]


def draw(path: Path, results: Results) -> Path:
    """Plot CPU seconds and peak memory of an update along each axis, or for the main workload if no size grows.

    Args:
        path: PNG file to write.
        results: Measurements of the run.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    updated = {row.workload for row in results.rows if row.phase == "update"}
    growing = {axis: names for axis, names in results.axes.items() if updated & set(names.values())}
    axes = growing or {"main": {0: "main"}}
    figure = Figure(figsize=(4 * len(axes), 7), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(axes), squeeze=False)
    for column, (axis, workloads) in enumerate(axes.items()):
        for number, (title, figure_of) in enumerate(FIGURES.items()):
            panel = panels[number][column]
            for place, (contender, points) in enumerate(_series(results, axis, workloads, figure_of).items()):
                panel.plot([x for x, _ in points], [y for _, y in points], "o-", color=f"C{place}", label=contender)
            panel.set(xlabel=f"{axis} (tokens)" if axis == "prompt" else axis, ylabel=title if column == 0 else "")
            panel.set_xscale("log" if axis == "vocabulary" else "linear")
            panel.set_ylim(bottom=0)
            panel.grid(alpha=0.3)
    panels[0][0].legend(fontsize=8)
    with path.open("wb") as stream:
        canvas.print_png(stream)
    return path


def _series(
    results: Results, axis: str, workloads: Mapping[int, str], figure_of: Callable[[Row], float | None]
) -> dict[str, list[tuple[float, float]]]:
    """Return the points (size, value of an update) by contender.

    Contenders without points are included, so that each keeps its colour in all panels.
    """
    grown = {name for names in results.axes.values() for name in names.values()} or {"main"}
    rows = [row for row in typical(results.rows) if row.phase == "update" and row.workload in grown]
    found: dict[str, list[tuple[float, float]]] = {row.contender: [] for row in rows}
    for size, name in workloads.items():
        for row in rows:
            figure = figure_of(row)
            if row.workload == name and figure is not None:
                place = results.workloads[name]["prompt_mean"] if axis == "prompt" else size
                found[row.contender].append((place, figure))
    return found
