"""What a run measures: the main workload side by side, and how the cost grows along one size at a time."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from baselines.benchmarks.training.contender import Contender, Row
from baselines.benchmarks.training.environments import folder as environment
from baselines.benchmarks.training.environments import interpreter
from baselines.benchmarks.training.models import Preparation
from baselines.benchmarks.training.workload import Shape, Workload

ORDER = ("score", "update", "rollout")  # memory of an update is measured before a rollout has left anything behind
SMALL = Shape(agents=1, group_size=4, answer=24, cap=32)
SHORT = replace(SMALL, agents=2)


@dataclass(frozen=True)
class Axis:
    """One size that grows while the others stay.

    Attributes:
        name: Of the axis.
        shapes: Size -> workload.
        contenders: Who is measured along it; those that can not do a size are left out there.
        phases: What is measured.
    """

    name: str
    shapes: dict[int, Shape]
    contenders: tuple[str, ...]
    phases: tuple[str, ...] = ("update", "rollout")


@dataclass(frozen=True)
class Plan:
    """Everything that is measured.

    Attributes:
        main: The workload that all contenders do.
        rounds: Threads of torch -> repetitions; contenders take turns.
        axes: Growth, with the most threads.
    """

    main: Shape = Shape()
    rounds: Mapping[int, int] = field(default_factory=lambda: {1: 2})
    axes: tuple[Axis, ...] = ()

    @property
    def threads(self) -> int:
        """The most threads."""
        return max(self.rounds)


OURS = ("ours", "ours-marft")
OTHERS = ("reference", "trl", "comlrl")
FULL = Plan(
    axes=(
        Axis("problems", {n: Shape(groups=n) for n in (4, 8)}, ("ours", "hf"), ("rollout",)),
        Axis(
            "solo group",
            {n: Shape(agents=1, group_size=n) for n in (8, 16)},
            (*OURS, "ours-lean", "reference", "trl", "trl-plain", "hf"),
        ),
        Axis("team", {n: replace(SMALL, agents=n) for n in (1, 2, 4, 8)}, (*OURS, *OTHERS, "hf")),
        Axis("group", {n: replace(SMALL, group_size=n) for n in (1, 4, 16)}, (*OURS, *OTHERS, "hf")),
        Axis("prompt", {n: replace(SMALL, examples=n) for n in (0, 1, 5)}, (*OURS, *OTHERS, "hf")),
        Axis(
            "vocabulary",
            {n: replace(SMALL, vocabulary=n) for n in (1_024, 49_152, 151_936)},
            (*OURS, *OTHERS),
            ("update",),
        ),
    )
)
QUICK = Plan(SHORT, {1: 1})


@dataclass
class Results:
    """What was measured.

    Attributes:
        rows: All measurements.
        versions: Contender -> package -> version.
        refused: Contender (and " on " workload, where it is not the main one) -> why it did not run.
        workloads: Name -> sizes.
        axes: Axis -> size -> name of the workload.
    """

    rows: list[Row] = field(default_factory=list)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    workloads: dict[str, dict[str, float]] = field(default_factory=dict)
    axes: dict[str, dict[int, str]] = field(default_factory=dict)


def execute(plan: Plan, contenders: Sequence[str], model: str, folder: Path, say: Callable[[str], None]) -> Results:
    """Measure all of a plan.

    Args:
        plan: What to measure.
        contenders: Who takes part.
        model: Name of the model.
        folder: For workloads, logs and models of other vocabularies.
        say: Told of every measurement.
    """
    results = Results()
    contenders = _installed(contenders, results, say)
    paths = _workloads(plan, contenders, model, folder, results)
    for threads, repetitions in plan.rounds.items():
        with ExitStack() as stack:
            playing = [stack.enter_context(Contender(name, threads, folder)) for name in contenders]
            for repetition in range(repetitions):
                phases = ORDER if repetition == 0 else ORDER[1:]  # one score is enough for all updates
                for row in _round(playing, paths["main"], phases, repetition, results):
                    say(line(row))
    wanted = {name for axis in plan.axes for name in axis.contenders}
    with ExitStack() as stack:
        names = [name for name in contenders if name in wanted and name not in results.refused]
        growing = {name: stack.enter_context(Contender(name, plan.threads, folder)) for name in names}
        for axis in plan.axes:
            playing = [growing[name] for name in axis.contenders if name in growing]
            for workload in results.axes.get(axis.name, {}).values():
                for row in _round(playing, paths[workload], axis.phases, 0, results):
                    say(line(row))
    return results


def _installed(contenders: Sequence[str], results: Results, say: Callable[[str], None]) -> list[str]:
    """Make the virtual environments; return the contenders that can be started."""
    found = []
    for name in contenders:
        try:
            say(f"{name} runs in {interpreter(name)}")
            found.append(name)
        except subprocess.CalledProcessError as error:
            results.refused[name] = f"pip failed with exit code {error.returncode}, see {environment() / 'install.log'}"
    return found


def _workloads(plan: Plan, contenders: Sequence[str], model: str, folder: Path, results: Results) -> dict[str, Path]:
    shapes = {"main": plan.main}
    for axis in plan.axes:
        if set(axis.contenders) & set(contenders):
            results.axes[axis.name] = {size: f"{axis.name}-{size}" for size in axis.shapes}
            shapes |= {f"{axis.name}-{size}": shape for size, shape in axis.shapes.items()}
    with Preparation(model, folder, plan.threads) as preparation:
        paths = {name: preparation.workload(name, shape) for name, shape in shapes.items()}
    results.workloads |= {name: Workload.load(path).summary() for name, path in paths.items()}
    return paths


def _round(
    playing: Sequence[Contender], path: Path, phases: Sequence[str], repetition: int, results: Results
) -> Iterator[Row]:
    """Let the contenders take turns, phase by phase; nothing loads while another is measured."""
    can = {contender.name: contender.load(path) for contender in playing}
    for phase in phases:
        for contender in playing:
            row = contender.run(phase, repetition) if phase in can[contender.name] else None
            if row is not None:
                results.rows.append(row)
                yield row
    for contender in playing:
        results.versions[contender.name] = contender.versions
        if contender.refused:
            where = "" if path.stem == "main" else f" on {path.stem}"
            results.refused.setdefault(contender.name + where, contender.refused)


def line(row: Row) -> str:
    """Say what was measured."""
    memory = "" if row.peak_mb is None else f", {row.peak_mb:,.0f} MB above rest"
    return (
        f"{row.workload}, {row.threads} thread(s), {row.contender}: {row.phase} {row.wall_s:.1f} s, "
        f"{row.cpu_s:.1f} s CPU, {row.tokens / row.cpu_s:.1f} action tokens per CPU second{memory}"
    )
