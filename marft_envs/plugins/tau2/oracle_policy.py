"""Scripted oracle policy of tau2: the reference calls in order, each by the owner of its tool, then the facts."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

from marft_envs.plugins.tau2 import simulation
from marft_envs.plugins.tau2.simulation import ASSISTANT, STOP, USER, side_of
from marft_envs.tasks.tools import write_calls

if TYPE_CHECKING:
    from marft_envs.plugins.tau2.tasks import Tau2Tasks

GO_ON = "Please go on."


def next_action(tasks: Tau2Tasks, index: int, agent: str, observation: Any) -> str:
    """Return the action with which an agent plays its part in a dialogue in team order.

    An agent knows its own pieces of the solution. It begins one when it has heard all messages that come before.

    Args:
        tasks: The tasks, bound to the team.
        index: Index of the task.
        agent: Agent whose turn it is.
        observation: What the agent sees.

    Raises:
        ValueError: No agent owns a tool that is needed.
    """
    heard = own = 0
    for message in observation.messages[observation.fixed_messages :]:
        if message["role"] == "assistant":
            own += 1
        elif message.get("name") in tasks.surface.owned[tasks.domain]:
            heard, own = heard + 1, 0
    before = [place for place, (author, _) in enumerate(_pieces(tasks, index)) if author == agent]
    pieces = [actions for author, actions in _pieces(tasks, index) if author == agent]
    due = [action for mine, place in enumerate(before) if place - mine == heard for action in pieces[mine]]
    return due[own] if own < len(due) else GO_ON


def _pieces(tasks: Tau2Tasks, index: int) -> list[tuple[str, list[str]]]:
    """Return the solution of a task in order: an agent, and its calls up to and including a message."""
    owned = tasks.surface.owned[tasks.domain]
    task = tasks.tau2_task(index)
    left, facts = simulation.reference_of(task), simulation.facts_of(task)
    if strange := [call.name for call in left if not any(call.name in tools for tools in owned.values())]:
        raise ValueError(f"no agent of the team owns the tool {strange[0]!r}; give it to one in its profile")
    closing = USER if tasks.with_user else ASSISTANT
    pieces: list[tuple[str, list[str]]] = []
    for agent in cycle(owned):
        actions = []
        while left and left[0].name in owned[agent]:
            actions.append(write_calls([left.pop(0)]))
        if side_of(agent) == closing and not left and not facts:
            return [*pieces, (agent, [*actions, STOP])]
        if side_of(agent) == ASSISTANT and not left and facts:
            actions.append("; ".join(facts))
            facts = []
        else:
            actions.append(GO_ON)
        pieces.append((agent, actions))
    raise AssertionError("a team has agents")
