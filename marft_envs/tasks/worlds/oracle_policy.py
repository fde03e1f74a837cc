"""Scripted oracle policy: solves every task of the worlds through the ordinary game, with any capable team.

It knows the reference calls of a task and the owner of each tool. It writes each call in the format that models use,
hands control over where another agent owns the next tool, and finishes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from marft_envs.records.episode import Episode
from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.handoff_dependency import HAND_OFF
from marft_envs.tasks.tools.tool_access import FINISH

Action = tuple[str, str]


def script(env: Any, calls: Sequence[Call] | None = None) -> list[Action]:
    """Return the turns (agent and action) that solve the task of an environment after reset.

    Args:
        env: Environment with tasks of the worlds, and a hand-off dependency or one agent.
        calls: Calls to make instead of the task's reference.

    Returns:
        Pairs of agent and action, in order: one call a turn, a hand-off in a turn of its own, and `finish` beside
        the last call where its caller may finish.

    Raises:
        ValueError: No agent owns a tool that is needed.
    """
    game = env.unwrapped
    owned, holder = game.tasks.surface.owned[game.task.world], env.agent_selection
    actions: list[Action] = []
    for call in game.task.reference if calls is None else calls:
        owner = _owner(owned, holder, call.name)
        if owner != holder:
            actions.append((holder, _hand_off(owner, f"Please do {_written(call)}")))
        holder = owner
        actions.append((holder, _written(call)))
    owner = _owner(owned, holder, FINISH.name)
    if owner != holder:
        return [*actions, (holder, _hand_off(owner, "All is done.")), (owner, _written(Call(FINISH.name)))]
    last = f"{actions.pop()[1]}\n" if actions else ""
    return [*actions, (holder, last + _written(Call(FINISH.name)))]


def play(env: Any, actions: Sequence[Action]) -> Episode:
    """Play a script through an AEC environment after reset; return the record.

    Raises:
        ValueError: It is the turn of another agent than the script says.
    """
    for number, (agent, action) in enumerate(actions):
        if not env.agents or env.agent_selection != agent:
            turn = env.agent_selection if env.agents else "nobody"
            raise ValueError(f"turn {number}: the script lets {agent} act, but it is the turn of {turn}")
        env.step(action)
    record: Episode = env.unwrapped.episode()
    return record


def _owner(owned: Mapping[str, Mapping[str, Any]], holder: str, tool: str) -> str:
    """Return the agent that makes a call: the holder of control if it owns the tool, else the first owner."""
    for agent in (holder, *owned):
        if tool in owned[agent]:
            return agent
    raise ValueError(f"no agent of the team owns the tool {tool!r}; give it to one in its profile")


def _hand_off(to: str, message: str) -> str:
    return _written(Call(HAND_OFF, {"to": to, "message": message}))


def _written(call: Call) -> str:
    """Write a call in Python syntax, with the literals of JSON."""
    arguments = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"
