"""Forecast of a plan: trainings, evaluations, generated tokens, core hours, and the time that is left.

Time comes from what was measured: of the same task and arm where there is such a unit, else of the same task, else of
the same model, else of one timed update (`timed_update`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from baselines.bench.arms import EQUAL_UPDATES, SHARED, SHUFFLED, SOLO, TEAM, TRAINED_AS
from baselines.bench.plan import BenchPlan, BenchTask
from baselines.bench.timed_update import TimedUpdate, UntimedError, timed_update
from baselines.bench.units import Cell, Training, Unit
from baselines.experiment.environments import factory

Key = tuple[str, ...]


class Cost(NamedTuple):
    """Time that some work took, or takes.

    Attributes:
        work: Generated tokens of trainings, or answers of evaluations.
        seconds: Wall-clock seconds of the work.
        cpu_seconds: Seconds of all cores together.
    """

    work: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass
class Costs:
    """Time of trainings by generated token, and of evaluations by answer, from records.

    Attributes:
        plan: Plan whose units are forecast.
        sums: Work and time by key; a record counts under several, from its task and arm to its model alone.
        sources: Where the numbers come from, in words.
    """

    plan: BenchPlan
    sums: dict[Key, Cost] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)

    def add_records(self, trainings: Iterable[Mapping[str, Any]], cells: Iterable[Mapping[str, Any]]) -> int:
        """Count records; return how many were counted.

        Args:
            trainings: Records of trainings of this plan.
            cells: Records of cells; one also tells the time of its training, where that has no record.
        """
        counted, known = 0, set()
        for record in trainings:
            if record.get("failure") is None:
                known.add(record["name"])
                self.add_training(record)
                counted += 1
        for record in cells:
            if record.get("failure") is None:
                self.add_cell(record, training=record["training"] not in known)
                known.add(record["training"])
                counted += 1
        return counted

    def add_training(self, record: Mapping[str, Any]) -> None:
        """Count the record of a training of this plan."""
        arm = record.get("arm") or (SOLO if record["solo"] else SHARED if record["sharing"] == "shared" else TEAM)
        cost = Cost(record["tokens"], record["seconds"], record.get("cpu_seconds", record["seconds"]))
        self._add("training", record, self.plan.task(record["task"]).plan.model, arm, cost)

    def add_cell(self, record: Mapping[str, Any], *, training: bool = False) -> None:
        """Count the record of a cell, and with `training` that of the training it plays."""
        model, seconds = record["rules"]["model"], record["seconds"]
        cpu_seconds = record.get("cpu_seconds", seconds)
        cost = Cost(record["answers"] * _plays(record["arm"]), seconds, cpu_seconds)
        self._add("evaluation", record, model, record["arm"], cost)
        if training and record["training_tokens"]:
            taken = record["training_seconds"]
            # Of exported cells the cores of the training are not known: those of the evaluation were as busy.
            cost = Cost(record["training_tokens"], taken, taken * cpu_seconds / seconds if seconds else taken)
            self._add("training", record, model, TRAINED_AS.get(record["arm"], record["arm"]), cost)

    def add_timed(self, timed: TimedUpdate) -> None:
        """Count a timed update, which is used where nothing else was measured with its model."""
        whole = Cost(timed.tokens, timed.seconds, timed.cpu_seconds)
        self._count(("training", timed.model, "timed"), whole)
        share = timed.rollout_share
        answers = Cost(timed.episodes, timed.seconds * share, timed.cpu_seconds * share)
        self._count(("evaluation", timed.model, "timed"), answers)

    def of(self, unit: Unit, work: float) -> Cost | None:
        """Return the expected time of a unit; None where nothing like it was measured."""
        kind, arm = ("training", unit.settings_of) if isinstance(unit, Training) else ("evaluation", unit.arm)
        model = self.plan.task(unit.task).plan.model
        for key in (*_keys(kind, unit.task, arm, model), (kind, model, "timed")):
            if (found := self.sums.get(key)) is not None and found.work:
                share = work / found.work
                return Cost(work, found.seconds * share, found.cpu_seconds * share)
        return None

    def _add(self, kind: str, record: Mapping[str, Any], model: str, arm: str, cost: Cost) -> None:
        keys = _keys(kind, record["task"], arm, model)
        for key in keys if record["plan_checksum"] == self.plan.checksum else keys[-1:]:
            self._count(key, cost)

    def _count(self, key: Key, cost: Cost) -> None:
        before = self.sums.get(key, Cost())
        self.sums[key] = Cost(*(a + b for a, b in zip(before, cost, strict=True)))


def time_unknown(costs: Costs, units: Iterable[Unit], works: Mapping[str, int]) -> None:
    """Time an update of each model of which nothing was measured, if it is on this machine and not large.

    Args:
        costs: Time that units took; gets that of the updates, and the reasons where there is none.
        units: Units that are not done.
        works: Work by name of the unit, see `works_of`.
    """
    tried: set[str] = set()
    for unit in units:
        task = costs.plan.task(unit.task)
        if task.plan.model in tried or costs.of(unit, works[unit.name]) is not None:
            continue
        tried.add(task.plan.model)
        try:
            timed = timed_update(task, costs.plan.algorithms[0])
        except Exception as error:  # a forecast is no reason to stop: the unit itself tells what is wrong
            told = str(error) if isinstance(error, UntimedError) else f"{type(error).__name__}: {error}"
            costs.sources.append(f"{task.plan.model} not timed: {told}")
        else:
            costs.add_timed(timed)
            costs.sources.append(
                f"timed: an update of {timed.model} with {timed.episodes} episodes in {timed.cpu_seconds:.1f} core "
                f"seconds, task {timed.task}"
            )


def _keys(kind: str, task: str, arm: str, model: str) -> tuple[Key, ...]:
    """Return the keys of a cost, the most special first."""
    return (kind, model, task, arm), (kind, model, task), (kind, model)


def _plays(arm: str) -> int:
    """Return how often an arm plays each problem; a vote counts once, since the number of its samples is measured."""
    return 2 if arm == SHUFFLED else 1


def works_of(plan: BenchPlan, units: Iterable[Unit]) -> dict[str, int]:
    """Return the work of units by name: generated tokens of a training, answers of a cell.

    The tokens are the most that a training can generate where the plan gives no budget.
    """
    budgets: dict[tuple[str, str], int] = {}  # tokens by task and team
    problems: dict[tuple[str, bool], int] = {}  # number by task, and True for validation problems
    works = {}
    for unit in units:
        task = plan.task(unit.task)
        if isinstance(unit, Cell):
            validation = unit.trial is not None
            if (task.name, validation) not in problems:
                problems[task.name, validation] = _problems(task, validation=validation)
            seeds = 1 if validation else len(plan.evaluation_seeds)
            works[unit.name] = problems[task.name, validation] * seeds * _plays(unit.arm)
        elif unit.trial is not None and task.plan.tune is not None:
            works[unit.name] = task.plan.tune.tokens
        else:
            if (task.name, unit.team) not in budgets:
                budgets[task.name, unit.team] = task.plan.training_tokens or _most_tokens(plan, task, unit.team)
            budget = budgets[task.name, unit.team]
            if unit.equal_updates:  # an agent that fills its turns spends as many more tokens as its episodes have
                own, of_team = (answer_tokens(task, arm, unit.team) for arm in (unit.arm, TEAM))
                budget = -(-budget * own // of_team)
            works[unit.name] = budget
    return works


def _problems(task: BenchTask, *, validation: bool) -> int:
    given = task.plan.tune.problems if validation and task.plan.tune is not None else task.plan.problems
    if given:
        return given
    split, team = task.split(validation=validation), next(iter(task.teams.values()))
    return len(task.scenarios(factory(task.plan.env, task.keywords(split, team))(), validation=validation))


def _most_tokens(plan: BenchPlan, task: BenchTask, team: str) -> int:
    """Return the most tokens that a team generates in the updates of its training."""
    tokens = task.plan.max_new_tokens
    experiment = task.experiment(task.teams[team], plan.algorithms[0], 0, max_new_tokens=tokens)
    schedule = experiment.scheduled(factory(experiment.env, experiment.keywords)()).schedule
    return schedule.max_updates * schedule.groups * schedule.group_size * answer_tokens(task, TEAM, team)


def answer_tokens(task: BenchTask, arm: str, team: str) -> int:
    """Return the most tokens that an arm generates for an answer; a vote has as many as the team."""
    arm = EQUAL_UPDATES.get(arm, arm)
    if arm in task.controls:
        return task.controls[arm].horizon * task.most_tokens(arm, team)
    # Where turns cannot be counted, each agent acts once a round.
    a_round = task.solo_tokens[team] or len(task.teams[team]["profiles"]) * task.plan.max_new_tokens
    return task.horizon * a_round


def expected(costs: Costs, units: Iterable[Unit], works: Mapping[str, int]) -> tuple[Cost, int]:
    """Return the time of the units whose like was measured, and the number of the others.

    Args:
        costs: Time that units took.
        units: Units that are not done.
        works: Work by name of the unit, see `works_of`.
    """
    total, unknown = Cost(), 0
    for unit in units:
        cost = costs.of(unit, works[unit.name])
        if cost is None:
            unknown += 1
        else:
            total = Cost(*(a + b for a, b in zip(total, cost, strict=True)))
    return total, unknown


def forecast(plan: BenchPlan, units: Sequence[Unit], costs: Costs, works: Mapping[str, int]) -> str:
    """Return the size of units in words: their number, tokens, core hours, and where the hours come from.

    Args:
        plan: Plan of the units.
        units: Units that are not done.
        costs: Time that units took.
        works: Work by name of the unit, see `works_of`.
    """
    if not units:
        return "forecast: all units are done"
    trainings = [unit for unit in units if isinstance(unit, Training)]
    cells = [unit for unit in units if isinstance(unit, Cell)]
    generated = sum(works[unit.name] for unit in trainings)
    answered = sum(works[cell.name] * answer_tokens(plan.task(cell.task), cell.arm, cell.team) for cell in cells)
    most = "" if all(task.plan.training_tokens for task in plan.tasks) else "at most "
    cost, unknown = expected(costs, units, works)
    hours = "core hours unknown until the first unit is done"
    if unknown < len(units):
        hours = f"{_hours(cost.cpu_seconds)} core hours" + (f" and {unknown} units of unknown time" if unknown else "")
    return (
        f"forecast: {_counted(trainings, 'training')}, {_counted(cells, 'evaluation')}; {most}{generated:,} generated "
        f"training tokens, at most {answered:,} tokens of answers; {hours}"
        + (f" ({'; '.join(costs.sources)})" if costs.sources else "")
    )


def _counted(units: Sequence[Unit], what: str) -> str:
    tried = sum(unit.trial is not None for unit in units)
    return f"{len(units)} {what}{'' if len(units) == 1 else 's'}" + (f" ({tried} of them of a grid)" if tried else "")


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"


def time_left(costs: Costs, units: Sequence[Unit], works: Mapping[str, int], jobs: int) -> str:
    """Return the time that units take in words; empty where that of one is unknown, or none is left.

    Args:
        costs: Time that units took.
        units: Units that are not done.
        works: Work by name of the unit, see `works_of`.
        jobs: Units at a time.
    """
    cost, unknown = expected(costs, units, works)
    if unknown or not units:
        return ""
    minutes = round(cost.seconds / jobs / 60)
    return f"{minutes // 60} h {minutes % 60:02} min left" if minutes >= 60 else f"{max(1, minutes)} min left"
