"""Drawings of a dependency: Mermaid and DOT as text, PNG and SVG through matplotlib.

Solid arrows run from an agent to those that see its action in the same round, dashed ones to those that see
it from the next round on. Agents of one layer, which may generate at the same time, stand in one column.
Answering agents have a double border (in pictures a thick one).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from marft_envs.dependency.base import Dependency, Roster, RoundPlan
from marft_envs.dependency.time_varying import Schedule, StateTable


def mermaid(dependency: Dependency, roster: Roster, round: int = 0) -> str:
    """Return a Mermaid flowchart of a round.

    Examples:
        >>> from marft_envs.dependency import chain
        >>> print(mermaid(chain(), Roster(("solver_0", "actor_0"), frozenset({"actor_0"}))))
        flowchart LR
          subgraph layer_0["layer 0"]
            solver_0["solver_0"]
          end
          subgraph layer_1["layer 1"]
            actor_0[["actor_0"]]
          end
          solver_0 --> actor_0
    """
    cases = _cases(dependency, roster, round)
    lines = ["flowchart LR"]
    for number, (title, plan) in enumerate(cases):
        if len(cases) == 1:
            lines += _flowchart(plan, roster, "")
        else:
            lines.append(f'  subgraph case_{number}["{title}"]')
            lines += [f"  {line}" for line in _flowchart(plan, roster, f"case_{number}_")]
            lines.append("  end")
    return "\n".join(lines)


def _cases(dependency: Dependency, roster: Roster, round: int) -> list[tuple[str, RoundPlan]]:
    """Return the plan of a round with its title; of a table one for each condition, of phases one for each phase."""
    cases = []
    if isinstance(dependency, Schedule) and dependency.by == "phase":
        for number, step in enumerate(dependency.steps):
            cases.append((f"phase {number}", step.plan(roster, round)))
    elif isinstance(dependency, StateTable):
        for case in dependency.cases:
            cases.append((f"if {case.condition}", case.use.plan(roster, round)))
        cases.append(("otherwise", dependency.default.plan(roster, round)))
    else:
        cases.append(("", dependency.plan(roster, round)))
    return cases


def _flowchart(plan: RoundPlan, roster: Roster, prefix: str) -> list[str]:
    """Return the lines of a Mermaid flowchart; the prefix keeps nodes of several plans apart."""
    lines = []
    for number, layer in enumerate(plan.layers):
        lines.append(f'  subgraph {prefix}layer_{number}["layer {number}"]')
        for agent in layer:  # a double frame marks agents that answer
            box = f'[["{agent}"]]' if agent in roster.answering else f'["{agent}"]'
            lines.append(f"    {prefix}{agent}{box}")
        lines.append("  end")
    lines += [f"  {prefix}{seen} --> {prefix}{viewer}" for seen, viewer in plan.edges]
    lines += [f"  {prefix}{seen} -.-> {prefix}{viewer}" for seen, viewer in _delayed(plan, roster)]
    if plan.open:  # who acts next is not known before the orchestrator has acted
        lines.append(f"  {prefix}{plan.order[0]} -.-> {prefix}route{{chosen by its action}}")
    return lines


def dot(dependency: Dependency, roster: Roster, round: int = 0) -> str:
    """Return a Graphviz digraph of a round."""
    cases = _cases(dependency, roster, round)
    lines = ["digraph D {", "  rankdir=LR;", "  node [shape=box];"]
    for number, (title, plan) in enumerate(cases):
        if len(cases) == 1:
            lines += _digraph(plan, roster, "")
        else:
            lines += [f"  subgraph cluster_{number} {{", f'  label="{title}";']
            lines += [*_digraph(plan, roster, f"case_{number}_"), "  }"]
    return "\n".join([*lines, "}"])


def _digraph(plan: RoundPlan, roster: Roster, prefix: str) -> list[str]:
    """Return the lines of a Graphviz digraph; the prefix keeps nodes of several plans apart."""
    lines = []
    if prefix:
        lines += [f'  "{prefix}{agent}" [label="{agent}"];' for agent in plan.order]
    lines += [f'  "{prefix}{agent}" [peripheries=2];' for agent in plan.order if agent in roster.answering]
    for layer in plan.layers:
        lines.append("  {rank=same; " + " ".join(f'"{prefix}{agent}";' for agent in layer) + "}")
    lines += [f'  "{prefix}{seen}" -> "{prefix}{viewer}";' for seen, viewer in plan.edges]
    for seen, viewer in _delayed(plan, roster):
        lines.append(f'  "{prefix}{seen}" -> "{prefix}{viewer}" [style=dashed, constraint=false];')
    if plan.open:
        lines.append(f'  "{prefix}{plan.order[0]}" -> "{prefix}chosen by its action" [style=dotted];')
    return lines


def picture(dependency: Dependency, roster: Roster, path: str | os.PathLike[str], rounds: int = 1) -> Path:
    """Write a drawing of the first rounds, a row each; of a table or of phases one row for each case.

    The suffix of the path chooses the format, such as .png or .svg.

    Raises:
        ImportError: matplotlib is missing; the message says how to install it.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "drawing a dependency needs matplotlib: pip install matplotlib (Mermaid and DOT text needs nothing)"
        ) from error
    panels = _cases(dependency, roster, 0)
    if len(panels) == 1 and rounds > 1:
        panels = [(f"round {number + 1}", dependency.plan(roster, number)) for number in range(rounds)]
    width = max(len(plan.layers) for _, plan in panels)
    height = max(max(map(len, plan.layers)) for _, plan in panels)
    # The canvas without a window: pyplot would keep the figure, and may look for a display.
    figure = Figure(figsize=(2.2 * width + 0.2, (1.0 * height + 0.3) * len(panels)))
    FigureCanvasAgg(figure)
    for number, (title, plan) in enumerate(panels):
        _draw(figure.add_subplot(len(panels), 1, number + 1), plan, roster, title)
    figure.tight_layout()
    target = Path(path)
    figure.savefig(target, dpi=120, format=target.suffix.removeprefix(".") or "png", bbox_inches="tight")
    return target


