"""Session of a game in a world: parses and executes calls, returns results to each caller, and grades the state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from marft_envs.game.task import Outcome
from marft_envs.game.turn import Turn
from marft_envs.tasks.tools.calls import Call, CallError, read_calls
from marft_envs.tasks.tools.definition import ArgumentError, Tool
from marft_envs.tasks.tools.execution import Executed, Execution
from marft_envs.tasks.tools.goals import changed, follows, grade_state, same_answer
from marft_envs.tasks.tools.tool_access import FINISH
from marft_envs.tasks.tools.turn_taking import HAND_OFF

if TYPE_CHECKING:
    from marft_envs.tasks.tools.tasks import ToolTask, ToolTasks

Event = dict[str, Any]
_NAME_CHARS = 64


class _Started(NamedTuple):
    tool: Tool
    arguments: dict[str, Any]
    event: Event
    run: Execution


@dataclass
class WorldSession:
    """The world of one game; plain data beside the shared tasks.

    Attributes:
        tasks: Tasks shared by all games.
        task: The task being played.
        agents: Agents in team order.
        rollout: Id unique to this game; for back ends outside of the process.
        state: Current data of the world, as JSON.
        made: The calls that succeeded, in order.
        calls: Number of calls of world tools so far, including those that failed.
        finished: True once an agent ended the episode.
        answer: Answer given with `finish`.
    """

    tasks: ToolTasks
    task: ToolTask
    agents: tuple[str, ...]
    rollout: str
    state: str
    made: list[Call] = field(default_factory=list)
    calls: int = 0
    finished: bool = False
    answer: str = ""

    @property
    def opening(self) -> Mapping[str, str]:
        """Initial message per agent: its tools and the texts for their owners."""
        opening = {}
        for agent in self.agents:
            own = self._tools(agent)
            parts = [self.tasks.surface.opening(self.task.world, agent)]
            for notes in (self.tasks.worlds[self.task.world].handbook, self.task.notes):
                parts += [text for name, text in notes.items() if name in own]
            if any(parts):
                opening[agent] = "\n\n".join(part for part in parts if part)
        return opening

    def _tools(self, agent: str) -> Mapping[str, Tool]:
        return self.tasks.surface.owned[self.task.world][agent]

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Run the calls of a round, in the order of the turns; grade once the episode ends."""
        events = tuple(event for turn in turns for event in self._take(turn))
        return self._grade(ended=self.finished or last_round, events=events, private=told_by_agent(events))

    def _take(self, turn: Turn) -> list[Event]:
        """Run the calls of one action."""
        place = {"agent": turn.agent, "round": turn.round}
        try:
            calls = read_calls(turn.action)
        except CallError as error:
            return [unreadable(error) | place]
        events: list[Event] = []
        started: list[_Started] = []
        for call in calls:
            event, arguments = self._read(call, turn.agent, events)
            tool = self._tools(turn.agent).get(call.name)
            if tool is not None and arguments is not None:
                if not tool.parallel:
                    self._settle(started)
                started.append(self._start(tool, arguments, event, turn.agent))
                if not tool.parallel:
                    self._settle(started)
            events.append(event)
        self._settle(started)
        return [event | place for event in events]

    def _read(self, call: Call, agent: str, before: Sequence[Event]) -> tuple[Event, dict[str, Any] | None]:
        """Return the event of a call, and its arguments if it is executed; `before` are the events of this turn."""
        event: Event = {"kind": "call", "name": call.name[:_NAME_CHARS], "arguments": dict(call.arguments)}
        if self.task.reference and call.name not in (HAND_OFF, FINISH.name):
            event["expected"] = any(wanted.name == call.name for wanted in self.task.reference)
        tool = self._tools(agent).get(call.name)
        if tool is None:
            return event | not_owned(self._tools(agent)), None
        if tool.name == HAND_OFF and not self.finished:
            return hand_over(tool, call, event, before), None
        if refusal := self._refusal(tool, before):
            return event | {"status": "refused", "result": refusal}, None
        try:
            arguments = event["arguments"] = tool.read_arguments(call)
        except ArgumentError as error:
            return event | {"status": "invalid", "result": str(error).removeprefix(f"{tool.name}: ")}, None
        if tool.name == FINISH.name:
            self.finished, self.answer = True, arguments.get("answer", "")
            return {"kind": "finish", "answer": self.answer}, None
        return event, arguments

    def _start(self, tool: Tool, arguments: dict[str, Any], event: Event, agent: str) -> _Started:
        self.calls += 1
        world, limits = self.tasks.worlds[self.task.world], self.tasks.limits
        run = Execution(world, tool, arguments, self.state, limits, caller=agent, rollout=self.rollout)
        return _Started(tool, arguments, event, run)

    def _settle(self, started: list[_Started]) -> None:
        """Complete the events of started calls in the order of the calls, whichever of them ends first."""
        for tool, arguments, event, run in started:
            done = run.result()
            is_changed = done.state != self.state
            if is_changed and tool.parallel:
                done = Executed("error", "the tool may run beside others, so it must not change the world", self.state)
            elif is_changed:
                event["changed"] = changed(json.loads(self.state), json.loads(done.state))
            if done.status == "ok":
                self.made.append(Call(tool.name, arguments))
            self.state = done.state
            event |= {"status": done.status, "result": done.text}
        started.clear()

    def _refusal(self, tool: Tool, before: Sequence[Event]) -> str:
        """Return the reason to refuse a call now; empty if it is allowed."""
        if self.finished:
            return "the episode is over"
        limits = self.tasks.limits
        if tool.name == FINISH.name:
            return ""
        if sum(event["kind"] == "call" for event in before) >= limits.calls_per_turn:
            return f"at most {limits.calls_per_turn} calls in a turn"
        if self.calls >= limits.calls_per_episode:
            return f"the team has made its {limits.calls_per_episode} calls; finish"
        return ""

    def _grade(self, *, ended: bool, events: tuple[Event, ...], private: Mapping[str, str]) -> Outcome:
        after = self.task.state if self.state == self.task.start else json.loads(self.state)
        grade = grade_state(self.task.goal, self.task.state, after)
        met = list(grade.met.values())
        if self.task.answer:
            met.append(self.finished and same_answer(self.answer, self.task.answer))
        reached = sum(met) / len(met) if met else float(self.finished)
        progress = 0.0 if grade.spoilt else reached
        wanted = {call.name for call in self.task.reference}
        selection = sum(call.name in wanted for call in self.made) / len(self.made) if self.made else 0.0
        success = ended and progress == 1.0
        return Outcome(
            reward=progress if ended else 0.0,
            terminated=self.finished or success,  # also where the horizon came before `finish`
            success=success,
            invalid=any(event.get("status") == "unreadable" for event in events),
            verdict=f"{sum(met)} of {len(met)} goals reached." if ended else "",
            detail={
                "progress": progress,
                "spoilt": ", ".join(grade.spoilt),
                "violation": bool(grade.violated),
                "trajectory": follows(self.task.reference, self.made),
                "tool_selection": selection,
                "calls": self.calls,
            },
            private=private,
            events=events,
        )


