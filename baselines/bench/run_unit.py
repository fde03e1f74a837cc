"""Run one unit of a plan: train a team, or play an arm and return its record."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import resource
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baselines.bench.arms import (
    ANONYMOUS,
    EQUAL_UPDATES,
    MUTED,
    OTHER_TRAINERS,
    RANDOM_ROUTER,
    RFT,
    SHARED,
    SHUFFLED,
    SOLO,
    TEAM,
    TRANSFERS,
    TRL,
    VOTE,
)
from baselines.bench.controls import (
    Heard,
    HeardMessages,
    ShuffledTeammates,
    anonymous,
    donor_scenarios,
    renamed_keywords,
    samples_to_match,
    vote_score,
    voting_tasks,
)
from baselines.bench.plan import BenchPlan, BenchTask
from baselines.bench.random_router import RandomRouter
from baselines.bench.rejection_sampling import train_on_solved
from baselines.bench.transfer import transferred
from baselines.bench.units import Cell, Training, Unit
from baselines.experiment.environments import factory
from baselines.experiment.experiment import Experiment
from baselines.experiment.progress import Progress, silent
from baselines.experiment.scenario_lists import scenario_list
from baselines.experiment.source_commit import source_commit
from baselines.experiment.trained_team import TeamSettings
from baselines.experiment.training import train
from baselines.results.bench_records import CELL_SCHEMA, curve_of
from marft_agents.metric_names import TOKENS_TOTAL
from marft_agents.monitoring.cost_ledger import ledger_of
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.runs.evaluation import Evaluation, evaluate
from marft_agents.runs.run_folder import read_metrics, versions, write_json
from marft_agents.runs.validation import validations
from marft_agents.trajectory import Trajectory

TRAINING_SCHEMA = "marft.bench.training/1"
RECORDS = ("cells", "trainings", "tune")  # folders of records
VOTE_SEEDS = 1000  # samples of a vote with evaluation seed s are drawn with the seeds (s + 1) * VOTE_SEEDS + i


@dataclasses.dataclass(frozen=True)
class Folder:
    """Folder of a benchmark's results; cells of the grid are apart from those of the test.

    Attributes:
        path: Path of the folder, with records and run folders.
    """

    path: Path

    def record(self, unit: Unit) -> Path:
        """Return the path of a unit's record."""
        kind = "trainings" if isinstance(unit, Training) else "cells" if unit.trial is None else "tune"
        return self.path / kind / f"{unit.name}.json"

    def run(self, training: str) -> Path:
        """Return the run folder of a training, with its checkpoints."""
        return self.path / "runs" / training

    def read(self, name: str) -> dict[str, Any]:
        """Return the record of a unit by name."""
        for kind in RECORDS:
            file = self.path / kind / f"{name}.json"
            if file.is_file():
                found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
                return found
        raise FileNotFoundError(f"{self.path} has no record of {name}")


def run_unit(plan: BenchPlan, unit: Unit, folder: Folder, command: str, progress: Progress = silent) -> None:
    """Run a training or a cell, and write its record; an error becomes the record's cause of failure.

    Args:
        plan: Plan of the benchmark.
        unit: Training or cell.
        folder: Folder of the results.
        command: Command line, for the record.
        progress: Gets the events of a training.
    """
    started, cpu = time.perf_counter(), _cpu_seconds()
    try:
        result = _train(plan, unit, folder, progress) if isinstance(unit, Training) else _play(plan, unit, folder)
        failure = None
    except Exception as error:  # of one unit of many: the others go on, and a resume tries this one again
        if os.environ.get("MARFT_DEBUG"):
            raise
        result, failure = {}, f"{type(error).__name__}: {error}"
    record = head(plan, unit, command) | result | {"failure": failure}
    seconds = time.perf_counter() - started
    record["seconds"] = max(seconds, _seconds_of_updates(result))  # those before a kill were in another process
    record["cpu_seconds"] = (_cpu_seconds() - cpu) * record["seconds"] / seconds
    write_json(folder.record(unit), record)


def head(plan: BenchPlan, unit: Unit, command: str) -> dict[str, Any]:
    """Return the fields of a record that are known before its unit runs."""
    about = dataclasses.asdict(unit)
    if isinstance(unit, Cell):
        about["cell"] = about.pop("name")
        about["training_seed"] = about.pop("seed")
        about["evaluation_seeds"] = list(_evaluation_seeds(plan, unit))
    if unit.trial is None:
        del about["trial"]
    return {
        "schema": CELL_SCHEMA if isinstance(unit, Cell) else TRAINING_SCHEMA,
        "plan": plan.name,
        "plan_checksum": plan.checksum,
        **about,
        "command": command,
        "commit": source_commit(),
        "versions": versions(),
    }


