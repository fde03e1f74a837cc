"""BFCL multi-turn base category: several user requests, with stateful classes really called.

    tasks = MultiTurnTasks()
    game = FlexMG(tasks.for_team(team), team, horizon=40)

A round without calls ends the user's turn: the next request follows. The end of each turn is graded on two conditions.
The state must equal the one that the reference calls reach. The results of the reference calls must be among those of
the team's calls so far. The first turn that fails ends the episode. The reward is the fraction of turns that succeeded.

There are two differences to the original. A call that raises leaves the state unchanged. An unreadable call is an error
that the agent is told; it does not end the turn.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from marft_envs import Outcome, Task, Turn
from marft_envs.dependency import Roster
from marft_envs.plugins.bfcl.oracle_policy import NO_CALL, beside_the_calls
from marft_envs.tasks.tools import (
    Call,
    CallError,
    Event,
    TeamTools,
    Toolbox,
    ToolLimits,
    WorldKind,
    execute,
    look_up_tool,
    read_calls,
    told_by_agent,
    unreadable,
    write_calls,
)

if TYPE_CHECKING:
    from marft_envs import FlexMG
from marft_envs.plugins.bfcl.files import MULTI_TURN, read
from marft_envs.plugins.bfcl.stateful import (
    Made,
    call_method,
    differences,
    methods,
    named_arguments,
    reference,
    replayed,
    shown,
)


class MultiTurnTasks(TeamTools):
    """The entries of a multi-turn category; a `TaskSet` once it is bound to a team.

    Args:
        category: One of the names in `files.MULTI_TURN`.
        limits: Limits of agents and tools.
        listing: Format in which agents are told of the functions: "schema" or "signature".

    Raises:
        PackageError: The package `bfcl-eval` is not installed, in another version, or with other files.
        ValueError: No such category.
    """

    agents_finish = False

    def __init__(
        self, category: str = MULTI_TURN[0], *, limits: ToolLimits | None = None, listing: str = "schema"
    ) -> None:
        if category not in MULTI_TURN:
            raise ValueError(f"bfcl: found the category {category!r}, wanted one of {', '.join(MULTI_TURN)}")
        self.category = category
        self.entries = read(category)
        self.limits = limits or ToolLimits(calls_per_turn=16, calls_per_episode=256, result_chars=16384)
        super().__init__("bfcl_multi_turn", [entry.id for entry in self.entries], listing)

    def kinds(self) -> list[WorldKind]:
        """Return a world for each entry: the methods it allows."""
        return [Toolbox(entry.id, methods(self.category, place)) for place, entry in enumerate(self.entries)]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record and the checkpoint: the hash of the tool surface, and the limits."""
        return {**super().settings, "tool_limits": dict(vars(self.limits))}

    def __getitem__(self, index: int, /) -> Task:
        return Task(self.entries[index].id, self.wish(index, 0), "", "test", {"category": self.category})

    def wish(self, place: int, turn: int) -> str:
        """Return the user's request in a turn."""
        return "\n\n".join(content for _, content in self.entries[place].turns[turn])

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> MultiTurnSession:
        """Start a game; the random parts of the classes use seeds in the files."""
        return MultiTurnSession(self, self.index(task.id), roster.agents, uuid.uuid4().hex)

    def oracle_turn(self, game: FlexMG, agent: str) -> str:
        """Return an agent's action: all calls of the running request; once they were made, a text, which ends it."""
        if said := beside_the_calls(self, game, agent):
            return said
        requests = reference(self.category, self.index(game.task.id))
        outcomes = game.episode().outcomes
        last = outcomes[-1] if outcomes else None
        if last is not None and last.events:
            return "That is done."
        turn = 0 if last is None else round(float(last.detail["progress"]) * len(requests))
        return write_calls(Call(name, arguments) for name, arguments in requests[turn]) or NO_CALL


