"""Plot learning curves: success per update, alarms, and held-out accuracy before and after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marft_agents.runs.evaluation import Interval
from marft_agents.runs.validation import validations
from marft_common.atomic_files import replacing

SMOOTHING = 5  # window of the running mean, in updates


class Points(NamedTuple):
    """Held-out accuracy before and after training, each with its interval."""

    before: Interval
    after: Interval


def draw_curve(
    runs: Mapping[str, Sequence[Mapping[str, float]]],
    path: Path,
    *,
    held_out: Mapping[str, Points] | None = None,
    title: str = "shared team reward",
) -> Path:
    """Plot the training success of runs, and their held-out accuracy before and after.

    Args:
        runs: Metrics of each update by label of the run: `team/success` (0 to 1), `validation/success` after
            validated updates, and `{agent}/alarm_{kind}` where alarms were monitored.
        path: PNG file to write; missing parent folders are created.
        held_out: Accuracies on the held-out set by label, drawn at both ends of the run.
        title: Title of the figure.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, (label, history) in enumerate(runs.items()):
        colour = f"C{number}"
        success = np.asarray([metrics["team/success"] for metrics in history])
        updates = np.arange(1, len(success) + 1)
        axes.plot(updates, success, color=colour, alpha=0.25, linewidth=1)
        axes.plot(updates, _running_mean(success), color=colour, linewidth=2, label=f"{label}: training episodes")
        _draw_alarms(axes, history, success)
        _draw_validation(axes, history, colour, label)
        if held_out and label in held_out:
            _draw_points(axes, held_out[label], len(success), colour, label)
    axes.set(xlabel="update", ylabel="share of problems solved", ylim=(0, 1), title=title)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, part.open("wb") as stream:
        canvas.print_png(stream)
    return path


def _running_mean(values: Any) -> Any:
    # Of the last `SMOOTHING` values; at the beginning, of those there are.
    width = min(SMOOTHING, len(values))
    sums = np.convolve(values, np.ones(width), mode="full")[: len(values)]
    return sums / np.minimum(np.arange(1, len(values) + 1), width)


def _draw_alarms(axes: Any, history: Sequence[Mapping[str, float]], success: Any) -> None:
    """Mark each update in which an alarm was first raised, with the kinds of the alarms."""
    before: Mapping[str, float] = {}
    for update, metrics in enumerate(history):
        kinds: dict[str, None] = {}  # several agents may raise alarms of one kind
        for name in sorted(metrics):
            if "/alarm_" in name and metrics[name] and not before.get(name):
                kinds[name.rpartition("/alarm_")[2]] = None
        before = metrics
        if kinds:
            place = (update + 1, success[update])
            axes.plot(*place, marker="v", color="red", markersize=6)
            axes.annotate(
                "\n".join(kinds), place, (0, 6), textcoords="offset points", color="red", fontsize=7, ha="center"
            )


def _draw_validation(axes: Any, history: Sequence[Mapping[str, float]], colour: str, label: str) -> None:
    """Plot each validation halfway between the updates before and after it."""
    points = validations(history)
    if points:
        x = [done + 0.5 for done, _ in points]
        means = np.asarray([interval.mean for _, interval in points])
        errors = np.abs(np.asarray([[i.low, i.high] for _, i in points]).T - means)
        name = f"{label}: validation, 95 %"
        axes.errorbar(x, means, yerr=errors, fmt="s-", color=colour, markersize=4, capsize=3, label=name)


def _draw_points(axes: Any, points: Points, updates: int, colour: str, label: str) -> None:
    for x, interval, text in ((0, points.before, ""), (updates + 0.5, points.after, f"{label}: held-out, 95 %")):
        errors = [[interval.mean - interval.low], [interval.high - interval.mean]]
        axes.errorbar([x], [interval.mean], yerr=errors, fmt="o", color=colour, capsize=4, label=text or None)
