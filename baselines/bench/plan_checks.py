"""Checks of a task of a plan: what cannot be trained or played is refused before any model is loaded."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from baselines.bench.arms import (
    ANONYMOUS,
    MUTED,
    OTHER_TRAINERS,
    RFT,
    SHARED,
    SHUFFLED,
    SOLO,
    TEAM,
    TRANSFERS,
    TRL,
    VOTE,
    WHOLE,
)
from baselines.bench.controls import anonymous, renamed_keywords, voting_tasks
from baselines.bench.longest_prompts import check_prompts
from baselines.bench.plan import BenchPlan, BenchTask
from baselines.bench.plan_errors import PlanError, or_refuse
from baselines.bench.plan_tables import TunePlan
from baselines.bench.transfer import transferred
from baselines.experiment.environments import factory
from baselines.experiment.experiment import Experiment
from marft_agents.models.base_settings import Sharing
from marft_common.installation import pip_install
from marft_envs.environment_capabilities import listing_game
from marft_envs.registration.factory import takes


def check_task(plan: BenchPlan, task: BenchTask) -> None:
    """Refuse what cannot be trained or played, before any model is loaded."""
    table = task.plan
    team = next(iter(task.teams.values()))
    env = factory(table.env, task.keywords(table.test_split, team))()
    _check_problems(task, env)
    if table.tune is not None:
        or_refuse("tune", partial(_check_validation_problems, task, env, table.tune))
    if VOTE in plan.arms:
        if voting_tasks(env) is None:
            raise PlanError(
                f"{VOTE}: {table.env} has no vote: wanted a set of tasks with a method vote(outcomes), see "
                "docs/extending.md"
            )
        if not table.temperature:
            raise PlanError(f"{VOTE}: temperature = 0 gives the same answer k times; wanted > 0")
    if MUTED in plan.arms and "communication" in table.keywords and table.keywords["communication"] == "none":
        raise PlanError(f"{MUTED}: the task has communication = 'none' already, so the arm equals {TEAM}")
    if SHUFFLED in plan.arms and len(task.scenarios(env)) < 2:
        raise PlanError(f"{SHUFFLED}: wanted at least 2 test problems, to hear another one's teammate")
    for name in task.teams:
        if {SOLO, VOTE, WHOLE, *OTHER_TRAINERS} & set(plan.arms) and not task.solo_tokens[name]:
            raise PlanError(
                f"{SOLO}: the team {name!r} cannot be matched in tokens: its dependency decides during the game how "
                "many agents act"
            )
    _check_trainings(plan, task)
    forms = [(arm, _form(task, team, arm)) for arm in TRANSFERS if arm in plan.arms for team in task.teams.values()]
    if table.context_window:
        for arm, playing in [*((TEAM, each) for each in task.teams.values()), *forms, *_played_controls(task)]:
            _check_window(task, playing, arm, table.max_new_tokens)
        for each in task.teams.values() if ANONYMOUS in plan.arms else ():
            nameless, old_names = anonymous(each, task.solo)
            _check_window(task, nameless, ANONYMOUS, table.max_new_tokens, old_names)
        if {SOLO, VOTE, *OTHER_TRAINERS} & set(plan.arms):
            _check_window(task, task.solo, SOLO, max(task.solo_tokens.values()))


def _form(task: BenchTask, team: Mapping[str, Any], arm: str) -> dict[str, Any]:
    """Return a team in the form of an arm in `TRANSFERS`, after making a game of it."""
    place = f"{arm}: team {team['name']!r}"
    if "dependency" in task.plan.keywords:
        raise PlanError(f"{place}: the task names a dependency of its own, wanted that of the team")
    form: dict[str, Any] = or_refuse(place, partial(transferred, team, arm))[0]
    or_refuse(place, partial(factory, task.plan.env, task.keywords(task.plan.test_split, form)))
    return form


def _check_trl(task: BenchTask, experiment: Experiment) -> None:
    """Refuse a game of several turns, groups of one, and TRL if it is missing."""
    if task.horizon != 1:
        raise PlanError(
            f"{task.plan.env} is played for {task.horizon} rounds, and a completion of TRL is one turn: wanted "
            f"horizon = 1, or the arm {RFT} in place of {TRL}"
        )
    if experiment.schedule.group_size < 2:
        raise PlanError("group_size = 1: TRL compares the completions of a prompt, wanted >= 2")
    if importlib.util.find_spec("trl") is None:
        raise PlanError(f"the package trl is missing: {pip_install('trl')}")


def _played_controls(task: BenchTask) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the one agents that the world brings, by arm."""
    return [(arm, control.team) for arm, control in task.controls.items()]