def _draw(axes: Any, plan: RoundPlan, roster: Roster, title: str) -> None:
    places: dict[str, tuple[float, float]] = {}
    for number, layer in enumerate(plan.layers):  # a column, centred around 0
        for row, agent in enumerate(layer):
            places[agent] = (2.2 * number, (len(layer) - 1) / 2 - row)
    # An edge that skips layers bends upwards, so that it does not run through the boxes between.
    for seen, viewer in plan.edges:
        skipped = plan.layer_of[viewer] - plan.layer_of[seen] - 1
        _arrow(axes, places[seen], places[viewer], "solid", -0.12 * skipped)
    for seen, viewer in _delayed(plan, roster):
        if seen in places and viewer in places:
            _arrow(axes, places[seen], places[viewer], "dashed", -0.35)
    for agent, (x, y) in places.items():
        answering = agent in roster.answering
        box: dict[str, Any] = {"boxstyle": "round,pad=0.45", "facecolor": "#dbe9f6" if answering else "white"}
        box |= {"edgecolor": "black", "linewidth": 2.0 if answering else 1.0}
        axes.text(x, y, agent, ha="center", va="center", fontsize=10, bbox=box, zorder=3)
    columns, rows = zip(*places.values(), strict=True)
    axes.set_xlim(-0.7, max(columns) + 0.7)
    axes.set_ylim(min(rows) - 0.5, max(rows) + 0.5)
    axes.set_title(title, fontsize=9, loc="left")
    axes.axis("off")


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], style: str, bend: float) -> None:
    arrow = {
        "arrowstyle": "-|>",
        "linestyle": style,
        "shrinkA": 30,
        "shrinkB": 32,
        "color": "#444444",
        "connectionstyle": f"arc3,rad={bend}",
    }
    axes.annotate("", xy=end, xytext=start, arrowprops=arrow, zorder=1)


def _delayed(plan: RoundPlan, roster: Roster) -> Iterable[tuple[str, str]]:
    """Return the edges that count only from the next round on."""
    edges = []
    for viewer in roster.agents:
        only_later = plan.later[viewer] - plan.sees[viewer]
        edges += [(seen, viewer) for seen in roster.agents if seen in only_later]  # in team order
    return edges
