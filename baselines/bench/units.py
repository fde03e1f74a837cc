"""Units of a benchmark plan: trainings, and cells (evaluations of one arm), with what they depend on.

A training makes one team; a cell plays one arm. Names are unique within a plan and are names of files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from baselines.bench.arms import (
    CONTROLS,
    EQUAL_UPDATES,
    OTHER_TRAINERS,
    RANDOM_ROUTER,
    SHARED,
    SOLO,
    TEAM,
    TRAINED_ARMS,
    TRAINED_AS,
    UNTRAINED,
    VOTE,
)
from baselines.bench.plan import BenchPlan, BenchTask
from baselines.bench.plan_errors import PlanError
from marft_agents.models.base_settings import Sharing


@dataclass(frozen=True)
class Training:
    """One training run.

    Attributes:
        name: Name of its run folder and record.
        task: Name of the task in the plan.
        team: Name of the team; of the one agent: of the team it is matched to.
        solo: True for the one agent.
        algorithm: Name of the training algorithm.
        seed: Seed of the training.
        sharing: "separate" or "shared" adapters.
        max_new_tokens: Longest turn in tokens.
        matched: Name of the training whose generated tokens are the budget; empty: the plan gives it, or none. With
            `equal_updates`: of that whose updates are done, and of that which goes on.
        arm: Arm in `CONTROLS` whose one agent is trained, or arm in `OTHER_TRAINERS`, whose trainer trains the one
            agent of the task; empty: a team, or that agent, trained by our algorithms.
        equal_updates: True to train for as many updates as the first training of `matched`.
        trial: Number of the cell of the grid whose settings are tried, from 0; None: the training is one for the test.
        trials: Names of the cells of the grid, in its order; the settings of the best are those of the training.
    """

    name: str
    task: str
    team: str
    solo: bool
    algorithm: str
    seed: int
    sharing: Sharing
    max_new_tokens: int
    matched: tuple[str, ...] = ()
    arm: str = ""
    equal_updates: bool = False
    trial: int | None = None
    trials: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the trainings and cells that come before it."""
        return (*self.matched, *self.trials)

    @property
    def settings_of(self) -> str:
        """Arm whose settings it has."""
        if self.solo:
            return self.arm or SOLO
        return SHARED if self.sharing == "shared" else TEAM


