"""Plan of a benchmark: tasks x teams x arms x algorithms x seeds, read from TOML.

Whatever cannot be run is refused here, with the reason, before anything is trained.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, get_args

import marft_envs
from baselines.bench.controls import anonymous, voting_tasks
from baselines.bench.longest_prompts import check_prompts
from baselines.experiment.environments import current_id, factory, former_id, scenarios
from baselines.experiment.experiment import DEFAULT_MODEL, SETTINGS, Experiment
from baselines.experiment.presets import PRESETS
from marft_agents.learning.algorithms import algorithm
from marft_agents.models.base_settings import Dtype, Sharing
from marft_agents.setting_fields import check_knobs, knob
from marft_envs.environment_capabilities import dependency_game, listing_game
from marft_envs.registration.factory import takes
from marft_envs.registration.task_environment import TaskEnvironment
from marft_envs.teams.team import Team, as_team

TEAM, SOLO, VOTE, SHARED, UNTRAINED = "team", "solo@tokens", "vote@tokens", "shared", "untrained"
MUTED, ANONYMOUS, SHUFFLED = "muted", "anonymous", "shuffled"
RANDOM_ROUTER = "random_router"
WINDOW, NOTES, WHOLE = "solo@window", "solo@notes", "solo@whole"
CONTROLS = (WINDOW, NOTES, WHOLE)  # one agents with environments of their own, which the world registers
EQUAL_UPDATES: Mapping[str, str] = {f"{arm}@updates": arm for arm in CONTROLS}
ARMS: Mapping[str, str] = {
    TEAM: "the trained team",
    UNTRAINED: "the team before training",
    SOLO: "one agent with the team's training tokens and the team's tokens per answer",
    VOTE: "majority vote over as many samples of that agent as cost the team's output tokens",
    MUTED: "the trained team with D = 0: no agent is shown an action of another",
    ANONYMOUS: "the trained team without role names and profiles: all agents get the profile of the one agent",
    SHUFFLED: "the trained team, each agent hearing the teammates of another episode",
    RANDOM_ROUTER: "the trained team, each route of its orchestrator drawn at random; of routed teams only",
    SHARED: "the team trained with one adapter for all roles",
    WINDOW: "one agent with the team's window and tokens a turn: it reads in rounds of its own and sees its last note",
    NOTES: "the same agent, which sees all of its notes",
    WHOLE: "one agent that sees everything at once, in a window as large as that takes",
    **{arm: f"{control}, trained for as many updates as the team" for arm, control in EQUAL_UPDATES.items()},
}
OF_THE_BENCH = ("data", "split", "team", "horizon", "feedback")  # keywords that are keys of a task's table
_TRAINING_SETTINGS = {each.name for kind, _ in SETTINGS.values() for each in dataclasses.fields(kind)}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class PlanError(ValueError):
    """A plan that cannot be run; names the place, the value found and the value wanted."""


# Checks of the values of a TOML file, whose types nothing has checked; `type(...) is int` excludes true and false.


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _are_some_texts(value: Any) -> bool:
    return _are_texts(value) and bool(value)


def _are_seeds(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(_is_count(item) for item in value)


def _are_models(value: Any) -> bool:
    return isinstance(value, Mapping) and all(_is_text(model) and model for model in value.values())


@dataclass(frozen=True)
class TaskPlan:
    """One task of a plan: a table `[[tasks]]` of the file."""

    name: str = knob("", "name of the task in cells and tables", _is_name, "letters, digits, '_', '.', '-'")
    env: str = knob("", "id of the environment", lambda v: _is_text(v) and bool(v), "the id of an environment")
    data: str = knob("", "data of the environment; empty: its own", _is_text, "a text")
    model: str = knob(DEFAULT_MODEL, "model of all agents", _is_text, "the name of a model")
    models: Mapping[str, str] = knob(
        None,
        "models of single agents of the teams, by agent: MODEL, frozen:MODEL, endpoint:URL#NAME or a2a:URL",
        _are_models,
        "a table of agents and models",
    )
    dtype: Dtype = knob(
        "auto",
        "dtype of the frozen models; auto: bfloat16 on CUDA, float32 on the CPU",
        lambda v: v in get_args(Dtype),
        f"one of {', '.join(get_args(Dtype))}",
    )
    teams: tuple[str, ...] = knob(
        (), "presets or files of the teams; empty: the environment's own team", _are_texts, "a list of presets or files"
    )
    solo: str = knob("", "preset or file of the one agent; empty: the environment's own", _is_text, "a preset or file")
    train_split: str = knob("train", "split that is trained on", _is_text, "a text")
    test_split: str = knob("test", "split that is evaluated on", _is_text, "a text")
    test_on_trained: bool = knob(
        False, "allow test problems that are also trained on", lambda v: isinstance(v, bool), "true or false"
    )
    problems: int = knob(0, "test problems, spread evenly over the split; 0: all", _is_count, ">= 0")
    horizon: int = knob(0, "rounds of every arm; 0: those of the environment", _is_count, ">= 0")
    feedback: str = knob(
        "none", "what all arms are told of a round's verdict", lambda v: v in ("none", "verdict"), "none or verdict"
    )
    max_new_tokens: int = knob(
        16, "longest turn of a team's agent, in tokens", lambda v: _is_count(v) and v >= 1, ">= 1"
    )
    temperature: float = knob(
        0.8, "temperature of the evaluation", lambda v: type(v) in (int, float) and v >= 0, ">= 0"
    )
    training_tokens: int = knob(
        0,
        "generated tokens of every training; 0: teams train for their updates, and the one agent gets as many tokens",
        _is_count,
        ">= 0",
    )
    context_window: int = knob(
        0,
        f"tokens of a prompt and its action together, for every arm but {WHOLE}: a longer prompt is an error; 0: that "
        "of the preset, which shortens prompts",
        _is_count,
        ">= 0",
    )
    preset: str = knob("laptop", "preset of the training", lambda v: v in PRESETS, f"one of {', '.join(PRESETS)}")
    settings: Mapping[str, Any] = knob(
        None, "settings of the training that differ from the preset", _is_table, "a table"
    )
    keywords: Mapping[str, Any] = knob(None, "further keywords of the environment", _is_table, "a table")

    def __post_init__(self) -> None:
        for name in ("models", "settings", "keywords"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        check_knobs(self)


@dataclass(frozen=True)
class Control:
    """One agent that plays the problems of a task in an environment of its own.

    Attributes:
        env: Id of the environment.
        team: The agent, in the JSON form of a team.
        horizon: Rounds of its games.
    """

    env: str
    team: Mapping[str, Any]
    horizon: int


@dataclass(frozen=True)
class BenchTask:
    """A task with its teams read and its rounds known.

    Attributes:
        plan: Its table in the plan.
        teams: Teams by name, in their JSON form.
        solo: The one agent, in its JSON form.
        horizon: Rounds of every arm.
        solo_tokens: Tokens that the one agent may use in a round, by the team it is matched to; 0 where the turns of
            the team cannot be counted.
        controls: One agents by arm, of the arms in `CONTROLS` that are played.
    """

    plan: TaskPlan
    teams: Mapping[str, Mapping[str, Any]]
    solo: Mapping[str, Any]
    horizon: int
    solo_tokens: Mapping[str, int]
    controls: Mapping[str, Control] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.plan.name

    def env(self, arm: str = TEAM) -> str:
        """Return the id of an arm's environment."""
        control = self.controls.get(arm)
        return self.plan.env if control is None else control.env

    def keywords(self, split: str, team: Mapping[str, Any], arm: str = TEAM) -> dict[str, Any]:
        """Return the keywords of `marft_envs.make` for a team; of an arm in `CONTROLS`, with rounds of its own."""
        plan, control = self.plan, self.controls.get(arm)
        own: dict[str, Any] = {"data": plan.data} if plan.data else {}
        horizon = self.horizon if control is None else control.horizon
        own |= {"team": dict(team), "horizon": horizon, "feedback": plan.feedback}
        return own | ({"split": split} if takes(plan.env, "split") else {}) | dict(plan.keywords)

    def most_tokens(self, arm: str, team: str) -> int:
        """Return the longest turn of an arm in tokens: the team's, or for one agent that turns once all of the team's.

        Args:
            arm: Name of the arm.
            team: Team that plays, or that the one agent is matched to.
        """
        return self.solo_tokens[team] if arm in (SOLO, VOTE, WHOLE) else self.plan.max_new_tokens

    def window(self, arm: str = TEAM) -> int:
        """Return the tokens of a prompt and its action together that an arm is held to; 0: nothing is enforced."""
        return 0 if arm == WHOLE else self.plan.context_window

    def is_routed(self, team: str) -> bool:
        """Return True if an orchestrator decides who acts in a team."""
        dependency = self.plan.keywords.get("dependency", self.teams[team].get("dependency"))
        return isinstance(dependency, Mapping) and dependency.get("kind") == "routed"

    def scenarios(self, env: Any) -> list[dict[str, Any]]:
        """Return the reset options of the test problems."""
        return scenarios(env, self.plan.problems or None)

    def experiment(
        self,
        team: Mapping[str, Any],
        algorithm: str,
        seed: int,
        *,
        max_new_tokens: int,
        sharing: Sharing = "separate",
        budget: int = 0,
        updates: int | None = None,
        arm: str = TEAM,
    ) -> Experiment:
        """Return the configuration of a training.

        Args:
            team: The team in its JSON form.
            algorithm: Name of the algorithm.
            seed: Seed of the training.
            max_new_tokens: Longest turn in tokens.
            sharing: "separate" or "shared" adapters.
            budget: Generated tokens after which the training ends; 0: the number of updates ends it.
            updates: Number of updates; None: that of the plan's settings.
            arm: Arm whose environment, rounds and window are used.
        """
        given = {**self.plan.settings, "seed": seed, "max_new_tokens": max_new_tokens}
        if budget:
            given |= {"budget_tokens": budget}
        if updates is not None:
            given |= {"updates": updates}
        if window := self.window(arm):
            given |= {"context_window": window, "overflow": "error"}
        agents = [] if arm in CONTROLS or team == self.solo else [profile["name"] for profile in team["profiles"]]
        own_models = {agent: model for agent, model in self.plan.models.items() if agent in agents}
        return Experiment(
            self.env(arm),
            preset=self.plan.preset,
            keywords=self.keywords(self.plan.train_split, team, arm),
            algorithm=algorithm,
            models={"*": self.plan.model, **own_models},
            sharing=sharing,
            dtype=self.plan.dtype,
            **given,
        )


