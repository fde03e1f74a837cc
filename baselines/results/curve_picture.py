"""Picture of learning curves: success against generated tokens, one panel per task, with names beside it.

Lines are success during training, points the success on the test problems before training and at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from baselines.results.learning_curves import VALIDATION, ArmCurve, Curves, Group, distinct_names
from marft_common.atomic_files import replacing

# Okabe & Ito's colours without yellow, which is too light for lines on white: told apart with colour blindness too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
COLUMNS = 3  # panels side by side
PANEL_INCHES = (6.0, 3.8)
NAME_GAP = 0.06  # smallest distance of two names at the lines, as a share of the panel's height


class HeldOut(NamedTuple):
    """Success on the test problems.

    Attributes:
        key: Arm, team and algorithm.
        seeds: Training seeds; 0 for an untrained team.
        tokens: Generated tokens of the training before it.
        success: Mean and 95 % interval.
    """

    key: Group
    seeds: int
    tokens: float
    success: tuple[float, float, float]


Panel = tuple[Curves | None, Sequence[HeldOut]]


def draw_curves(panels: Mapping[str, Panel], path: Path) -> None:
    """Draw learning curves.

    Args:
        panels: Curves and points by name of the task, at least one; a panel without curves has points alone.
        path: PNG file to write, in a folder that exists.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = 2 if len(panels) == 4 else min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(columns * PANEL_INCHES[0], rows * PANEL_INCHES[1] + 0.4), layout="constrained", dpi=120)
    canvas = FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    styles = styles_of(panels)
    for axes, (task, panel) in zip(grid, panels.items(), strict=False):
        _draw_panel(axes, task, panel, styles[task])
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    told = "lines: in training, mean over seeds; bands: lowest to highest seed"
    told += ("; " if columns > 1 else "\n") + "points: test problems, with 95 % intervals"
    told += ("; " if columns > 1 else "\n") + "triangles: above the reference from here on"
    figure.supxlabel(told, fontsize=9, color="0.35")
    with replacing(path) as part, part.open("wb") as stream:
        canvas.print_png(stream)


def styles_of(panels: Mapping[str, Panel]) -> dict[str, dict[Group, dict[str, Any]]]:
    """Return colour and dashes by panel, and by arm, team and algorithm.

    An arm looks the same in all panels. Where several teams or algorithms of a panel have it, that is the first.
    """
    keys_of: dict[str, list[Group]] = {}
    for task, (curves, points) in panels.items():
        drawn: list[ArmCurve | HeldOut] = [*(curves.arms if curves else ()), *points]
        keys_of[task] = list(dict.fromkeys(each.key for each in drawn))
    arms = dict.fromkeys(key[0] for keys in keys_of.values() for key in keys)
    number_of = {arm: number for number, arm in enumerate(arms)}
    found: dict[str, dict[Group, dict[str, Any]]] = {}
    for task, keys in keys_of.items():
        first = {number_of[key[0]]: key for key in reversed(keys)}
        free = (number for number in count() if number not in first)
        found[task] = {}
        for key in keys:
            number = number_of[key[0]] if first[number_of[key[0]]] == key else next(free)
            found[task][key] = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}
    return found


def _draw_panel(axes: Any, task: str, panel: Panel, styles: Mapping[Group, Mapping[str, Any]]) -> None:
    found, points = panel
    shown: list[ArmCurve] = []
    if found is not None:
        drawn = {curve.trainings: curve for curve in reversed(found.arms)}  # teams may share one agent's training
        shown = [curve for curve in found.arms if drawn[curve.trainings] is curve]
    for curve in shown:
        style = styles[curve.key]
        marker = "." if len(curve.tokens) == 1 else None
        axes.plot(curve.tokens, curve.mean, linewidth=2, marker=marker, **style)
        axes.fill_between(curve.tokens, curve.low, curve.high, color=style["color"], alpha=0.15, linewidth=0)
    for point in points:
        mean, low, high = point.success
        lengths = [[mean - low], [high - mean]]
        colour = styles[point.key]["color"]
        axes.errorbar([point.tokens], [mean], lengths, fmt="o", color=colour, capsize=3, clip_on=False)
    for meeting in found.meetings if found else ():
        if meeting.tokens is not None and meeting.tokens > 0:
            axes.plot(
                [meeting.tokens], [0], marker="^", markersize=9, color=styles[meeting.key]["color"], clip_on=False
            )
    highest = max([*(max(curve.high) for curve in shown), *(point.success[2] for point in points)])
    top = 1.02 if highest > 0.5 else max(1.25 * highest, 0.1)
    where = (
        "on test problems" if found is None else "on validation tasks" if found.source == VALIDATION else "in training"
    )
    axes.set(xlabel="generated tokens", ylabel=f"success {where}", ylim=(0, top), title=task)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=6)
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _name_points(axes, points, top, styles)


def _name_points(axes: Any, points: Sequence[HeldOut], top: float, styles: Mapping[Group, Mapping[str, Any]]) -> None:
    """Write the name of each arm to the right of the panel, at the height of its last point where there is room."""
    places = spread([point.success[0] / top for point in points], NAME_GAP)
    names = distinct_names(point.key for point in points)
    for point, place in zip(points, places, strict=True):
        seeds = f", {point.seeds} seed{'s' * (point.seeds != 1)}" if point.seeds else ""
        style = styles[point.key]
        axes.annotate(
            names[point.key] + seeds,
            (point.tokens, point.success[0]),
            (1.03, place),
            textcoords="axes fraction",
            color=style["color"],
            fontsize=9,
            va="center",
            arrowprops={"arrowstyle": "-", "color": style["color"], "linewidth": 0.6, "alpha": 0.6, "relpos": (0, 0.5)},
        )


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Return the nearest heights, by least squares, with at least a gap between them; the first of equal ones on top.

    Example: two names at one height; the third is far enough.
        >>> [round(height, 2) for height in spread([0.5, 0.5, 0.9], 0.1)]
        [0.55, 0.45, 0.9]
    """
    from scipy.optimize import isotonic_regression

    order = sorted(range(len(heights)), key=lambda place: (heights[place], -place))
    # Less one gap for each name below, heights with gaps between them are heights that do not descend.
    fitted = isotonic_regression([heights[place] - gap * below for below, place in enumerate(order)]).x
    found = [0.0] * len(heights)
    for below, place in enumerate(order):
        found[place] = max(float(fitted[below]), 0.0) + gap * below
    return found
