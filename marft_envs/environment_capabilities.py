"""Optional capabilities of an environment beyond PettingZoo's interface, declared in its `metadata`.

| key of `metadata` | promise |
|---|---|
| `records_episodes` | `episode()` returns the record of the game so far, an `Episode` |
| `lists_tasks` | `tasks` is an indexed set of tasks, and `reset` takes the option `index` |
| `copies_share_data` | `copy.deepcopy` makes an independent game, which shares large immutable data |
| `dependency_function` | a dependency function decides who sees whom; the game shows it as `FlexMG` does |
| `ready_agents` | `infos[agent]["ready"]` is 1 if it sees no action still to come; `select(agent)` lets it act next |
| `individual_rewards` | the rewards of a step may differ between agents, and each is trained on its own |
| `slow_step` | a step may wait for something, such as a judge: take it in the background |

Any environment may promise these, not only `FlexMG`. Code that needs one asks here, not for the class.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pettingzoo import AECEnv

from marft_envs.game.episode import Episode
from marft_envs.game.task import Task, Tasks

if TYPE_CHECKING:
    from marft_envs.game import FlexMG

AnyAEC = AECEnv[Any, Any, Any]


class RecordsEpisodes(Protocol):
    """A game with a record."""

    def episode(self) -> Episode:
        """Return the record of the game so far."""


class ListsTasks(Protocol):
    """A game that plays a task of an indexed set."""

    @property
    def tasks(self) -> Tasks:
        """All tasks; the option `index` of `reset` selects one."""

    @property
    def task(self) -> Task:
        """The task being played, from the first reset on."""


def recording_game(env: Any) -> RecordsEpisodes | None:
    """Return the game inside of any wrappers if it records episodes, else None."""
    game: RecordsEpisodes | None = _game_with("records_episodes", env)
    return game


def listing_game(env: Any) -> ListsTasks | None:
    """Return the game inside of any wrappers if it has a list of tasks, else None."""
    game: ListsTasks | None = _game_with("lists_tasks", env)
    return game


def dependency_game(env: Any) -> FlexMG | None:
    """Return the game inside of any wrappers if it shows its dependency function, else None."""
    game: FlexMG | None = _game_with("dependency_function", env)
    return game


def pays_individually(env: Any) -> bool:
    """Return True if the game inside of any wrappers promises individual rewards in place of one of the team."""
    return _game_with("individual_rewards", env) is not None


def ready_agents(env: Any) -> list[str]:
    """Return the agents of an AEC environment that may act now, in team order; without the promise the selected one."""
    if not (getattr(env, "metadata", None) or {}).get("ready_agents"):
        return [env.agent_selection]
    infos = env.infos  # once: every wrapper on the way costs a call
    return [agent for agent in env.agents if infos[agent]["ready"]] or [env.agent_selection]


def independent_games(make: Callable[[], AnyAEC]) -> Callable[[], AnyAEC]:
    """Return a function that makes independent environments, by copying the first one where that is allowed.

    Args:
        make: Makes an environment; called at once, so that a mistake is found before the first game.
    """
    first = make()
    return make if _game_with("copies_share_data", first) is None else partial(copy.deepcopy, first)


def _game_with(promise: str, env: Any) -> Any:
    game = env.unwrapped
    metadata = getattr(game, "metadata", None) or {}  # PettingZoo does not require it
    return game if metadata.get(promise) else None
