"""Plan of the training benchmark: the main workload for all contenders, and scaling along one size at a time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path

from benchmarks.training.contender_process import Contender, Row
from benchmarks.training.contenders import CONTENDERS
from benchmarks.training.preparation import Preparation
from benchmarks.training.virtual_environment import folder as environment
from benchmarks.training.virtual_environment import interpreter
from benchmarks.training.workload import Shape, Workload
from marft_agents.models.pretrained import multiplies_bfloat16

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
        repetitions: Repetitions of each measurement; contenders take turns.
    """

    name: str
    shapes: dict[int, Shape]
    contenders: tuple[str, ...]
    phases: tuple[str, ...] = ("update", "rollout")
    repetitions: int = 1


@dataclass(frozen=True)
class Plan:
    """Complete plan of a benchmark run.

    Attributes:
        main: Workload that all contenders run.
        rounds: Repetitions by number of torch threads; contenders take turns.
        axes: Scaling axes, measured with the largest number of threads.
    """

    main: Shape = Shape()
    rounds: Mapping[int, int] = field(default_factory=lambda: {1: 5})
    axes: tuple[Axis, ...] = ()

    @property
    def threads(self) -> int:
        """Largest number of torch threads."""
        return max(self.rounds)


OURS = ("ours", "ours-marft")
OTHERS = ("reference", "trl", "comlrl")
FULL = Plan(
    axes=(
        Axis(
            "solo group",
            {n: Shape(agents=1, group_size=n) for n in (8, 16)},
            (*OURS, "ours-lean", "ours-plain", "reference", "trl", "trl-plain", "hf"),
            repetitions=5,
        ),
        Axis("team", {n: replace(SMALL, agents=n) for n in (1, 2, 4, 8)}, (*OURS, *OTHERS, "hf")),
        Axis("per agent", {n: replace(SMALL, agents=n) for n in (2, 8)}, OURS, repetitions=5),
        Axis("large team", {32: replace(SMALL, agents=32)}, OURS),
        Axis("group", {n: replace(SMALL, group_size=n) for n in (1, 4, 16)}, (*OURS, *OTHERS, "hf")),
        Axis("prompt", {n: replace(SMALL, examples=n) for n in (0, 1, 5)}, (*OURS, *OTHERS, "hf")),
        Axis(
            "vocabulary",
            {n: replace(SMALL, vocabulary=n) for n in (1_024, 49_152, 151_936)},
            (*OURS, *OTHERS),
            ("update",),
        ),
        Axis("problems", {n: Shape(groups=n) for n in (4, 8)}, ("ours", "hf"), ("rollout",), repetitions=5),
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
    """Run the measurements of a plan that the folder does not hold yet.

    Args:
        plan: Workloads, repetitions and axes to measure.
        contenders: Names of the contenders to run.
        model: Name of the model.
        folder: Folder of workloads, logs, models with other vocabularies, and of the measurements already made.
        say: Receives a line of text for each measurement.

    Raises:
        ValueError: The folder holds measurements of another plan or model.
    """
    results = Results()
    measurements = Measurements(folder, f"{model}: {plan}")
    contenders = _runnable(contenders, results, say)
    paths = _workloads(plan, contenders, model, folder, results)
    for threads, repetitions in plan.rounds.items():
        with ExitStack() as stack:
            playing = [stack.enter_context(Contender(name, threads, folder)) for name in contenders]
            for repetition in range(repetitions):
                phases = ORDER if repetition == 0 else ORDER[1:]  # the log-probs of one scoring serve all updates
                _round(playing, paths["main"], phases, repetition, results, measurements, say)
    wanted = {name for axis in plan.axes for name in axis.contenders}
    with ExitStack() as stack:
        names = [name for name in contenders if name in wanted and name not in results.refused]
        growing = {name: stack.enter_context(Contender(name, plan.threads, folder)) for name in names}
        for axis in plan.axes:
            playing = [growing[name] for name in axis.contenders if name in growing]
            for repetition, workload in product(range(axis.repetitions), results.axes.get(axis.name, {}).values()):
                _round(playing, paths[workload], axis.phases, repetition, results, measurements, say)
    results.rows += measurements.rows
    return results


class Measurements:
    """Measurements of a run, written line by line, so that an interrupted run continues.

    Args:
        folder: Folder of `rows.jsonl`.
        plan: Description of the plan, which all measurements of one file share.

    Attributes:
        rows: All measurements, in the order they were made.

    Raises:
        ValueError: The file belongs to another plan.
    """

    def __init__(self, folder: Path, plan: str) -> None:
        self._path = folder / "rows.jsonl"
        first, *rest = self._path.read_text(encoding="utf-8").splitlines() if self._path.is_file() else [""]
        if not first:
            self._path.write_text(json.dumps({"plan": plan}) + "\n", encoding="utf-8")
        elif json.loads(first)["plan"] != plan:
            raise ValueError(f"{self._path} holds measurements of another plan or model: wanted another folder")
        self.rows = [Row(**json.loads(line)) for line in rest]

    def has(self, contender: Contender, phase: str, workload: str, repetition: int) -> bool:
        """Return True if a measurement was made."""
        wanted = (contender.name, contender.threads, phase, workload, repetition)
        return any((r.contender, r.threads, r.phase, r.workload, r.repetition) == wanted for r in self.rows)

    def add(self, row: Row) -> None:
        """Append a measurement to the file."""
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(row)) + "\n")
        self.rows.append(row)


def _runnable(contenders: Sequence[str], results: Results, say: Callable[[str], None]) -> list[str]:
    """Make the virtual environments; return the contenders that this processor and their packages let run."""
    found = []
    for name in contenders:
        if CONTENDERS[name].settings.get("dtype") == "bfloat16" and not multiplies_bfloat16():
            results.refused[name] = "this processor has no bfloat16 products; they would be emulated"
            continue
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
    paths = {name: folder / f"{name}.json" for name in shapes}
    missing = [name for name, path in paths.items() if not path.is_file()]
    if missing:
        with Preparation(model, folder, plan.threads) as preparation:
            for name in missing:
                preparation.workload(name, shapes[name])
    results.workloads |= {name: Workload.load(path).summary() for name, path in paths.items()}
    return paths


def _round(
    contenders: Sequence[Contender],
    path: Path,
    phases: Sequence[str],
    repetition: int,
    results: Results,
    measurements: Measurements,
    say: Callable[[str], None],
) -> None:
    """Run the contenders in turn, phase by phase; all load their workload before the first measurement.

    Every second repetition takes them in the reverse order.
    """
    can = {contender.name: contender.load(path) for contender in contenders}
    for phase in phases:
        for contender in contenders[:: -1 if repetition % 2 else 1]:
            if phase in can[contender.name] and not measurements.has(contender, phase, path.stem, repetition):
                row = contender.run(phase, repetition)
                if row is not None:
                    measurements.add(row)
                    say(line(row))
    for contender in contenders:
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
