"""Factory and registration of the environments of the suite: `marft/{task}_{team}-v{N}`.

All are v0, but `codeforces` is v1; its v0 can still be made, with a warning.

`make` returns the game behind PettingZoo's `OrderEnforcingWrapper`. The bounds wrapper of PettingZoo is left out on
purpose. The game itself takes every string (too long is cut and counted) and names the agent when an action is not a
string.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from gymnasium import logger
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from marft_envs.dependency import as_dependency
from marft_envs.game import FlexMG
from marft_envs.registry import AnyAEC, EnvSpec, check_id, newest, register, spec
from marft_envs.session import WorldSet
from marft_envs.task import TaskSet
from marft_envs.tasks.math import KINDS, MathTasks
from marft_envs.team import PRESETS, Team, as_team
from marft_envs.tools.binding import TeamTools
from marft_envs.wrappers.shared_policy import SharedPolicyEnv
from marft_envs.wrappers.turn_parallel import TurnParallel

Tasks = TaskSet | WorldSet


def make(env_id: str, **kwargs: Any) -> AnyAEC:
    """Make an AEC environment; a deprecated one gives a warning (`UserWarning`).

    Args:
        env_id: Id such as `marft/math_duo-v0`; without a version the newest.
        **kwargs: Keywords of every Flex-MG: data, split, team, dependency, horizon, reward, feedback, communication,
            max_action_chars, render_mode; and those of its tasks (of codeforces: judge, languages, grading).

    Raises:
        UnknownEnvironmentError: No such id; names the close ones.
        TypeError: An unknown keyword; names the close ones.

    Example:
        >>> env = make("marft/math_duo-v0", horizon=2)  # doctest: +SKIP
    """
    return OrderEnforcingWrapper(_make_bare(env_id, kwargs))


def make_parallel(env_id: str, **kwargs: Any) -> ParallelEnv[Any, Any, Any]:
    """Make an environment with PettingZoo's parallel interface, in which one agent is active per step."""
    return TurnParallel(make(env_id, **kwargs))


def make_shared(env_id: str, **kwargs: Any) -> SharedPolicyEnv:
    """Make an environment with Gymnasium's interface, in which one policy plays all agents."""
    return SharedPolicyEnv(make(env_id, **kwargs))


def _make_bare(env_id: str, kwargs: Mapping[str, Any]) -> AnyAEC:
    found = spec(env_id)
    if found.deprecated:
        logger.warn(
            "The environment %s is out of date: %s. You should consider upgrading to %s; their results differ.",
            found.id,
            found.deprecated,
            newest(found).id,
            stacklevel=3,
        )
    entry_point = _resolve(found.entry_point)
    given = {**found.kwargs, **kwargs}
    _check_keywords(entry_point, given, found.id)
    env = entry_point(**given)
    if not isinstance(env, AECEnv):
        raise TypeError(f"{found.id}: its entry point made a {type(env).__name__}, wanted a PettingZoo AECEnv")
    return env


def make_game(
    task: str,
    team_name: str,
    *,
    name: str,
    language: str = "en",
    family: str = "math",
    factory: Callable[..., Tasks],
    rules: Mapping[str, Any] | None = None,
    data: Any = "embedded",
    split: str = "train",
    team: Any = None,
    **kwargs: Any,
) -> FlexMG:
    """Make the bare game of a task and a team; the entry point of all environments `marft/{task}_{team}`.

    Args:
        task: Name of the task, for the registry.
        team_name: Name of the preset team.
        name: Id of the environment.
        language: Language of the preset team.
        family: Family of the preset team.
        factory: `factory(data=..., split=...)` returns the task set; further keywords that it names are the user's.
        rules: Keywords of the factory that the version decides, and not the user.
        data: "embedded", "embedded:NAME", a path to JSON, JSONL, CSV or Parquet, a folder with one such file a split,
            "hub:owner/name", or a set of tasks itself.
        split: Split of the data.
        team: A `Team`, its JSON form, a path or the name of another preset; None is the preset.
        **kwargs: Keywords of `FlexMG` and of the factory.

    Raises:
        TypeError: Keywords of the factory for a task set that is made already.
        ValueError: Such a task set has other rules.
    """
    rules = rules or {}
    own = {key: kwargs.pop(key) for key in (_task_keywords(factory) - set(rules)) & set(kwargs)}
    if isinstance(data, Tasks):
        _check_given(data, own, rules, name)
        tasks = data
    else:
        tasks = factory(data=data, split=split, **own, **rules)
    playing = as_team(team_name if team is None else team, language, family)
    if isinstance(tasks, TeamTools):
        dependency = kwargs.get("dependency")
        tasks = tasks.for_team(playing, None if dependency is None else as_dependency(dependency))
    return FlexMG(tasks, playing, name=name, **kwargs)


