"""Factory of environments by id, and registration of a task with several teams: `{namespace}/{task}_{team}-v{N}`.

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
from typing import TYPE_CHECKING, Any

from gymnasium import logger
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from marft_envs.capabilities import AnyAEC, independent_games
from marft_envs.dependency import as_dependency
from marft_envs.game import FlexMG
from marft_envs.registration.registry import EnvSpec, check_id, newest, register, spec
from marft_envs.tasks.base import TaskSet, TeamBound, WorldSet
from marft_envs.teams.team import PRESETS, Team, as_team

if TYPE_CHECKING:
    from marft_envs.rollout.vector_games import VectorGames
    from marft_envs.wrappers import SharedPolicyEnv

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
    from marft_envs.wrappers import TurnParallel

    return TurnParallel(make(env_id, **kwargs))


def make_shared(env_id: str, **kwargs: Any) -> SharedPolicyEnv:
    """Make an environment with Gymnasium's interface, in which one policy plays all agents."""
    from marft_envs.wrappers import SharedPolicyEnv

    return SharedPolicyEnv(make(env_id, **kwargs))


def make_vec(
    env_id_or_factory: str | Callable[..., AnyAEC],
    num_envs: int,
    *,
    threads: int | None = None,
    autoreset: bool = False,
    **kwargs: Any,
) -> VectorGames:
    """Make several games side by side.

    Args:
        env_id_or_factory: An id such as `marft/math_duo-v0`, or a function that makes an AEC environment.
        num_envs: Number of games.
        threads: Number of steps that run at once; None is one per game up to 32, 0 takes every step in the
            caller's thread.
        autoreset: A game that ended begins anew.
        **kwargs: Keywords for the environment.

    Example:
        >>> with make_vec("marft/math_duo-v0", 2) as games:
        ...     [(turn.index, turn.agent) for turn in games.reset(seeds=0)]
        [(0, 'reasoner_0'), (1, 'reasoner_0')]
    """
    from marft_envs.rollout.vector_games import VectorGames

    if isinstance(env_id_or_factory, str):
        make_env = independent_games(partial(make, env_id_or_factory, **kwargs))
    else:
        make_env = partial(env_id_or_factory, **kwargs)
    return VectorGames(make_env, num_envs, threads=threads, autoreset=autoreset)


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
    if isinstance(tasks, TeamBound):
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