def _seconds_of_updates(result: Mapping[str, Any]) -> float:
    """Return the seconds of all updates of a training; 0 of a cell, which is played whole or not at all."""
    ledger = result.get("ledger", {})
    return float(ledger.get("seconds/rollout", 0.0) + ledger.get("seconds/update", 0.0))


def _cpu_seconds() -> float:
    """Return the user and system seconds of this process and of those that it has waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + (children.ru_utime + children.ru_stime)


# ------------------------------------------------------------------ training


def _train(plan: BenchPlan, training: Training, folder: Folder, progress: Progress) -> dict[str, Any]:
    """Train a team, or go on with its training after a kill."""
    tuned = _tuned(plan.task(training.task), training, folder)
    experiment = training_experiment(plan, training, folder)
    run = folder.run(training.name)
    if training.equal_updates and not run.is_dir():
        _copy_shorter(folder, training, experiment)
    resume = (run / "config.json").is_file()
    if training.arm == RFT:
        train_on_solved(experiment, run, resume=resume, progress=progress)
    elif training.arm == TRL:
        from baselines.bench.trl_training import train_with_trl  # imports the trainer of transformers

        train_with_trl(experiment, run, progress=progress)
    else:
        train(experiment, run, resume=resume, progress=progress, curve=False)  # the folder is deleted later
    metrics = read_metrics(run)
    return tuned | {
        "experiment": dataclasses.replace(experiment, algorithm=training.algorithm).to_dict(),
        "budget_tokens": experiment.schedule.budget_tokens,
        "tokens": int(metrics[-1][TOKENS_TOTAL]),
        "updates": len(metrics),
        "success": [metric["team/success"] for metric in metrics],
        "tokens_by_update": [metric[TOKENS_TOTAL] for metric in metrics],
        "ledger": _training_ledger(metrics),
        **_validation(metrics),
    }


def _validation(metrics: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return success on held-out tasks by generated tokens; nothing where the training has no validation."""
    points = validations(metrics)
    if not points:
        return {}
    tokens = [0, *(int(metric[TOKENS_TOTAL]) for metric in metrics)]  # after so many updates
    return {"validation": {"tokens": [tokens[done] for done, _ in points], "success": [s.mean for _, s in points]}}


def _copy_shorter(folder: Folder, training: Training, experiment: Experiment) -> None:
    """Let a training go on from one that differs in its length alone, where that one is shorter and still there."""
    shorter = folder.run(training.matched[1])
    done = folder.read(training.matched[1])["updates"]
    if done > (experiment.schedule.updates or 0) or experiment.learner.lr_schedule != "constant":
        return
    if shorter.is_dir():
        copy = folder.path / f"{training.name}.part"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(shorter, copy)
        copy.rename(folder.run(training.name))  # a kill leaves no half of a copy there


def training_experiment(plan: BenchPlan, training: Training, folder: Folder) -> Experiment:
    """Return the configuration of a training; its length may be that of the training that it needs."""
    task = plan.task(training.task)
    budget, updates = task.plan.training_tokens, None
    if training.equal_updates:
        budget, updates = 0, folder.read(training.matched[0])["updates"]
    elif training.matched:
        budget = folder.read(training.matched[0])["tokens"]
    settings = _tuned(task, training, folder).get("settings", {})
    if training.trial is not None and task.plan.tune is not None:
        budget = task.plan.tune.tokens
    if training.arm in task.controls:
        team = task.controls[training.arm].team
    else:
        team = task.solo if training.solo else task.teams[training.team]
    return task.experiment(
        team,
        plan.solo_algorithms[0] if training.arm in OTHER_TRAINERS else training.algorithm,
        training.seed,
        max_new_tokens=training.max_new_tokens,
        sharing=training.sharing,
        budget=budget,
        updates=updates,
        arm=training.arm or TEAM,
        settings=settings,
    )


def _tuned(task: BenchTask, training: Training, folder: Folder) -> dict[str, Any]:
    """Return the fields of a record about settings that differ from the task's: what they are, and the grid.

    The best cell of the grid is chosen by its success on validation problems; of equal ones the first.
    """
    arm = training.settings_of
    tried: Mapping[str, Any] = {}
    about: dict[str, Any] = {}
    if training.trial is not None:
        tried = task.grid(arm)[training.trial]
    elif training.trials:
        grid = []
        for settings, name in zip(task.grid(arm), training.trials, strict=True):
            cell = folder.read(name)
            grid.append({"settings": settings, "success": _success(cell), "tokens": cell["training_tokens"]})
        tried = max(grid, key=lambda cell: cell["success"])["settings"]
        about["tuned"] = {"grid": grid, "chosen": tried}
    if own := task.settings(arm, tried):
        about["settings"] = own
    return about


