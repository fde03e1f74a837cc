"""One page with every ratio of the benchmarks: median, spread, target, machine and commit, and a plot for each group.

    python -m benchmarks.ratio_page [--folder docs/benchmarks]

It reads the records in the folder, see `SOURCES`, and writes `ratios.md` and a picture of each group there. `make
bench-all` makes the records first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import described

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"


@dataclass(frozen=True)
class Claim:
    """A ratio with its spread and its target.

    Attributes:
        group: Group of the page.
        what: What is compared.
        repetitions: Number of ratios; each of figures that were taken in turn.
        median: Median of the ratios, by CPU time.
        low: Smallest of the ratios.
        high: Largest of the ratios.
        bound: Target; None sets none.
        below: True if smaller is better.
    """

    group: str
    what: str
    repetitions: int
    median: float
    low: float
    high: float
    bound: float | None = None
    below: bool = False

    @property
    def met(self) -> bool | None:
        """True if the median meets the target; None without a target."""
        if self.bound is None:
            return None
        return self.median <= self.bound if self.below else self.median >= self.bound


def of_training(record: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the ratios of `make bench-train`, by CPU time."""
    for ratio in record["ratios"]:
        what = ratio["what"]
        group, below = _training_group(what)
        spread = (ratio["repetitions"], ratio["cpu"], ratio["low"], ratio["high"])
        yield Claim(group, what, *spread, ratio["bound"], below)


def _training_group(what: str) -> tuple[str, bool]:
    """Return the group of a ratio, and whether smaller is better."""
    if "cost per agent" in what:
        return "Cost of an agent in a large team, relative to a duo's", True
    if "peak memory" in what:
        return "Peak memory of an update, relative to other trainers'", True
    if what.startswith("bfloat16"):
        return "bfloat16: how many times as fast", False
    return ("Rollouts" if "rollout" in what else "Updates") + ": how many times as fast as others", False