@dataclass(frozen=True)
class Cell:
    """One arm, played by one trained team under all evaluation seeds.

    Attributes:
        name: Name of its record.
        task: Name of the task in the plan.
        team: Name of the team that plays, or that the one agent is matched to.
        arm: Name of the arm.
        algorithm: Name of the algorithm; empty for the untrained team.
        seed: Training seed; None for the untrained team.
        training: Name of the training; empty for the untrained team.
        matched: Names of the cells with the measured tokens of team and one agent; for the vote.
        trial: Number of the cell of the grid, which is played on validation problems; None: a cell of the test.
    """

    name: str
    task: str
    team: str
    arm: str
    algorithm: str
    seed: int | None
    training: str = ""
    matched: tuple[str, ...] = ()
    trial: int | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the trainings and cells that come before it."""
        return (*([self.training] if self.training else []), *self.matched)


Unit = Training | Cell


def units_of(plan: BenchPlan, tasks: Collection[str] = ()) -> dict[str, Unit]:
    """Return the trainings and cells of a plan by name, each after those that it needs.

    Args:
        plan: Plan whose units are listed.
        tasks: Names of tasks of the plan; empty: all.

    Raises:
        PlanError: Two have the same name, or the plan has no such task.
    """
    known = [task.name for task in plan.tasks]
    if unknown := [name for name in tasks if name not in known]:
        raise PlanError(f"{plan.name}: found no task {unknown[0]!r}, wanted some of {', '.join(known)}")
    found: dict[str, Unit] = {}
    for task in plan.tasks:
        if tasks and task.name not in tasks:
            continue
        for unit in _with_trials(plan, task, _units_of_task(plan, task)):
            if unit.name in found and found[unit.name] != unit:
                raise PlanError(f"two cells are called {unit.name!r}; rename a task or a team")
            found[unit.name] = unit
    return found


def cells_of(plan: BenchPlan) -> list[Cell]:
    """Return the cells of a plan that are played on test problems."""
    return [unit for unit in units_of(plan).values() if isinstance(unit, Cell) and unit.trial is None]


def _with_trials(plan: BenchPlan, task: BenchTask, units: Iterable[Unit]) -> Iterator[Unit]:
    """Yield units, and before each training those that try the cells of its arm's grid.

    Trainings that differ in their seed or length alone have the same trials.
    """
    tuned = {TRAINED_AS[arm] for arm in plan.arms if arm in TRAINED_AS}
    for unit in units:
        arm = unit.settings_of if isinstance(unit, Training) else ""
        if not isinstance(unit, Training) or arm not in tuned or not (grid := task.grid(arm)):
            yield unit
            continue
        assert task.plan.tune is not None  # it has a grid
        seed, stem = task.plan.tune.seed, unit.name.rpartition("--seed-")[0]
        trials = []
        for number in range(len(grid)):
            trial = replace(
                unit, name=f"{stem}--tune-{number}", seed=seed, matched=(), equal_updates=False, trial=number
            )
            name = f"{_cell_name(task.name, unit.team, arm, unit.algorithm)}--tune-{number}"
            yield trial
            yield Cell(name, task.name, unit.team, arm, unit.algorithm, seed, trial.name, trial=number)
            trials.append(name)
        yield replace(unit, trials=tuple(trials))


def _units_of_task(plan: BenchPlan, task: BenchTask) -> Iterator[Unit]:
    if UNTRAINED in plan.arms:
        for team in task.teams:
            yield Cell(_cell_name(task.name, team, UNTRAINED), task.name, team, UNTRAINED, "", None)
    for seed in plan.training_seeds:  # seed by seed: a bench that is stopped early has whole comparisons
        for team in task.teams:
            yield from _units_of_team(plan, task, team, seed)
            yield from _units_of_solo(plan, task, team, seed)
            yield from _units_of_other_trainers(plan, task, team, seed)
            yield from _units_of_controls(plan, task, team, seed)


def _units_of_team(plan: BenchPlan, task: BenchTask, team: str, seed: int) -> Iterator[Unit]:
    arms = [arm for arm in plan.arms if arm in TRAINED_ARMS and (arm != RANDOM_ROUTER or task.is_routed(team))]
    matched = {SOLO, VOTE, *OTHER_TRAINERS, *CONTROLS} & set(plan.arms)
    counted = matched and not task.plan.training_tokens  # the team's count is a budget
    for algorithm in plan.algorithms:
        # Where no arm plays the team it is trained all the same, if the one agent's budget is its count of tokens.
        if arms or (counted and algorithm == plan.algorithms[0]):
            training = _team_training(task, team, algorithm, seed, "separate")
            yield training
            for arm in arms:
                name = _cell_name(task.name, team, arm, algorithm, seed)
                yield Cell(name, task.name, team, arm, algorithm, seed, training.name)
        if SHARED in plan.arms:
            training = _team_training(task, team, algorithm, seed, "shared")
            yield training
            name = _cell_name(task.name, team, SHARED, algorithm, seed)
            yield Cell(name, task.name, team, SHARED, algorithm, seed, training.name)


def _units_of_solo(plan: BenchPlan, task: BenchTask, team: str, seed: int) -> Iterator[Unit]:
    """Yield the one agent that is matched to a team; where tokens must be measured, to its first algorithm."""
    for algorithm in plan.solo_algorithms if {SOLO, VOTE} & set(plan.arms) else ():
        training = _solo_training(plan, task, team, algorithm, seed)
        yield training
        solo = Cell(
            _cell_name(task.name, team, SOLO, algorithm, seed),
            task.name,
            team,
            SOLO,
            algorithm,
            seed,
            training.name,
        )
        if SOLO in plan.arms:
            yield solo
        if VOTE in plan.arms:
            name = _cell_name(task.name, team, VOTE, algorithm, seed)
            matched = (_cell_name(task.name, team, TEAM, plan.algorithms[0], seed), solo.name)
            yield Cell(name, task.name, team, VOTE, algorithm, seed, training.name, matched)


def _units_of_other_trainers(plan: BenchPlan, task: BenchTask, team: str, seed: int) -> Iterator[Unit]:
    """Yield the one agent of other trainers than our algorithms, each with one cell."""
    for arm, algorithm in OTHER_TRAINERS.items():
        if arm in plan.arms:
            training = replace(_solo_training(plan, task, team, algorithm, seed), arm=arm)
            yield training
            name = _cell_name(task.name, team, arm, algorithm, seed)
            yield Cell(name, task.name, team, arm, algorithm, seed, training.name)


def _units_of_controls(plan: BenchPlan, task: BenchTask, team: str, seed: int) -> Iterator[Unit]:
    """Yield the one agents that the world brings, at the team's tokens and where it is wanted at its updates too."""
    for algorithm in plan.solo_algorithms:
        matched = _team_training(task, team, plan.algorithms[0], seed, "separate").name
        for arm in CONTROLS:
            if not plan.plays(arm, seed):
                continue
            name = f"{task.name}--{arm.replace('@', '-at-')}-of-{team}--{algorithm}--seed-{seed}"
            needs = () if task.plan.training_tokens else (matched,)
            tokens = task.most_tokens(arm, team)
            training = Training(name, task.name, team, True, algorithm, seed, "separate", tokens, needs, arm)
            yield training
            yield Cell(
                _cell_name(task.name, team, arm, algorithm, seed), task.name, team, arm, algorithm, seed, training.name
            )
            longer = f"{arm}@updates"
            if longer in EQUAL_UPDATES and plan.plays(longer, seed):
                more = replace(training, name=f"{name}--updates", matched=(matched, name), equal_updates=True)
                yield more
                cell = _cell_name(task.name, team, longer, algorithm, seed)
                yield Cell(cell, task.name, team, longer, algorithm, seed, more.name)