def _check_given(tasks: Tasks, own: Mapping[str, Any], rules: Mapping[str, Any], env_id: str) -> None:
    """Require a task set that the user made to follow the version's rules, and no keywords beside it."""
    if own:
        raise TypeError(f"{env_id}: {', '.join(sorted(own))} with a TaskSet as `data`; give it to the task set itself")
    for key, wanted in rules.items():
        if (found := getattr(tasks, key, wanted)) != wanted:
            raise ValueError(
                f"{env_id}: the TaskSet given as `data` has {key}={found!r}, this version wants {key}={wanted!r}; "
                "make the task set so, or take another version of the environment"
            )


def takes(env_id: str, keyword: str) -> bool:
    """Return True if an environment can be made with a keyword.

    Raises:
        UnknownEnvironmentError: No such id.
    """
    found = spec(env_id)
    known = _keywords(_resolve(found.entry_point), found.kwargs)
    return known is None or keyword in known


def _check_keywords(entry_point: Callable[..., Any], given: Mapping[str, Any], env_id: str) -> None:
    known = _keywords(entry_point, given)
    if known is None or not (unknown := [key for key in given if key not in known]):
        return
    public = sorted(known - _HIDDEN)
    close = difflib.get_close_matches(unknown[0], public, n=2)
    takes = ", ".join(public) or "none"
    hint = f"did you mean {' or '.join(close)}?" if close else f"it takes {takes}"
    raise TypeError(f"{env_id}: unknown keyword {unknown[0]!r}; {hint}")


_HIDDEN = {"task", "team_name", "name", "language", "family", "factory", "rules"}


def _keywords(entry_point: Callable[..., Any], given: Mapping[str, Any]) -> set[str] | None:
    """Return all keywords of an entry point; None if it takes any."""
    parameters = inspect.signature(entry_point).parameters.values()
    names = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    if entry_point is make_game:
        of_tasks = _task_keywords(given["factory"]) - set(given.get("rules") or ())
        return names | set(inspect.signature(FlexMG).parameters) - {"tasks"} | of_tasks
    return names if len(names) == len(parameters) else None


def _task_keywords(factory: Callable[..., Tasks]) -> set[str]:
    """Return the keyword-only parameters of a task factory that the game itself does not take."""
    parameters = inspect.signature(factory).parameters.values()
    own = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    return own - set(inspect.signature(make_game).parameters) - set(inspect.signature(FlexMG).parameters)


def _resolve(entry_point: Callable[..., Any] | str) -> Callable[..., Any]:
    if callable(entry_point):
        return entry_point
    module, _, attribute = entry_point.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"the entry point {entry_point!r} cannot be loaded ({error}); it must read 'module:attribute'"
        ) from error
    return found


