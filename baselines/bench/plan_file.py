"""Read the plan of a benchmark from TOML.

Whatever cannot be run is refused here, with the reason, before anything is trained.
"""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import marft_envs
from baselines.bench.arms import ARMS, CONTROLS, EQUAL_UPDATES, RANDOM_ROUTER, SOLO, TEAM, VOTE, WHOLE
from baselines.bench.plan import BenchPlan, BenchTask, Control
from baselines.bench.plan_checks import check_task
from baselines.bench.plan_errors import PlanError, or_refuse, refuse_unknown
from baselines.bench.plan_settings import check_arms_of_settings, check_settings
from baselines.bench.plan_tables import NAME, PlanTable, TaskPlan, TunePlan, is_name
from baselines.experiment.environments import current_id
from baselines.programs import ENVIRONMENT
from marft_agents.learning.algorithms import algorithm
from marft_common.close_names import close_or_all
from marft_envs.environment_capabilities import dependency_game
from marft_envs.registration.factory import takes
from marft_envs.registration.task_environment import TaskEnvironment
from marft_envs.teams.team import Team, as_team

OF_THE_BENCH = ("data", "split", "team", "horizon", "feedback")  # keywords that are keys of a task's table


def read_plan(path: Path) -> BenchPlan:
    """Read a plan file and check that all of it can be run.

    Raises:
        PlanError: The plan cannot be run; names the file, the place and the reason.
    """
    try:
        record = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise PlanError(f"{path}: there is no such file; wanted a plan in TOML") from error
    except (OSError, ValueError) as error:
        raise PlanError(f"{path} is no plan in TOML: {error}") from error
    return plan_of(record, str(path))


def plan_of(record: Mapping[str, Any], where: str = "plan") -> BenchPlan:
    """Return the plan of a record, checked as in `read_plan`."""
    top = _read(PlanTable, record, where)
    if not isinstance(record.get("tasks"), list) or not all(isinstance(each, Mapping) for each in record["tasks"]):
        raise PlanError(f"{where}: wanted tables [[tasks]], at least one")
    tables = []
    for place, told in enumerate(record["tasks"]):
        table = _read_task(_with_defaults(told, top.defaults), f"{where}: tasks[{place}]")
        tables.append(dataclasses.replace(table, env=current_id(table.env)))
    for what, values in {
        "arms": top.arms,
        "algorithms": top.algorithms,
        "solo_algorithms": top.solo_algorithms,
        "training_seeds": top.training_seeds,
        "evaluation_seeds": top.evaluation_seeds,
        "names of tasks": [table.name for table in tables],
    }.items():
        if twice := [value for value in dict.fromkeys(values) if list(values).count(value) > 1]:
            raise PlanError(f"{where}: {what}: {twice[0]!r} is given twice, which makes two cells of one name")
    refuse_unknown("arm", top.arms, ARMS, where)
    algorithms = top.solo_algorithms or top.algorithms
    for name in (*top.algorithms, *algorithms):
        or_refuse(where, partial(algorithm, name))
    if RANDOM_ROUTER in top.arms and TEAM not in top.arms:
        raise PlanError(f"{where}: {RANDOM_ROUTER} is compared with the arm {TEAM}: wanted both among the arms")
    if VOTE in top.arms and not {TEAM, SOLO} <= set(top.arms):
        raise PlanError(
            f"{where}: {VOTE} takes as many samples as match the measured tokens of the arms {TEAM} and {SOLO}: "
            "wanted both among the arms"
        )
    for arm, control in EQUAL_UPDATES.items():
        if arm in top.arms and not {TEAM, control} <= set(top.arms):
            raise PlanError(
                f"{where}: {arm} goes on from {control} to the updates of {TEAM}: wanted both among the arms"
            )
    arm_seeds = _arm_seeds(top, where)
    tasks = tuple(or_refuse(f"{where}: task {table.name!r}", partial(_resolved, table, top.arms)) for table in tables)
    plan = BenchPlan(
        name=top.name,
        tasks=tasks,
        arms=top.arms,
        algorithms=top.algorithms,
        solo_algorithms=algorithms,
        training_seeds=top.training_seeds,
        evaluation_seeds=top.evaluation_seeds,
        arm_seeds=arm_seeds,
    )
    if RANDOM_ROUTER in plan.arms and not any(task.is_routed(team) for task in tasks for team in task.teams):
        raise PlanError(f"{where}: {RANDOM_ROUTER}: no team is `routed`, so there are no routes to draw")
    for task in tasks:
        or_refuse(f"{where}: task {task.name!r}", partial(check_task, plan, task))
    return plan