@dataclass
class MultiTurnSession:
    """One game; plain data beside the shared tasks.

    Attributes:
        tasks: Tasks shared by all games.
        place: Index of the entry.
        agents: Agents in team order.
        rollout: Id unique to this game.
        made: The calls that succeeded, in order.
        results: Their results, as JSON.
        turn: Index of the user's turn, from 0.
        calls: Number of calls in the user's turn.
    """

    tasks: MultiTurnTasks
    place: int
    agents: tuple[str, ...]
    rollout: str
    made: list[Made] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    turn: int = 0
    calls: int = 0

    @property
    def opening(self) -> Mapping[str, str]:
        """Initial message per agent: its functions."""
        told = {agent: self.tasks.surface.opening(self._id, agent) for agent in self.agents}
        return {agent: text for agent, text in told.items() if text}

    @property
    def _id(self) -> str:
        return self.tasks.entries[self.place].id

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Run the calls of a round; without any, the user's turn is over and graded."""
        events = tuple(event for turn in turns for event in self._take(turn))
        self.calls += sum(event["kind"] == "call" for event in events)
        if events and not last_round:
            return self._outcome(events=events, private=told_by_agent(events))
        return self._end_turn(events, last_round)

    def _end_turn(self, events: tuple[Event, ...], last_round: bool) -> Outcome:
        fault = self._fault()
        total = len(self.tasks.entries[self.place].turns)
        if not fault:
            self.turn, self.calls = self.turn + 1, 0
        ended = bool(fault) or self.turn == total or last_round
        return self._outcome(
            events=events,
            reward=self.turn / total if ended else 0.0,
            terminated=bool(fault) or self.turn == total,
            success=self.turn == total,
            observation="" if ended else self.tasks.wish(self.place, self.turn),
            fault=fault,
        )

    def _outcome(self, *, reward: float = 0.0, success: bool = False, fault: str = "", **given: Any) -> Outcome:
        progress = self.turn / len(self.tasks.entries[self.place].turns)
        unread = any(event.get("status") == "unreadable" for event in given["events"])
        detail: dict[str, str | int | float] = {"progress": progress, "fault": fault, "calls": len(self.made)}
        return Outcome(**{"terminated": False, **given}, reward=reward, success=success, invalid=unread, detail=detail)

    def _fault(self) -> str:
        """Return the reason that the user's turn failed; empty if it succeeded."""
        so_far = reference(self.tasks.category, self.place)[: self.turn + 1]
        if so_far[-1] and not self.calls:
            return "nothing was called"
        before = [made for turn in so_far[:-1] for made in turn]
        wanted = replayed(self.tasks.category, self.place, before)
        returned = Counter(shown(call_method(wanted, name, arguments)) for name, arguments in so_far[-1])
        if differ := differences(replayed(self.tasks.category, self.place, self.made), wanted):
            return f"the state differs in {', '.join(differ)}"
        missing = returned - Counter(self.results)
        return f"{missing.total()} results of the reference were not obtained" if missing else ""

    def _take(self, turn: Turn) -> list[Event]:
        place = {"agent": turn.agent, "round": turn.round}
        try:
            calls = read_calls(turn.action)
        except CallError as error:
            return [unreadable(error) | place]
        events: list[Event] = []
        for call in calls:
            events.append(self._run(call, turn.agent, events) | place)
        return events

    def _run(self, call: Call, agent: str, before: Sequence[Event]) -> Event:
        """Run one call; `before` are the events of this turn."""
        own, limits = self.tasks.surface.owned[self._id][agent], self.tasks.limits
        event, tool = look_up_tool(call, own, before)
        if tool is None:
            return event
        if len(before) >= limits.calls_per_turn or len(self.made) >= limits.calls_per_episode:
            return event | {"status": "refused", "result": "too many calls"}
        arguments = event["arguments"] = named_arguments(tool, call.arguments, call.positional)
        state = json.dumps({"category": self.tasks.category, "place": self.place, "made": self.made})
        world = Toolbox(self._id, own)
        done = execute(world, tool, arguments, state, limits, caller=agent, rollout=self.rollout)
        if done.status == "ok":
            self.made.append((call.name, arguments))
            self.results.append(done.text)
        return event | {"status": done.status, "result": done.text}