def of_judge(record: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the CPU time of a judged test, relative to a plain subprocess of the same round."""
    rows = record["rows"]
    plain = _rounds(row for row in rows if row["how"] == "subprocess")
    for (how, language, workers), costs in _rounds(row for row in rows if row["how"].startswith("judge")).items():
        beside = plain["subprocess", language, workers]
        ratios = [own / other for own, other in zip(costs, beside, strict=True)]
        what = f"{how.removeprefix('judge: ')}, {language}, {workers} at once"
        group = "CPU time of a judged test, relative to a subprocess"
        yield Claim(group, what, *_spread(ratios), _bound(language), below=True)


def _bound(language: str) -> float | None:
    return 0.5 if language == "python" else None


def _rounds(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, int], list[float]]:
    """Return CPU seconds of a test in each round, by method, language and programs at once."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        found.setdefault((row["how"], row["language"], row["workers"]), []).append(row["cpu_s"] / row["tests"])
    return found


def of_environments(record: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield thousands of turns per CPU-second of environments from `make`."""
    speeds: dict[str, list[float]] = {}
    for row in record["turns"]:
        if row["what"].endswith("make (AEC)"):
            speeds.setdefault(row["what"], []).append(row["turns_per_cpu_s"] / 1000)
    for what, found in speeds.items():
        yield Claim("Thousands of turns per CPU-second in an environment", what, *_spread(found), 40.0)


def of_judge_latency(record: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the seconds of a C++ build and test, and how much sooner a verdict comes by each of the two means."""
    seconds: dict[tuple[str, str, str], list[float]] = {}
    for row in record["rows"]:
        seconds.setdefault((row["what"], row["backend"], row["way"]), []).append(row["seconds"])
    backends = list(dict.fromkeys(row["backend"] for row in record["rows"]))
    for backend in backends:
        group, spread = "Seconds to build a C++ program and run a test", _spread(seconds["headers", backend, "with"])
        yield Claim(group, f"{backend}, bits/stdc++.h", *spread, 0.5, below=True)
    for what, slow, fast, means in (
        ("headers", "without", "with", "a C++ program, header precompiled"),
        ("slots", "one", "two", "one submission of many tests, two slots"),
    ):
        for backend in backends:
            pairs = zip(seconds[what, backend, slow], seconds[what, backend, fast], strict=True)
            spread = _spread([long / short for long, short in pairs])
            yield Claim("Verdicts: how many times as soon", f"{backend}: {means}", *spread)


def of_prompt_cache(record: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the CPU time of a rollout of many turns without kept prompts, relative to one with them."""
    costs = record["cpu_seconds"]
    found = [without / kept for without, kept in zip(costs["not_kept"], costs["kept"], strict=True)]
    what = "rollout of 8 games and 8 rounds: speed with kept prompts"
    yield Claim(_training_group("rollout")[0], what, *_spread(found))


def _spread(figures: Sequence[float]) -> tuple[int, float, float, float]:
    """Return the number of repetitions, their median, and the smallest and largest of them."""
    return len(figures), median(figures), min(figures), max(figures)


SOURCES = {
    "training.json": of_training,
    "prompt_cache.json": of_prompt_cache,
    "judge.json": of_judge,
    "judge_latency.json": of_judge_latency,
    "envs.json": of_environments,
}


def page(folder: Path) -> str:
    """Return the page as Markdown, and draw its pictures into the folder.

    Raises:
        FileNotFoundError: A record is missing.
    """
    records = {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in SOURCES}
    groups: dict[str, list[Claim]] = {}
    for name, record in records.items():
        for claim in SOURCES[name](record):
            groups.setdefault(claim.group, []).append(claim)
    parts = [
        "# All ratios",
        "`make bench-all` measures everything on this page and writes it. Each ratio is the median over repetitions.\n"
        "In a repetition both sides take turns in one run. In brackets are the smallest and the largest ratio.\n"
        "A command is that of its commit; what was `baselines.benchmarks` there is `benchmarks` today.",
        "| record | command | commit | machine |\n|---|---|---|---|\n"
        + "\n".join(
            f"| [{name}]({name}) | `{record['command']}` | {record.get('commit') or 'unknown'} | "
            f"{described(record['machine'])} |"
            for name, record in records.items()
        ),
    ]
    for number, (group, claims) in enumerate(groups.items()):
        picture = f"ratios_{number + 1}.png"
        draw(folder / picture, group, claims)
        parts += [f"## {group}", f"![{group}]({picture})", _table(claims)]
    return "\n\n".join(parts) + "\n"


def _table(claims: Sequence[Claim]) -> str:
    lines = ["| what | median | repetitions | target | met |", "|---|---|---|---|---|"]
    for claim in claims:
        spread = f"{claim.median:.2f}" + (f" [{claim.low:.2f}, {claim.high:.2f}]" if claim.repetitions > 1 else "")
        target = "" if claim.bound is None else f"{'at most' if claim.below else 'at least'} {claim.bound:g}"
        met = {None: "", True: "yes", False: "no"}[claim.met]
        lines.append(f"| {claim.what} | {spread} | {claim.repetitions} | {target} | {met} |")
    return "\n".join(lines)


def draw(path: Path, title: str, claims: Sequence[Claim]) -> None:
    """Plot the claims of a group as a PNG file: median and spread of each, its target as a tick."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 0.3 * len(claims)), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panel = figure.subplots()
    for place, claim in enumerate(reversed(claims)):
        colour = {None: "C7", True: "C2", False: "C3"}[claim.met]
        panel.plot([claim.low, claim.high], [place, place], color=colour, linewidth=3, alpha=0.4)
        panel.plot(claim.median, place, "o", color=colour)
        if claim.bound is not None:
            panel.plot(claim.bound, place, "|", color="black", markersize=14)
    panel.set_yticks(range(len(claims)), [claim.what for claim in reversed(claims)], fontsize=8)
    panel.set(xlabel=f"{title} (tick: target; green: met, red: missed, grey: none)")
    panel.set_xlim(left=0)
    panel.grid(axis="x", alpha=0.3)
    with path.open("wb") as stream:
        canvas.print_png(stream)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="One page with every ratio of the benchmarks.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the records and of the page")
    folder = parser.parse_args(arguments).folder
    (folder / "ratios.md").write_text(page(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