def unreadable(error: CallError) -> Event:
    """Return the event of an action that begins like a call and cannot be read."""
    return {"kind": "call", "name": "", "arguments": {}, "status": "unreadable", "result": str(error)}


def not_owned(own: Mapping[str, Tool]) -> Event:
    """Return the fields of an unknown tool: they name the agent's own tools, and no tools of others."""
    return {"status": "unknown", "result": f"you have no such tool; yours are {', '.join(own) or 'none'}"}


def look_up_tool(call: Call, own: Mapping[str, Tool], before: Sequence[Event]) -> tuple[Event, Tool | None]:
    """Return the event of a call and its tool; None for a hand-off or an unknown tool, whose event is complete.

    Args:
        call: The call as it was read.
        own: Tools of the calling agent, by name.
        before: Events of this turn so far.
    """
    event: Event = {"kind": "call", "name": call.name[:_NAME_CHARS], "arguments": dict(call.arguments)}
    if call.name not in own:
        return event | not_owned(own), None
    if call.name == HAND_OFF:
        return hand_over(own[HAND_OFF], call, event, before), None
    return event, own[call.name]


def hand_over(tool: Tool, call: Call, event: Event, before: Sequence[Event]) -> Event:
    """Return the event of a hand-off, at most one a turn.

    Args:
        tool: The caller's `hand_off`.
        call: The call as it was read.
        event: Its name and arguments, for a call that is refused.
        before: Events of this turn so far.
    """
    if given := next((one["to"] for one in before if one["kind"] == HAND_OFF), ""):
        return event | {"status": "refused", "result": f"control goes to {given} already"}
    try:
        arguments = tool.read_arguments(call)
    except ArgumentError as error:
        return event | {"status": "invalid", "result": str(error).removeprefix(f"{tool.name}: ")}
    return {"kind": HAND_OFF, "to": arguments["to"], "message": arguments.get("message", "")}


def told_by_agent(events: Iterable[Event]) -> dict[str, str]:
    """Describe the results of calls to their callers: a line for each call, by agent."""
    told: dict[str, list[str]] = {}
    for event in events:
        told.setdefault(event["agent"], []).append(told_of(event))
    return {agent: "\n".join(lines) for agent, lines in told.items()}


def told_of(event: Event) -> str:
    """Describe the result of a call to its agent, in one line."""
    if event["kind"] == "hand_off":
        return f"Control goes to {event['to']}."
    if event["kind"] == "finish":
        return "The episode is over."
    if event["status"] == "ok":
        return f"Result of {event['name']}: {event['result']}"
    return f"Error of {event['name'] or 'your call'}: {event['result']}"
