"""Checks of the arguments of a game, and the size of the spaces that follows from them."""

from __future__ import annotations

from collections.abc import Collection
from operator import index as as_index
from typing import Any

from marft_envs.game.task import Tasks, least_rounds

_MAX_OPENING_CHARS = 2**24
_AUTHOR_CHARS = 64  # room for the line that names the author of a message


def positive(value: Any, name: str) -> int:
    """Return a whole number of at least 1.

    Raises:
        ValueError: It is none.
    """
    try:
        number = as_index(value)
    except TypeError as error:
        raise ValueError(f"{name}: found {value!r}, wanted a whole number of at least 1") from error
    if number < 1:
        raise ValueError(f"{name}: found {number}, wanted at least 1")
    return number


def one_of(value: Any, allowed: Collection[Any], name: str) -> Any:
    """Return a value that is allowed.

    Raises:
        ValueError: It is not.
    """
    if value not in allowed:
        raise ValueError(f"{name}: found {value!r}, wanted one of {', '.join(map(repr, allowed))}")
    return value


def check_tasks(tasks: Tasks, horizon: int) -> None:
    """Require a task to play, and rounds enough for it.

    Raises:
        ValueError: Otherwise.
    """
    rounds = least_rounds(tasks)
    if horizon < rounds:
        raise ValueError(f"horizon: found {horizon}, wanted at least {rounds}: so long is a game of {tasks.name}")
    if not len(tasks):
        raise ValueError(f"the task set {tasks.name!r} is empty: give data with at least one task")


def longest_conversation(agents: int, horizon: int, max_action_chars: int) -> int:
    """Return a number of characters that holds all messages of a game.

    A round adds at most one message of each agent and a few of the environment. Those of the environment get the room
    of one more action a round, and are short beside the room for the opening.

    Args:
        agents: Number of agents.
        horizon: Number of rounds.
        max_action_chars: Most characters of an action.
    """
    return _MAX_OPENING_CHARS + horizon * (agents + 1) * (max_action_chars + _AUTHOR_CHARS)
