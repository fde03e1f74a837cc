"""Plan of the training benchmark: the main workload for all contenders, and scaling along one size at a time."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from baselines.benchmarks.training.contender_process import Contender, Row
from baselines.benchmarks.training.preparation import Preparation
from baselines.benchmarks.training.virtual_environment import folder as environment
from baselines.benchmarks.training.virtual_environment import interpreter
from baselines.benchmarks.training.workload import Shape, Workload

ORDER = ("score", "update", "rollout")  # update before rollout: memory left by a rollout must not count
SMALL = Shape(agents=1, group_size=4, answer=24, cap=32)
SHORT = replace(SMALL, agents=2)


@dataclass(frozen=True)
class Axis:
    """Scaling axis: one size grows, the others are constant.

    Attributes:
        name: Name of the axis.
        shapes: Shape of the workload by size.
        contenders: Contenders to measure; those that cannot run a size are left out there.
        phases: Phases to measure.
    """

    name: str
    shapes: dict[int, Shape]
    contenders: tuple[str, ...]
    phases: tuple[str, ...] = ("update", "rollout")


@dataclass(frozen=True)
class Plan:
    """Complete plan of a benchmark run.

    Attributes:
        main: Workload that all contenders run.
        rounds: Repetitions by number of torch threads; contenders take turns.
        axes: Scaling axes, measured with the largest number of threads.
    """

    main: Shape = Shape()
    rounds: Mapping[int, int] = field(default_factory=lambda: {1: 2})
    axes: tuple[Axis, ...] = ()

    @property
    def threads(self) -> int:
        """Largest number of torch threads."""
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
    """Results of a benchmark run.

    Attributes:
        rows: All measurements, in the order they were made.
        versions: Package versions by contender and package.
        refused: Reason for not running, by contender; the key is "CONTENDER on WORKLOAD" beside the main workload.
        workloads: Sizes of each workload by name, see `Workload.summary`.
        axes: Name of the workload by axis and size.
    """

    rows: list[Row] = field(default_factory=list)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    workloads: dict[str, dict[str, float]] = field(default_factory=dict)
    axes: dict[str, dict[int, str]] = field(default_factory=dict)


def execute(plan: Plan, contenders: Sequence[str], model: str, folder: Path, say: Callable[[str], None]) -> Results:
    """Run all measurements of a plan.

    Args:
        plan: Workloads, repetitions and axes to measure.
        contenders: Names of the contenders to run.
        model: Name of the model.
        folder: Folder of workloads, logs and models with other vocabularies.
        say: Receives a line of text for each measurement.
    """
    results = Results()
    contenders = _installed(contenders, results, say)
    paths = _workloads(plan, contenders, model, folder, results)
    for threads, repetitions in plan.rounds.items():
        with ExitStack() as stack:
            playing = [stack.enter_context(Contender(name, threads, folder)) for name in contenders]
            for repetition in range(repetitions):
                phases = ORDER if repetition == 0 else ORDER[1:]  # the log-probs of one scoring serve all updates
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
    """Make the virtual environments; return the contenders whose packages are installed."""
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
    """Run the contenders in turn, phase by phase; all load their workload before the first measurement."""
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
    """Return a measurement as one line of text."""
    memory = "" if row.peak_mb is None else f", {row.peak_mb:,.0f} MB above rest"
    return (
        f"{row.workload}, {row.threads} thread(s), {row.contender}: {row.phase} {row.wall_s:.1f} s, "
        f"{row.cpu_s:.1f} s CPU, {row.tokens / row.cpu_s:.1f} action tokens per CPU second{memory}"
    )
