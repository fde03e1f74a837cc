"""Scripted oracle policy: solves every task of the worlds through the ordinary game, with any capable team.

It knows the reference calls of a task and the owner of each tool. It writes each call in the format that models use,
hands control over where another agent owns the next tool, and finishes. `script` plans a whole game of hand-offs;
`next_action` plays one turn of any game.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marft_envs.dependency.routed import Routed
from marft_envs.game.episode import Episode
from marft_envs.tasks.tools.calls import Call, CallError, read_calls
from marft_envs.tasks.tools.tool_access import FINISH
from marft_envs.tasks.tools.turn_taking import HAND_OFF

if TYPE_CHECKING:
    from marft_envs.game import FlexMG
    from marft_envs.tasks.tools.tasks import ToolTasks

Action = tuple[str, str]
IDLE = "I have nothing to add."


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
    tasks = getattr(game.tasks, "graded", game.tasks)  # without a grader around them
    owned, holder = tasks.surface.owned[game.task.world], env.agent_selection
    left = list(game.task.reference if calls is None else calls)
    actions: list[Action] = []
    while True:
        owner = _owner(owned, holder, left)
        actions.append((holder, _turn(owned, holder, left, game.task.answer)))
        if owner == holder and len(left) <= 1 and FINISH.name in owned[holder]:
            return actions
        holder, left = owner, left[1:] if owner == holder else left


def next_action(tasks: ToolTasks, game: FlexMG, agent: str) -> str:
    """Return the action with which an agent plays its part of the reference, given what was called so far.

    Without hand-offs several agents act in a round. Then the owner of the next call makes it, and others are idle. An
    orchestrator routes to the owner.

    Args:
        tasks: The tasks, bound to the team.
        game: Game with these tasks, after reset.
        agent: Agent whose turn it is.

    Raises:
        ValueError: No agent owns a tool that is needed.
    """
    task = tasks[game.task_index]
    owned = tasks.surface.owned[task.world]
    left = _left(game, task.reference)
    owner = _owner(owned, agent, left)
    routes = isinstance(game.dependency, Routed) and agent == game.dependency.by
    if routes and owner != agent:
        return route_to(game, owner)
    if HAND_OFF not in owned[agent] and owner != agent:
        return IDLE
    action = _turn(owned, agent, left, task.answer)
    return f"{action}\n{route_to(game)}" if routes else action


def route_to(game: FlexMG, agent: str | None = None) -> str:
    """Return the route of an orchestrator that lets an agent act, beside an answering one if it does not answer."""
    dependency: Any = game.dependency
    answering = sorted(game.team.roster.answering - {dependency.by})
    named = [agent] if agent in answering else [*([agent] if agent else []), answering[-1]]
    return f"-> {', '.join(named)}"


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


def _turn(owned: Mapping[str, Mapping[str, Any]], holder: str, left: Sequence[Call], answer: str) -> str:
    """Return what the holder of control writes: the next call, a hand-off to its owner, or `finish`."""
    owner = _owner(owned, holder, left)
    if owner != holder:
        message = f"Please do {_written(left[0])}" if left else "All is done."
        return _written(Call(HAND_OFF, {"to": owner, "message": message}))
    lines = [_written(call) for call in left[:1]]
    if len(left) <= 1 and FINISH.name in owned[holder]:
        lines.append(_written(Call(FINISH.name, {"answer": answer} if answer else {})))
    return "\n".join(lines)


def _left(game: FlexMG, reference: Sequence[Call]) -> Sequence[Call]:
    """Return the calls of the reference that nobody has made yet; those of the running round count as made."""
    record = game.episode()
    running = len(game.plans) - 1
    made = [
        (event["name"], event["arguments"])
        for outcome in record.outcomes
        for event in (outcome.events if outcome is not None else ())
        if event["kind"] == "call" and event["status"] == "ok"
    ]
    for turn in record.turns:
        if turn.round == running:
            made += [(call.name, call.arguments) for call in _calls_in(turn.action)]
    place = 0
    for name, arguments in made:
        if place < len(reference) and (name, arguments) == (reference[place].name, reference[place].arguments):
            place += 1
    return reference[place:]


def _calls_in(action: str) -> list[Call]:
    try:
        return read_calls(action)
    except CallError:
        return []


def _owner(owned: Mapping[str, Mapping[str, Any]], holder: str, left: Sequence[Call]) -> str:
    """Return the agent that makes the next call: the holder of control if it owns the tool, else the first owner."""
    tool = left[0].name if left else FINISH.name
    for agent in (holder, *owned):
        if tool in owned.get(agent, ()):
            return agent
    raise ValueError(f"no agent of the team owns the tool {tool!r}; give it to one in its profile")


def _written(call: Call) -> str:
    """Write a call in Python syntax, with the literals of JSON."""
    arguments = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"
