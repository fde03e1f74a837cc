"""Scripted oracle policy of BFCL: the agent with the functions makes the calls that the leaderboard counts as right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from marft_envs.dependency.routed import Routed
from marft_envs.tasks.tools.bfcl.checker import gold_calls
from marft_envs.tasks.tools.bfcl.multi_turn import MultiTurnTasks
from marft_envs.tasks.tools.bfcl.single_turn import BfclTasks
from marft_envs.tasks.tools.bfcl.stateful import reference
from marft_envs.tasks.tools.handoff_dependency import HAND_OFF

if TYPE_CHECKING:
    from marft_envs.game import FlexMG

NO_CALL = "Nothing is to be called."


def next_action(tasks: BfclTasks | MultiTurnTasks, game: FlexMG, agent: str) -> str:
    """Return the action with which an agent plays its part of the solution.

    Args:
        tasks: The tasks, bound to the team.
        game: Game with these tasks, after reset.
        agent: Agent whose turn it is.
    """
    if isinstance(game.dependency, Routed) and agent == game.dependency.by:
        return f"-> {max(game.team.roster.answering - {agent})}"
    if not set(tasks.surface.owned[game.task.id][agent]) - {HAND_OFF}:
        return "The agent with the functions makes the calls."
    if isinstance(tasks, MultiTurnTasks):
        return _next_request(game, tasks)
    entry = tasks.entry(game.task.id)
    return _written((call.name, call.arguments) for call in gold_calls(entry.functions, entry.truth))


def _next_request(game: FlexMG, tasks: MultiTurnTasks) -> str:
    """Return all calls of the running request; once they were made, a text, which ends it."""
    place = tasks.index(game.task.id)
    requests = reference(tasks.category, place)
    outcomes = game.episode().outcomes
    last = outcomes[-1] if outcomes else None
    if last is None:
        return _written(requests[0])
    if last.events:
        return "That is done."
    return _written(requests[round(float(last.detail["progress"]) * len(requests))])


def _written(calls: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    bodies = (json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) for name, arguments in calls)
    return "\n".join(f"<tool_call>{body}</tool_call>" for body in bodies) or NO_CALL
