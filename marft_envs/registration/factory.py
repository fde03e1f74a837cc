"""Factory of environments by id: one game, or many side by side, with the interface that is wanted.

`make` returns the game behind PettingZoo's `OrderEnforcingWrapper`, made faster. The bounds wrapper of PettingZoo is
left out on purpose. The game itself takes every string (too long is cut and counted) and names the agent when an action
is not a string.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from gymnasium import logger
from pettingzoo import AECEnv, ParallelEnv

from marft_common.close_names import close_or_all
from marft_envs.environment_capabilities import AnyAEC, independent_games
from marft_envs.registration.order_enforcing import OrderEnforced
from marft_envs.registration.registry import newest, spec
from marft_envs.registration.task_environment import TaskEnvironment

if TYPE_CHECKING:
    from marft_envs.rollout.vector_games import VectorGames
    from marft_envs.wrappers import SharedPolicyEnv


def make(env_id: str, **kwargs: Any) -> AnyAEC:
    """Make an AEC environment; a deprecated one gives a warning (`UserWarning`).

    Args:
        env_id: Id such as `marft/math_duo-v0`; without a version the newest.
        **kwargs: Keywords of every Flex-MG: data, split, team, dependency, horizon, reward, feedback, communication,
            max_action_chars, render_mode; and those of its tasks (of codeforces: judge, languages, grading).

    Raises:
        UnknownEnvironmentError: No such id; names the close ones.
        TypeError: An unknown keyword; names the close ones.

    Examples:
        >>> env = make("marft/math_duo-v0", horizon=2)  # doctest: +SKIP
    """
    return OrderEnforced(_make_bare(env_id, kwargs))


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

    Examples:
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


def takes(env_id: str, keyword: str) -> bool:
    """Return True if an environment can be made with a keyword.

    Raises:
        UnknownEnvironmentError: No such id.
    """
    found = spec(env_id)
    known = _keywords(_resolve(found.entry_point))
    return known is None or keyword in known


def _check_keywords(entry_point: Callable[..., Any], given: Mapping[str, Any], env_id: str) -> None:
    known = _keywords(entry_point)
    if known is None or not (unknown := [key for key in given if key not in known]):
        return
    raise TypeError(f"{env_id}: unknown keyword {unknown[0]!r}{close_or_all(unknown[0], sorted(known))}")


def _keywords(entry_point: Callable[..., Any]) -> Collection[str] | None:
    """Return all keywords of an entry point; None if it takes any."""
    if isinstance(entry_point, TaskEnvironment):
        return entry_point.keywords
    parameters = inspect.signature(entry_point).parameters.values()
    names = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    return names if len(names) == len(parameters) else None


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