@dataclass(frozen=True)
class BenchPlan:
    """A plan that can be run.

    Attributes:
        name: Name of the plan.
        tasks: Tasks in the order of the plan.
        arms: Names of `ARMS`.
        algorithms: Algorithms of the teams.
        solo_algorithms: Algorithms of the one agent.
        training_seeds: Seeds of the trainings; the outer level of all statistics.
        evaluation_seeds: Seeds of the sampling in each evaluation.
        arm_seeds: Training seeds of single arms that have fewer, by arm.
    """

    name: str
    tasks: tuple[BenchTask, ...]
    arms: tuple[str, ...]
    algorithms: tuple[str, ...]
    solo_algorithms: tuple[str, ...]
    training_seeds: tuple[int, ...]
    evaluation_seeds: tuple[int, ...]
    arm_seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """Arm that the others are compared with: the one agent, or the first that the world brings."""
        return SOLO if SOLO in self.arms else next((arm for arm in CONTROLS if arm in self.arms), SOLO)

    def plays(self, arm: str, seed: int) -> bool:
        """Return True if an arm is among those of the plan and has a training seed."""
        return arm in self.arms and seed in self.arm_seeds.get(arm, self.training_seeds)

    def task(self, name: str) -> BenchTask:
        """Return a task by name."""
        return next(task for task in self.tasks if task.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a record for JSON, with all teams written out."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        for task in plain["tasks"]:
            table = task["plan"]
            if not table["models"]:  # plans from before there were these two keys keep their checksum
                del table["models"]
            if table["dtype"] == "auto":
                del table["dtype"]
            if not table["context_window"]:
                del table["context_window"]
            if not task["controls"]:
                del task["controls"]
        if not plain["arm_seeds"]:
            del plain["arm_seeds"]
        return plain

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the plan with all teams written out, 16 hexadecimal digits."""
        told = self.to_dict()
        for task in told["tasks"]:  # plans keep the checksum that recorded cells have
            task["plan"]["env"] = former_id(task["plan"]["env"])
        text = json.dumps(told, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_FOR_ANY_TEAM = tuple(arm for arm in ARMS if arm not in (RANDOM_ROUTER, *CONTROLS, *EQUAL_UPDATES))


@dataclass(frozen=True)
class _File:
    """Top level of a plan file."""

    name: str = knob("", "name of the plan", _is_name, "letters, digits, '_', '.', '-'")
    arms: tuple[str, ...] = knob(_FOR_ANY_TEAM, "arms to play", _are_some_texts, f"a list of {', '.join(ARMS)}")
    algorithms: tuple[str, ...] = knob(("marft-a",), "algorithms of the teams", _are_some_texts, "a list of algorithms")
    solo_algorithms: tuple[str, ...] = knob(
        (), "algorithms of the one agent; empty: those of the teams", _are_texts, "a list of algorithms"
    )
    training_seeds: tuple[int, ...] = knob((0,), "training seeds", _are_seeds, "a list of whole numbers >= 0")
    evaluation_seeds: tuple[int, ...] = knob((0,), "sampling seeds", _are_seeds, "a list of whole numbers >= 0")
    arm_seeds: Mapping[str, Any] = knob(
        None, "training seeds of single arms that have fewer, by arm", _is_table, "a table of arms and lists of seeds"
    )
    defaults: Mapping[str, Any] = knob(None, "keys of all tasks; a task's own take precedence", _is_table, "a table")
    tasks: tuple[Any, ...] = field(default=(), metadata={"help": "the tasks"})

    def __post_init__(self) -> None:
        for name in ("defaults", "arm_seeds"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        check_knobs(self)


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
    top = _read(_File, record, where)
    if not isinstance(record.get("tasks"), list) or not all(isinstance(each, Mapping) for each in record["tasks"]):
        raise PlanError(f"{where}: wanted tables [[tasks]], at least one")
    tables = []
    for place, told in enumerate(record["tasks"]):
        table = _read(TaskPlan, _with_defaults(told, top.defaults), f"{where}: tasks[{place}]")
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
    _known("arm", top.arms, ARMS, where)
    algorithms = top.solo_algorithms or top.algorithms
    for name in (*top.algorithms, *algorithms):
        _or_refuse(where, partial(algorithm, name))
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
    controls = [arm for arm in CONTROLS if arm in top.arms]
    tasks = tuple(_or_refuse(f"{where}: task {table.name!r}", partial(_resolved, table, controls)) for table in tables)
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
        _or_refuse(f"{where}: task {task.name!r}", partial(_check_task, plan, task))
    return plan


def _with_defaults(task: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's table with the keys that it leaves out; those of `settings` and `keywords` one by one."""
    found = {**defaults, **task}
    for name in ("settings", "keywords"):
        given, own = defaults.get(name), task.get(name)
        if isinstance(given, Mapping) and isinstance(own, Mapping):
            found[name] = {**given, **own}
    return found


def _read(kind: type[Any], record: Mapping[str, Any], where: str) -> Any:
    """Read a table into a dataclass; keys are its fields, and the lists of fields that are tuples become tuples."""
    known = {each.name: each for each in dataclasses.fields(kind)}
    for key in record:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            raise PlanError(
                f"{where}: unknown key {key!r}; "
                + (f"did you mean {close[0]!r}?" if close else f"wanted one of {', '.join(known)}")
            )
    for key in ("name", "env"):
        if key in known and not record.get(key):
            raise PlanError(f"{where}: {key} is missing: wanted {known[key].metadata['wanted']}")
    hints = typing.get_type_hints(kind)
    values = dict(record)
    for key, value in record.items():
        if isinstance(value, list) and typing.get_origin(hints[key]) is tuple:
            values[key] = tuple(value)
    return _or_refuse(where, lambda: kind(**values))


def _or_refuse(where: str, work: Callable[[], Any]) -> Any:
    """Call `work`; name the place in the message of an input error."""
    try:
        return work()
    except PlanError as error:
        raise PlanError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error
    except (ValueError, TypeError, KeyError, OSError, ImportError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        raise PlanError(f"{where}: {text}") from error


def _known(what: str, found: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse names that are not known, with a close one if there is any."""
    for name in found:
        if name not in known:
            close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
            raise PlanError(f"{where}: unknown {what} {name!r}; {hint}")


def _arm_seeds(top: _File, where: str) -> dict[str, tuple[int, ...]]:
    """Return the training seeds of single arms, each some of those of the plan."""
    found = {}
    for arm, seeds in top.arm_seeds.items():
        if arm not in top.arms:
            raise PlanError(f"{where}: arm_seeds: found {arm!r}, wanted one of the arms {', '.join(top.arms)}")
        if arm not in (*CONTROLS, *EQUAL_UPDATES):
            raise PlanError(f"{where}: arm_seeds: {arm} is needed for every seed: wanted one of {', '.join(CONTROLS)}")
        if not isinstance(seeds, list) or not seeds or not set(seeds) <= set(top.training_seeds):
            raise PlanError(f"{where}: arm_seeds: {arm}: found {seeds!r}, wanted some of {list(top.training_seeds)}")
        found[arm] = tuple(seeds)
    return found


def _check_keys(table: TaskPlan) -> None:
    """Refuse settings and keywords that are unknown, or that the bench or the task's own table decides."""
    _known("setting", table.settings, _TRAINING_SETTINGS, "settings")
    for name in ("seed", "max_new_tokens", "budget_tokens"):
        if name in table.settings:
            raise PlanError(f"settings: {name} is set by the bench; leave it out")
    for name in ("context_window", "overflow"):
        if table.context_window and name in table.settings:
            raise PlanError(f"settings: {name}: context_window is a key of the task, and is the same for all arms")
    for name in OF_THE_BENCH:
        if name in table.keywords:
            raise PlanError(f"keywords: {name} is a key of the task's own table")
    for name in ("team", "horizon", "feedback"):
        if not takes(table.env, name):
            raise PlanError(f"{table.env} takes no keyword {name!r}: the bench compares teams of one Flex-MG")


def _resolved(table: TaskPlan, controls: Iterable[str] = ()) -> BenchTask:
    """Read the teams of a task, and its one agents of some arms, and count rounds and turns."""
    _check_keys(table)
    spec = marft_envs.spec(table.env)
    entry = spec.entry_point
    read = entry.read_team if isinstance(entry, TaskEnvironment) else as_team
    keywords: dict[str, Any] = {"data": table.data} if table.data else {}
    if table.horizon:
        keywords["horizon"] = table.horizon
    keywords |= dict(table.keywords)
    teams: dict[str, Team] = {}
    for team in [read(given) for given in table.teams] or [_game(table.env, keywords).team]:
        if team.name in teams:
            raise PlanError(f"teams: two are called {team.name!r}, which makes two cells of one name")
        if not _is_name(team.name):
            raise PlanError(f"teams: the name {team.name!r} cannot be part of a file name: wanted {_NAME.pattern}")
        teams[team.name] = team
    agents = list(dict.fromkeys(profile.name for team in teams.values() for profile in team.profiles))
    _known("agent", table.models, agents, "models")
    solo = read(table.solo or getattr(entry, "solo", "solo"))
    if len(solo.profiles) != 1:
        raise PlanError(f"solo: {solo.name} has {len(solo.profiles)} agents, wanted 1")
    first = next(iter(teams.values()))
    game = _game(table.env, keywords | {"team": first.to_dict()})
    dependency = game.dependency if "dependency" in table.keywords else None
    written, solo_tokens = {}, {}
    for name, team in teams.items():
        written[name] = team.to_dict()
        solo_tokens[name] = _solo_tokens(team, dependency, game.horizon, table.max_new_tokens)
    found = {arm: _control(table, arm, first, keywords) for arm in controls}
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
    game = dependency_game(marft_envs.make(env_id, **keywords))
    if game is None:
        raise PlanError(f"{env_id} is no Flex-MG: it has no rounds that all arms could share")
    return game


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


def _check_task(plan: BenchPlan, task: BenchTask) -> None:
    """Refuse what cannot be trained or played, before any model is loaded."""
    table = task.plan
    team = next(iter(task.teams.values()))
    env = factory(table.env, task.keywords(table.test_split, team))()
    _check_problems(task, env)
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
        if {SOLO, VOTE, WHOLE} & set(plan.arms) and not task.solo_tokens[name]:
            raise PlanError(
                f"{SOLO}: the team {name!r} cannot be matched in tokens: its dependency decides during the game how "
                "many agents act"
            )
    _check_trainings(plan, task)
    if table.context_window:
        for arm, playing in [*((TEAM, each) for each in task.teams.values()), *_played_controls(task)]:
            if task.window(arm):
                _or_refuse(f"{arm}, {playing['name']}", partial(_check_window, task, playing, arm))


def _played_controls(task: BenchTask) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the one agents that the world brings, by arm."""
    return [(arm, control.team) for arm, control in task.controls.items()]


def _check_window(task: BenchTask, team: Mapping[str, Any], arm: str) -> None:
    """Refuse a window into which a prompt of the test problems does not fit."""
    experiment = task.experiment(team, "marft-a", 0, max_new_tokens=task.plan.max_new_tokens, arm=arm)
    env = factory(experiment.env, task.keywords(task.plan.test_split, team, arm))()
    check_prompts(experiment, env, task.scenarios(env))


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
    seen = {trained.tasks[i].prompt for i in range(len(trained.tasks))}  # prompts: ids differ between splits
    again = 0
    for option in task.scenarios(env):
        if game.tasks[option["index"]].prompt in seen:
            again += 1
    if again and not table.test_on_trained:
        raise PlanError(
            f"{again} of the test problems are also trained on; wanted other data, another split, or "
            "test_on_trained = true for games with few tasks"
        )


def _check_trainings(plan: BenchPlan, task: BenchTask) -> None:
    """Check every kind of training once, with the first seed; nothing is loaded but tokenizers."""
    trains = {TEAM, MUTED, ANONYMOUS, SHUFFLED} & set(plan.arms)
    budget, solos = task.plan.training_tokens, {SOLO, VOTE} & set(plan.arms)
    seed, tokens = plan.training_seeds[0], task.plan.max_new_tokens
    checked: list[tuple[str, Experiment]] = []
    for name, team in task.teams.items():
        sharings: list[Sharing] = []
        if trains:
            sharings.append("separate")
        if SHARED in plan.arms:
            sharings.append("shared")
        for each in plan.algorithms:
            for sharing in sharings:
                found = task.experiment(team, each, seed, max_new_tokens=tokens, sharing=sharing, budget=budget)
                checked.append((f"team {name!r}, {each}, {sharing}", found))
        for each in plan.solo_algorithms if solos else ():
            allowed = task.solo_tokens[name]
            found = task.experiment(task.solo, each, seed, max_new_tokens=allowed, budget=budget or 1)
            checked.append((f"{SOLO} of {name!r}, {each}", found))
        for each in plan.solo_algorithms:
            for arm, agent in _played_controls(task):
                allowed = task.most_tokens(arm, name)
                found = task.experiment(agent, each, seed, max_new_tokens=allowed, budget=budget or 1, arm=arm)
                checked.append((f"{arm}, {each}", found))
        if ANONYMOUS in plan.arms:
            factory(task.plan.env, task.keywords(task.plan.test_split, anonymous(team, task.solo)[0]))
    for place, experiment in checked:
        _or_refuse(place, experiment.check)