def _success(cell: Mapping[str, Any]) -> float:
    """Return the mean success in the record of a cell; failed episodes solve nothing."""
    return float(np.mean([value or 0.0 for row in cell["scores"] for value in row]))


def _training_ledger(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the sums of all updates: tokens and calls of the team, and seconds."""
    total: dict[str, float] = {}
    for line in metrics:
        for name, value in line.items():
            if name.startswith("seconds/") or (name.startswith("team/") and name.endswith("_sum")):
                total[name] = total.get(name, 0.0) + value
    return total


# ------------------------------------------------------------------ arms


@dataclasses.dataclass(frozen=True)
class Stage:
    """An arm that is ready to be played: environment, test problems and players."""

    make_env: Callable[[], Any]
    options: Sequence[Mapping[str, Any]]
    players: LanguageModelTeam
    max_turns: int

    def play(self, seeds: Sequence[int], make_env: Callable[[], Any] | None = None) -> Evaluation:
        """Play every problem once per seed, in batches that do not depend on the clock."""
        return evaluate(
            make_env or self.make_env,
            self.players,
            self.options,
            seeds=seeds,
            patience=math.inf,
            max_turns=self.max_turns,
        )


def _play(plan: BenchPlan, cell: Cell, folder: Folder) -> dict[str, Any]:
    """Play an arm; return scores, cohorts, ledger and what was measured."""
    task = plan.task(cell.task)
    stage = _stage(plan, cell, folder)
    play = {SHUFFLED: _play_shuffled, VOTE: _play_vote, RANDOM_ROUTER: _play_random_router}.get(cell.arm, _play_plainly)
    scores, trajectories, extra = play(plan, cell, folder, stage)
    training = folder.read(cell.training) if cell.training else None
    causes: list[str] = []
    actions = cut = 0  # those that tokens were sampled for, and of these the ones that the limit ended
    for trajectory in trajectories:
        if trajectory.failure is not None:
            causes.append(trajectory.failure)
        for turn in trajectory.turns:
            if len(turn.action.token_ids):
                actions += 1
                cut += not turn.action.stopped
    played = scenario_list(stage.make_env(), stage.options, task.plan.env)
    about = {key: training[key] for key in ("settings", "tuned") if training is not None and key in training}
    return about | {
        "rules": _rules(task, cell, stage),
        "scenarios": {"count": len(stage.options), "checksum": played.checksum},
        "cohorts": {name: list(values) for name, values in played.cohorts.items()},
        "scores": [[None if math.isnan(value) else value for value in row] for row in scores.tolist()],
        "answers": int(scores.size),
        "output_tokens_per_answer": _tokens(trajectories) * len(trajectories) / scores.size,
        "cap_hit_share": cut / actions if actions else 0.0,
        "failed_episodes": len(causes),
        "first_cause": causes[0] if causes else None,
        "training_tokens": None if training is None else training["tokens"],
        "training_updates": None if training is None else training["updates"],
        "training_episodes": None if training is None else training["ledger"].get("team/episodes_sum"),
        "training_seconds": None if training is None else training["seconds"],
        "curve": None if training is None else curve_of(training),
        "ledger": {
            "training": None if training is None else training["ledger"],
            "evaluation": ledger_of(trajectories, stage.players.caches).to_dict(),
        },
        **extra,
    }


def _rules(task: BenchTask, cell: Cell, stage: Stage) -> dict[str, Any]:
    """Return what must agree between arms that are compared, for the record of a cell."""
    plan, players = task.plan, stage.players
    rules: dict[str, Any] = {"env": plan.env, "data": plan.data, "model": plan.model}
    # Left out where they are not used: so are they in records made before they existed.
    if plan.models:
        rules["models"] = dict(plan.models)
    if plan.dtype != "auto":
        rules["dtype"] = plan.dtype
    if plan.context_window:
        rules["context_window"] = task.window(EQUAL_UPDATES.get(cell.arm, cell.arm))
    tools = {tuple(profile["tools"]) for profile in task.teams[cell.team]["profiles"]}
    return rules | {
        "horizon": task.horizon,
        "feedback": plan.feedback,
        "max_new_tokens": players.sampling.max_new_tokens,
        "temperature": players.sampling.temperature,
        "agents": len(players.agents),
        "divided_tools": len(tools) > 1,
    }


def _stage(plan: BenchPlan, cell: Cell, folder: Folder) -> Stage:
    """Build environment and players of an arm."""
    task = plan.task(cell.task)
    arm = EQUAL_UPDATES.get(cell.arm, cell.arm)
    team = task.solo if arm in (SOLO, VOTE, *OTHER_TRAINERS) else task.teams[cell.team]
    if arm in task.controls:
        team = task.controls[arm].team
    experiment = task.experiment(
        team,
        plan.solo_algorithms[0] if arm in OTHER_TRAINERS else cell.algorithm or plan.algorithms[0],
        cell.seed or 0,
        max_new_tokens=task.most_tokens(arm, cell.team),
        sharing="shared" if cell.arm == SHARED else "separate",
        budget=1,
        arm=arm,
        settings=folder.read(cell.training).get("settings") if cell.training else None,
    )
    validation = cell.trial is not None
    players = TeamSettings(
        experiment.models,
        dataclasses.replace(experiment.sampling, temperature=task.plan.temperature),
        experiment.context,
        experiment.lora,
        experiment.sharing,
        folder.run(cell.training) if cell.training else None,
        experiment.remote,
        experiment.dtype,
    ).load([profile["name"] for profile in team["profiles"]])
    keywords = task.keywords(task.split(validation=validation), team, arm)
    if cell.arm == MUTED:
        keywords["communication"] = "none"
    if cell.arm in TRANSFERS:
        team, old_names = transferred(team, cell.arm)
        keywords["team"] = team
        players = players.renamed(old_names)
    if cell.arm == ANONYMOUS:
        team, old_names = anonymous(team, task.solo)
        keywords = renamed_keywords({**keywords, "team": team}, old_names)
        players = players.renamed(old_names)
    make_env = factory(experiment.env, keywords)
    return Stage(make_env, task.scenarios(make_env(), validation=validation), players, experiment.schedule.max_turns)


def _evaluation_seeds(plan: BenchPlan, cell: Cell) -> Sequence[int]:
    """Return the seeds of the sampling of a cell; those of the grid have one."""
    tune = plan.task(cell.task).plan.tune
    return plan.evaluation_seeds if cell.trial is None or tune is None else (tune.seed,)


Played = tuple[np.ndarray[Any, np.dtype[np.float64]], Sequence[Trajectory], dict[str, Any]]


def _play_plainly(plan: BenchPlan, cell: Cell, folder: Folder, stage: Stage) -> Played:
    result = stage.play(_evaluation_seeds(plan, cell))
    return result.scores, result.trajectories, {}


def _play_shuffled(plan: BenchPlan, cell: Cell, folder: Folder, stage: Stage) -> Played:
    """Play every problem twice: once to record what agents hear, once with another episode's teammates."""
    columns: list[Any] = []  # scores [scenarios, 1] of each seed
    trajectories: list[Trajectory] = []  # of the second pass: its tokens are those of the arm
    for seed in plan.evaluation_seeds:
        heard: dict[str, dict[str, list[Heard]]] = {}
        stage.play([seed], lambda heard=heard: HeardMessages(stage.make_env(), heard))  # type: ignore[misc]
        donor_of = donor_scenarios(stage.options, seed)
        result = stage.play(
            [seed],
            lambda heard=heard, donor_of=donor_of: ShuffledTeammates(stage.make_env(), heard, donor_of),  # type: ignore[misc]
        )
        columns.append(result.scores)
        trajectories += result.trajectories
    return np.concatenate(columns, axis=1), trajectories, {}


def _play_random_router(plan: BenchPlan, cell: Cell, folder: Folder, stage: Stage) -> Played:
    """Play every problem once per seed, with routes drawn by that seed."""
    columns: list[Any] = []
    trajectories: list[Trajectory] = []
    for seed in plan.evaluation_seeds:
        result = stage.play([seed], lambda seed=seed: RandomRouter(stage.make_env(), seed))  # type: ignore[misc]
        columns.append(result.scores)
        trajectories += result.trajectories
    return np.concatenate(columns, axis=1), trajectories, {}


def _play_vote(plan: BenchPlan, cell: Cell, folder: Folder, stage: Stage) -> Played:
    """Play every problem k times per seed, and score the majority's choice."""
    team, solo = (folder.read(name)["output_tokens_per_answer"] for name in cell.matched)
    k = samples_to_match(team, solo)
    tasks = voting_tasks(stage.make_env())
    assert tasks is not None  # the plan refuses tasks without a vote
    columns: list[list[float]] = []
    trajectories: list[Trajectory] = []
    for seed in plan.evaluation_seeds:
        result = stage.play([(seed + 1) * VOTE_SEEDS + sample for sample in range(k)])
        count = len(stage.options)  # trajectories come seed by seed, so every `count`-th is of the same scenario
        columns.append([vote_score(result.trajectories[i::count], tasks) for i in range(count)])
        trajectories += result.trajectories
    ratio = _tokens(trajectories) * k / team if team else math.nan
    return np.asarray(columns, np.float64).T, trajectories, {"vote": {"samples": k, "tokens_ratio": ratio}}


# ------------------------------------------------------------------ measures


def _tokens(trajectories: Sequence[Trajectory]) -> float:
    counts = [trajectory.num_tokens for trajectory in trajectories if trajectory.failure is None]
    return float(np.mean(counts)) if counts else 0.0
