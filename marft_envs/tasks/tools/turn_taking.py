"""Dependency functions of agents with tools, one of which acts per round: hand-offs and dialogues.

Calls of tools decide who acts next, in any format that `calls` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from marft_envs.dependency.base import Dependency, DependencyError, Roster, RoundPlan, Said
from marft_envs.dependency.ordering import make_plan
from marft_envs.tasks.tools.calls import CallError, read_calls
from marft_envs.tasks.tools.definition import ArgumentError, Tool

HAND_OFF = "hand_off"


class Passed(NamedTuple):
    """Hand-off in an action: the receiver (empty: control stays), the message, and the fault."""

    to: str = ""
    message: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Handoff(Dependency):
    """A dependency in which the holder of control decides who holds it next.

    Control passes by a call of `hand_off` in the holder's action:

        <tool_call>{"name": "hand_off", "arguments": {"to": "refunds_0", "message": "..."}}</tool_call>

    The first valid call counts; the receiver is the holder of the next round. It sees the whole action that handed over
    to it, from its round on. With `sees="all"`, all agents see all actions of earlier rounds. Without a valid hand-off
    the holder keeps control. An invalid one is a fault of the action, never an error.

    Attributes:
        start: The first holder; None is the first agent of the team.
        sees: "handoff": a receiver sees the actions that handed over to it; "all": all see all actions of earlier
            rounds.
    """

    start: str | None = None
    sees: str = "handoff"

    def __post_init__(self) -> None:
        if self.sees not in ("handoff", "all"):
            raise DependencyError(f"handoff.sees: found {self.sees!r}, wanted 'handoff' or 'all'")
        if self.start is not None and not isinstance(self.start, str):
            raise DependencyError(f"handoff.start: found {self.start!r}, wanted the name of an agent, or leave it out")

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan for the holder alone; once it has acted, add the agents that see its action from the next round on."""
        holder, acted = self.holder(roster, [turn for turn in turns if turn.round < round]), None
        if turns and turns[-1].round == round:
            acted = turns[-1]
        others = [agent for agent in roster.agents if agent != holder]
        everybody = [(holder, agent) for agent in others] if self.sees == "all" else []
        if acted is None:
            return make_plan(roster, (), active=(holder,), later=everybody, open=True)
        passed = read_hand_off(acted.action, holder, roster)
        later = everybody
        if not everybody and passed.to:
            later = [(holder, passed.to)]
        return make_plan(roster, (), active=(holder,), later=later, fault=passed.fault)

    def holder(self, roster: Roster, turns: Sequence[Said]) -> str:
        """Return the holder of control after these turns."""
        holder = self.start or roster.agents[0]
        for turn in turns:
            holder = read_hand_off(turn.action, turn.agent, roster).to or holder
        return holder

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check the first holder's name and that an answering agent can act in time.

        Raises:
            DependencyError: They do not fit the team.
        """
        start = self.start or roster.agents[0]
        if start not in roster.agents:
            raise DependencyError(
                f"handoff starts with {start!r}: unknown agent; the team has {', '.join(roster.agents)}"
            )
        if not (roster.answering & {start} if horizon == 1 else roster.answering):
            raise DependencyError(
                f"no agent that answers can come to act within {horizon} round(s): control starts with {start}, and "
                f"{sorted(roster.answering) or 'nobody'} answers; give a profile `answers: true`, or more rounds"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        start = {} if self.start is None else {"start": self.start}
        return {"kind": "handoff", **start, "sees": self.sees}


@lru_cache(maxsize=1024)
def hand_off_tool(agent: str, agents: tuple[str, ...]) -> Tool:
    """Return the tool with which an agent passes control to one of the others."""
    properties = {
        "to": {"type": "string", "enum": [other for other in agents if other != agent]},
        "message": {"type": "string", "description": "What the other agent must know; it sees all of this action."},
    }
    schema = {"type": "object", "properties": properties, "required": ["to"], "additionalProperties": False}
    return Tool(HAND_OFF, "Pass control: the other agent acts next, and you wait.", schema, dict)


@lru_cache(maxsize=4096)
def read_hand_off(action: str, agent: str, roster: Roster) -> Passed:
    """Find the first valid hand-off in an action; a fault if there are only invalid ones."""
    try:
        calls = [call for call in read_calls(action) if call.name == HAND_OFF]
    except CallError as error:
        return Passed(fault=str(error) if HAND_OFF in action else "")
    fault = ""
    for call in calls:
        try:
            given = hand_off_tool(agent, roster.agents).read_arguments(call)
        except ArgumentError as error:
            fault = fault or str(error)
        else:
            return Passed(given["to"], given.get("message", ""))
    return Passed(fault=fault)


@dataclass(frozen=True)
class Dialogue(Dependency):
    """A dependency in which agents exchange messages and call their own tools in between.

    An action that calls a tool is seen by nobody else, and its author acts again. An action without a call is a
    message: all others see it from the next round on, and the next agent in team order acts. This is the protocol of
    tau2: a message holds text or calls, and the results of calls go to the caller alone.

    Attributes:
        start: The agent that acts first; None is the first agent of the team.
    """

    start: str | None = None

    def __post_init__(self) -> None:
        if self.start is not None and not isinstance(self.start, str):
            raise DependencyError(f"dialogue.start: found {self.start!r}, wanted the name of an agent, or leave it out")

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan for one agent; once it has said a message, let all others see it from the next round on."""
        before = [turn for turn in turns if turn.round < round]
        speaker = self._speaker(roster, before[-1] if before else None)
        said = [turn for turn in turns if turn.round == round]
        heard = said and is_message(said[-1].action)
        later = [(speaker, agent) for agent in roster.agents if agent != speaker] if heard else []
        return make_plan(roster, (), active=(speaker,), later=later, open=True)

    def _speaker(self, roster: Roster, last: Said | None) -> str:
        """Return the agent that acts after this turn; None is the first round."""
        if last is None:
            return self.start or roster.agents[0]
        agents = roster.agents
        return agents[(agents.index(last.agent) + is_message(last.action)) % len(agents)]

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check the first agent's name and that an agent answers.

        Raises:
            DependencyError: They do not fit the team.
        """
        if self.start is not None and self.start not in roster.agents:
            raise DependencyError(
                f"dialogue starts with {self.start!r}: unknown agent; the team has {', '.join(roster.agents)}"
            )
        if not roster.answering:
            raise DependencyError("no agent of the dialogue answers: give a profile `answers: true`")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"kind": "dialogue"} | ({} if self.start is None else {"start": self.start})


@lru_cache(maxsize=4096)
def is_message(action: str) -> bool:
    """Return True if an action calls no tool; one that begins like a call and cannot be read is no message."""
    try:
        return not read_calls(action)
    except CallError:
        return False