def _with_defaults(task: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's table with the keys that it leaves out; those of tables one by one."""
    found = {**defaults, **task}
    for name in ("settings", "keywords", "tune", "arm_settings"):
        given, own = defaults.get(name), task.get(name)
        if isinstance(given, Mapping) and isinstance(own, Mapping):
            found[name] = {**given, **own}
            if name == "arm_settings":
                for arm in given.keys() & own.keys():
                    if isinstance(given[arm], Mapping) and isinstance(own[arm], Mapping):
                        found[name][arm] = {**given[arm], **own[arm]}
    return found


def _read_task(record: dict[str, Any], where: str) -> TaskPlan:
    """Read a table `[[tasks]]`."""
    if "tune" in record:
        if not isinstance(record["tune"], Mapping):
            raise PlanError(f"{where}: tune = {record['tune']!r}, wanted a table")
        record["tune"] = _read(TunePlan, record["tune"], f"{where}: tune")
    found: TaskPlan = _read(TaskPlan, record, where)
    return found


def _read(kind: type[Any], record: Mapping[str, Any], where: str) -> Any:
    """Read a table into a dataclass; keys are its fields, and the lists of fields that are tuples become tuples."""
    known = {each.name: each for each in dataclasses.fields(kind)}
    for key in record:
        if key not in known:
            raise PlanError(f"{where}: unknown key {key!r}{close_or_all(key, known)}")
    for key in ("name", "env"):
        if key in known and not record.get(key):
            raise PlanError(f"{where}: {key} is missing: wanted {known[key].metadata['wanted']}")
    hints = typing.get_type_hints(kind)
    values = dict(record)
    for key, value in record.items():
        if isinstance(value, list) and typing.get_origin(hints[key]) is tuple:
            values[key] = tuple(value)
    return or_refuse(where, lambda: kind(**values))


def _arm_seeds(top: PlanTable, where: str) -> dict[str, tuple[int, ...]]:
    """Return the training seeds of single arms, each some of those of the plan."""
    found = {}
    for arm, seeds in top.arm_seeds.items():
        if arm not in top.arms:
            raise PlanError(f"{where}: arm_seeds: found {arm!r}, wanted one of the arms {', '.join(top.arms)}")
        if arm not in (*CONTROLS, *EQUAL_UPDATES):
            raise PlanError(f"{where}: arm_seeds: {arm} is needed for every seed: wanted one of {', '.join(CONTROLS)}")
        known = isinstance(seeds, list) and all(type(seed) is int and seed in top.training_seeds for seed in seeds)
        if not seeds or not known:
            raise PlanError(f"{where}: arm_seeds: {arm}: found {seeds!r}, wanted some of {list(top.training_seeds)}")
        found[arm] = tuple(seeds)
    return found


def _check_keys(table: TaskPlan, arms: Iterable[str]) -> None:
    """Refuse settings and keywords that are unknown, or that the bench or the task's own table decides."""
    or_refuse("settings", partial(check_settings, table, table.settings))
    check_arms_of_settings(table, arms)
    for name in OF_THE_BENCH:
        if name in table.keywords:
            raise PlanError(f"keywords: {name} is a key of the task's own table")
    if table.env == ENVIRONMENT:
        raise PlanError(
            "an agent program asks one team, as often as it likes, so no other arm could play it: wanted marft eval "
            "--program of each run, and marft compare between them"
        )
    for name in ("team", "horizon", "feedback"):
        if not takes(table.env, name):
            raise PlanError(f"{table.env} takes no keyword {name!r}: the bench compares teams of one Flex-MG")


def _resolved(table: TaskPlan, arms: Collection[str]) -> BenchTask:
    """Read the teams of a task, and its one agents of some arms, and count rounds and turns."""
    _check_keys(table, arms)
    spec = marft_envs.spec(table.env)
    entry = spec.entry_point
    read = entry.read_team if isinstance(entry, TaskEnvironment) else as_team
    keywords: dict[str, Any] = {"data": table.data} if table.data else {}
    if table.horizon:
        keywords["horizon"] = table.horizon
    keywords |= dict(table.keywords)
    teams: dict[str, Team] = {}
    given_teams = [or_refuse("teams", partial(read, given)) for given in table.teams]
    for team in given_teams or [_game(table.env, keywords).team]:
        if team.name in teams:
            raise PlanError(f"teams: two are called {team.name!r}, which makes two cells of one name")
        if not is_name(team.name):
            raise PlanError(f"teams: the name {team.name!r} cannot be part of a file name: wanted {NAME.pattern}")
        teams[team.name] = team
    agents = list(dict.fromkeys(profile.name for team in teams.values() for profile in team.profiles))
    refuse_unknown("agent", table.models, agents, "models")
    solo = or_refuse("solo", partial(read, table.solo or getattr(entry, "solo", "solo")))
    if len(solo.profiles) != 1:
        raise PlanError(f"solo: {solo.name} has {len(solo.profiles)} agents, wanted 1")
    first = next(iter(teams.values()))
    game = _game(table.env, keywords | {"team": first.to_dict()})
    dependency = game.dependency if "dependency" in table.keywords else None
    written, solo_tokens = {}, {}
    for name, team in teams.items():
        written[name] = team.to_dict()
        solo_tokens[name] = _solo_tokens(team, dependency, game.horizon, table.max_new_tokens)
    found = {arm: _control(table, arm, first, keywords) for arm in CONTROLS if arm in arms}
    return BenchTask(table, written, solo.to_dict(), game.horizon, solo_tokens, found)


def _control(table: TaskPlan, arm: str, team: Team, keywords: Mapping[str, Any]) -> Control:
    """Return the one agent that plays the problems of a task in an environment of its own."""
    known: Mapping[str, str] = getattr(marft_envs.spec(table.env).entry_point, "controls", {})
    if arm not in known:
        raise PlanError(
            f"{arm}: {table.env} has no such control (found {', '.join(known) or 'none'}): wanted a world registered "
            f"with register_task(controls={{{arm!r}: TEAM}}), such as marft/shards_readers2-v0"
        )
    if arm != WHOLE and not table.context_window:
        raise PlanError(f"{arm}: context_window is missing: wanted the window in tokens that the arms share")
    env = known[arm]
    game = _game(env, {name: value for name, value in keywords.items() if name != "horizon"})
    ours, theirs = _game(table.env, {**keywords, "team": team.to_dict()}).tasks, game.tasks
    if len(ours) != len(theirs) or any(ours[i] != theirs[i] for i in range(len(ours))):
        raise PlanError(f"{arm}: {env} plays other problems than {table.env}: wanted the same ones for all arms")
    return Control(env, game.team.to_dict(), game.horizon)


def _game(env_id: str, keywords: Mapping[str, Any]) -> Any:
    """Make the game of a task."""
    try:
        game = dependency_game(marft_envs.make(env_id, **keywords))
    except (TypeError, LookupError, AttributeError, ArithmeticError) as error:
        if "wanted" in str(error) or "unknown keyword" in str(error):
            raise  # an error of the environment says all
        raise PlanError(_wrong_keyword(env_id, keywords, error)) from error
    if game is None:
        raise PlanError(f"{env_id} is no Flex-MG: it has no rounds that all arms could share")
    return game


def _wrong_keyword(env_id: str, keywords: Mapping[str, Any], error: Exception) -> str:
    """Return the message about the keyword without which the environment can be made."""
    wrong = "these"
    for name, value in keywords.items():
        try:
            marft_envs.make(env_id, **{other: given for other, given in keywords.items() if other != name})
        except Exception:  # the reason is another keyword, or several
            continue
        wrong = f"{name} = {value!r}"
    return f"keywords: found {wrong}, which {env_id} cannot use ({error}); wanted a value that its page names"


def _solo_tokens(team: Team, dependency: Any, horizon: int, max_new_tokens: int) -> int:
    """Return the tokens a round that one agent needs to have as many as the team; 0 if turns cannot be counted."""
    chosen = team.dependency if dependency is None else dependency
    plans = [chosen.plan(team.roster, number, ()) for number in range(horizon)]
    if all(len(plan.order) == 1 for plan in plans) and chosen.to_dict().get("kind") in ("handoff", "dialogue"):
        return max_new_tokens  # control passes: one agent acts in each round
    if any(plan.open for plan in plans):
        return 0
    turns = sum(len(plan.order) for plan in plans)
    return -(-turns * max_new_tokens // horizon)  # rounded up