def _check_window(
    task: BenchTask, team: Mapping[str, Any], arm: str, tokens: int, old_names: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse a window into which a prompt of an arm does not fit, in test problems or in validation problems.

    Args:
        task: Task whose window is checked.
        team: Team that plays, in its JSON form.
        arm: Name of the arm.
        tokens: Longest turn in tokens.
        old_names: Names that the keywords of the task have for agents of other names.
    """
    if not task.window(arm):
        return
    experiment = task.experiment(team, "marft-a", 0, max_new_tokens=tokens, arm=arm)
    for validation in (False, True) if task.plan.tune is not None else (False,):
        keywords = renamed_keywords(task.keywords(task.split(validation=validation), team, arm), old_names)
        env = factory(experiment.env, keywords)()
        place = f"{'tune: ' if validation else ''}{arm}, {team['name']}"
        or_refuse(place, partial(check_prompts, experiment, env, task.scenarios(env, validation=validation)))


def _check_problems(task: BenchTask, env: Any) -> None:
    """Refuse more test problems than there are, and problems that are also trained on."""
    table, game = task.plan, listing_game(env)
    if game is None:
        return
    if table.problems > len(game.tasks):
        raise PlanError(f"problems = {table.problems}, but the split {table.test_split!r} has {len(game.tasks)}")
    team = next(iter(task.teams.values()))
    trained = listing_game(factory(table.env, task.keywords(table.train_split, team))())
    if trained is None:
        return
    again = _shared(env, task.scenarios(env), {trained.tasks[i].prompt for i in range(len(trained.tasks))})
    if again and not table.test_on_trained:
        raise PlanError(
            f"{again} of the test problems are also trained on; wanted other data, another split, or "
            "test_on_trained = true for games with few tasks"
        )


def _check_validation_problems(task: BenchTask, test_env: Any, tune: TunePlan) -> None:
    """Refuse a grid without validation problems, or with some that are also tested or trained on."""
    table, team = task.plan, next(iter(task.teams.values()))
    test = listing_game(test_env)
    if test is None or not takes(table.env, "split"):
        raise PlanError(f"{table.env} has no splits of listed problems, so there are none to validate on")
    if tune.split == table.test_split:
        raise PlanError(f"split = {tune.split!r} is that of the test problems; wanted another one")
    env = factory(table.env, task.keywords(tune.split, team))()
    game, trained = listing_game(env), listing_game(factory(table.env, task.keywords(table.train_split, team))())
    assert game is not None
    assert trained is not None
    if not len(game.tasks) or tune.problems > len(game.tasks):
        raise PlanError(f"problems = {tune.problems}, but the split {tune.split!r} has {len(game.tasks)}")
    if table.test_on_trained:
        return
    options = task.scenarios(env, validation=True)
    for listed, what in ((test, "test problems"), (trained, "trained on")):
        prompts = {listed.tasks[i].prompt for i in range(len(listed.tasks))}
        if again := _shared(env, options, prompts):
            raise PlanError(
                f"split = {tune.split!r}: {again} of the {len(options)} validation problems are also {what}; wanted "
                "another split, or test_on_trained = true for games with few tasks"
            )


def _shared(env: Any, options: Iterable[Mapping[str, Any]], prompts: Collection[str]) -> int:
    """Return how many problems have one of the prompts; ids differ between splits."""
    game = listing_game(env)
    assert game is not None
    return sum(game.tasks[option["index"]].prompt in prompts for option in options)


def _check_trainings(plan: BenchPlan, task: BenchTask) -> None:
    """Check every kind of training once, with the first seed; nothing is loaded but tokenizers."""
    trains = {TEAM, MUTED, ANONYMOUS, SHUFFLED, *TRANSFERS} & set(plan.arms)
    budget, solos = task.plan.training_tokens, {SOLO, VOTE} & set(plan.arms)
    seed, tokens = plan.training_seeds[0], task.plan.max_new_tokens
    checked: list[tuple[str, str, Experiment]] = []

    def add(place: str, kind: str, team: Mapping[str, Any], algorithm: str, allowed: int, **further: Any) -> None:
        make = partial(task.experiment, team, algorithm, seed, max_new_tokens=allowed, **further)
        checked.append((place, kind, or_refuse(place, partial(make, settings=task.settings(kind)))))
        for tried in task.grid(kind):
            where = f"tune: {place}, {tried}"
            checked.append((where, kind, or_refuse(where, partial(make, settings=task.settings(kind, tried)))))

    for name, team in task.teams.items():
        sharings: list[Sharing] = []
        if trains:
            sharings.append("separate")
        if SHARED in plan.arms:
            sharings.append("shared")
        for each in plan.algorithms:
            for sharing in sharings:
                kind = SHARED if sharing == "shared" else TEAM
                add(f"team {name!r}, {each}, {sharing}", kind, team, each, tokens, sharing=sharing, budget=budget)
        for each in plan.solo_algorithms if solos else ():
            add(f"{SOLO} of {name!r}, {each}", SOLO, task.solo, each, task.solo_tokens[name], budget=budget or 1)
        for arm in OTHER_TRAINERS.keys() & set(plan.arms):
            allowed, each = task.most_tokens(arm, name), plan.solo_algorithms[0]  # its name stands for defaults alone
            add(f"{arm} of {name!r}", arm, task.solo, each, allowed, budget=budget or 1)
        for each in plan.solo_algorithms:
            for arm, agent in _played_controls(task):
                add(f"{arm}, {each}", arm, agent, each, task.most_tokens(arm, name), budget=budget or 1, arm=arm)
        if ANONYMOUS in plan.arms:
            nameless, old_names = anonymous(team, task.solo)
            factory(task.plan.env, renamed_keywords(task.keywords(task.plan.test_split, nameless), old_names))
    for place, kind, experiment in checked:
        or_refuse(place, experiment.check)
        if kind == TRL:
            or_refuse(place, partial(_check_trl, task, experiment))