def register_task(
    name: str,
    factory: Callable[..., Tasks],
    *,
    teams: Mapping[str, Team | str] | Iterable[str] = PRESETS,
    language: str = "en",
    family: str = "math",
    version: int = 0,
    namespace: str = "marft",
    description: str = "",
    deprecated: str = "",
    rules: Mapping[str, Any] | None = None,
    force: bool = False,
    **kwargs: Any,
) -> list[EnvSpec]:
    """Register a task with several teams: `{namespace}/{name}_{team}-v{version}` for each.

    Args:
        name: Name of the task.
        factory: `factory(data=..., split=...)` returns the task set; `data` is "embedded" unless the user says
            otherwise. Its further keyword-only parameters become keywords of `make`.
        teams: Names of presets, or own teams (or paths of their files) by name.
        language: Language of the presets.
        family: Family of the presets: "math", "code" or "tools".
        version: Version N; raise it with any change that can change learning results.
        namespace: First part of the ids.
        description: Description in one line.
        deprecated: Reason for a newer version; making this one gives a warning with it.
        rules: Keywords of the factory that this version decides; `make` does not take them.
        force: True to replace environments with these ids.
        **kwargs: Defaults of the game: horizon, feedback, ...

    Returns:
        The registered specs.

    Raises:
        ValueError: An id is of another form, or taken; then nothing is registered.
    """
    chosen = teams if isinstance(teams, Mapping) else dict.fromkeys(teams)
    ids = {team: f"{namespace}/{name}_{team}-v{version}" for team in chosen}
    for id in ids.values():
        check_id(id, force)
    specs = []
    for team, own in chosen.items():
        id = ids[team]
        fixed = {
            "task": name,
            "team_name": team,
            "name": id,
            "language": language,
            "family": family,
            "factory": factory,
            "rules": rules,
        }
        given = {**kwargs, **fixed} if own is None else {**kwargs, **fixed, "team": own}
        told = {"description": f"{description or name}; {team}", "deprecated": deprecated}
        specs.append(register(id, make_game, kwargs=given, task=name, team=team, force=force, **told))
    return specs


def register_builtin() -> None:
    """Register the environments of the suite; done by `import marft_envs`."""
    for task, language in KINDS.items():
        load = partial(MathTasks.load, task)
        register_task(task, load, language=language, description=_DESCRIPTIONS[task], force=True)
    for version, (rules, deprecated) in enumerate(_CODE_VERSIONS):
        for teams, horizon in ((PRESETS[:2], 1), (PRESETS[2:], 3)):
            register_task(
                "codeforces",
                _load_code,
                teams=teams,
                family="code",
                version=version,
                description="programs for competitive problems, judged on hidden tests (as Codeforces)",
                deprecated=deprecated,
                rules=rules,
                force=True,
                horizon=horizon,
                max_action_chars=65536,
            )
    register_task(
        "tools",
        _load_tools,
        family="tools",
        description="requests to a shop, a desk, a travel agency and a price list, solved with tools",
        force=True,
        horizon=20,
    )


def _load_code(
    data: Any,
    split: str,
    *,
    judge: Any = "auto",
    languages: Any = ("python", "c++"),
    grading: Any = "fraction",
    termination: Any = "examples",
) -> TaskSet:
    """Load `CodeTasks`; the sandbox is imported when it is first needed."""
    from marft_envs.tasks.code import CodeTasks

    return CodeTasks.load(
        "codeforces", data, split, judge=judge, languages=languages, grading=grading, termination=termination
    )


def _load_tools(data: Any, split: str, *, listing: str | None = None, limits: Any = None) -> WorldSet:
    """Load the tasks of the worlds."""
    from marft_envs.worlds import load

    return load(data, split, listing=listing, limits=limits)


# Rules of codeforces by version, and the reason for the newer version.
_CODE_VERSIONS = (
    ({"termination": "solved"}, "hidden tests can reach an agent in a later round"),
    ({"termination": "examples"}, ""),
)
_DESCRIPTIONS = {
    "math": "competition mathematics by subject and level (as MATH)",
    "gsm8k": "school word problems in several steps (as GSM8K)",
    "aime": "olympiad problems with whole-number answers (as AIME)",
    "cmath": "Chinese school word problems by grade (as CMATH)",
}