def _team_training(task: BenchTask, team: str, algorithm: str, seed: int, sharing: Sharing) -> Training:
    name = f"{task.name}--{team}--{sharing}-adapters--{algorithm}--seed-{seed}"
    return Training(name, task.name, team, False, algorithm, seed, sharing, task.plan.max_new_tokens)


def _solo_training(plan: BenchPlan, task: BenchTask, team: str, algorithm: str, seed: int) -> Training:
    """Return the training of the one agent; teams with the same budget and tokens per answer share it."""
    tokens = task.solo_tokens[team]
    # With a budget from the plan nothing of the team enters the training but the tokens per answer.
    first = next(name for name, allowed in task.solo_tokens.items() if allowed == tokens)
    if task.plan.training_tokens:
        name = f"{task.name}--one-agent-{tokens}-tokens--{algorithm}--seed-{seed}"
        return Training(name, task.name, first, True, algorithm, seed, "separate", tokens)
    name = f"{task.name}--one-agent-for-{team}--{algorithm}--seed-{seed}"
    needs = (_team_training(task, team, plan.algorithms[0], seed, "separate").name,)
    return Training(name, task.name, team, True, algorithm, seed, "separate", tokens, needs)


def _cell_name(task: str, team: str, arm: str, algorithm: str = "", seed: int | None = None) -> str:
    """Return the name of a cell, which is that of its file: no character that a shell or a file system reads."""
    parts = [task, team, arm.replace("@", "-at-")]
    if algorithm:
        parts.append(algorithm)
    if seed is not None:
        parts.append(f"seed-{seed}")
    return "--".join(parts)
