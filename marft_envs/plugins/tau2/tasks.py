"""Tasks of a domain of tau2 and the session of one game: calls go to tau2's environment, its evaluators grade."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np

from marft_envs import Outcome, Task, Team, Turn, clean
from marft_envs.dependency import Dependency, Roster
from marft_envs.plugins.tau2 import simulation
from marft_envs.plugins.tau2.files import DOMAINS, POLICIES, VERSION, guidelines, policy, rows
from marft_envs.plugins.tau2.oracle_policy import next_action
from marft_envs.plugins.tau2.simulation import STOP, USER, USER_STOPS, Grade, Reply, Said, side_of
from marft_envs.tasks.tools import (
    ArgumentError,
    Call,
    CallError,
    Event,
    TeamTools,
    Tool,
    Toolbox,
    WorldKind,
    follows,
    not_owned,
    read_calls,
    told_by_agent,
    unreadable,
)

MOST_ERRORS = 10
"""Failed calls that end a game, as in tau2."""
FIRST_WORDS = "A customer has called. The conversation begins."
"""What every agent sees in the place of the problem, which is private: a ticket, or the customer's scenario."""


class Tau2Tasks(TeamTools):
    """Tasks of one domain; a `TaskSet` once it is bound to a team.

    Args:
        domain: "telecom", "retail" or "airline".
        split: "train", "test" or "base" (both); telecom also has "small" and "full".
        listing: Format in which agents are told of their tools: "schema" or "signature".
        policy: Part of the policy that the assistant is told: "full", "main" (telecom without the manual of technical
            support, 17 kB) or "none".

    Raises:
        PackageError: The package is not installed, or another version; the message says how.
        ValueError: No such domain, split or policy.
    """

    agents_finish = False

    def __init__(self, domain: str, split: str = "train", *, listing: str = "schema", policy: str = "full") -> None:
        if domain not in DOMAINS:
            raise ValueError(f"tau2: found the domain {domain!r}, wanted one of {', '.join(DOMAINS)}")
        if policy not in POLICIES:
            raise ValueError(f"tau2_{domain}: policy: found {policy!r}, wanted one of {', '.join(POLICIES)}")
        self.domain = domain
        self.split = split
        self.policy = policy
        self.rows = rows(domain, split)
        self.with_user = True
        super().__init__(f"tau2_{domain}", [row["id"] for row in self.rows], listing)

    def kinds(self) -> list[WorldKind]:
        """Return the only world: the tools of both sides."""
        return [Toolbox(self.domain, {name: tool for name, (_, tool) in simulation.tools_of(self.domain).items()})]

    def for_team(self, team: Team, dependency: Dependency | None = None) -> Self:
        """Return the same tasks for a team; without a customer in it the case is a ticket.

        Raises:
            TeamError: See `Surface.of`.
        """
        bound = super().for_team(team, dependency)
        bound.with_user = any(side_of(agent) == USER for agent in team.roster.agents)
        return bound

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record and the checkpoint: tool surface, policy and version of tau2."""
        return {**super().settings, "policy": self.policy, "tau2": VERSION}

    def __getitem__(self, index: int, /) -> Task:
        row = self.rows[index]
        calls = (row["evaluation_criteria"] or {}).get("actions") or []
        solution = json.dumps([[call["name"], call["arguments"]] for call in calls])
        meta: dict[str, str | int | float] = {"domain": self.domain, "calls": len(calls)}
        return Task(row["id"], str(self.tau2_task(index).user_scenario), solution, self.split, meta)

    def tau2_task(self, index: int) -> Any:
        """Return tau2's own form of a task."""
        return _parsed(self.domain, self.split, index)

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> Tau2Session:
        """Start a game; nothing in it is random."""
        return Tau2Session(self, self.index(task.id), roster.agents)

    def opening(self, index: int, agent: str) -> str:
        """Return the private context of an agent: policy, or guidelines and scenario, and its tools.

        Without a customer in the team the assistant gets the case: tau2's ticket, or else the customer's scenario.
        """
        tools, task = self.surface.owned[self.domain][agent], self.tau2_task(index)
        scenario = str(task.user_scenario)
        if side_of(agent) == USER:
            parts = [guidelines(self.domain, tools=bool(tools)), f"<scenario>\n{scenario}\n</scenario>"]
        else:
            parts = [policy(self.domain, self.policy, solo=not self.with_user)]
            parts += [] if self.with_user else [f"<ticket>\n{(task.ticket or scenario).strip()}\n</ticket>"]
        parts.append(self.surface.opening(self.domain, agent))
        return "\n\n".join(part for part in parts if part)

    def oracle(self, task: Task, agent: str, observation: Any) -> str:
        """Return the next action of the scripted oracle policy; see `next_action`."""
        return next_action(self, self.index(task.id), agent, observation)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # data, never changed: copies of games share it


@lru_cache(maxsize=4096)
def _parsed(domain: str, split: str, index: int) -> Any:
    return simulation.task_of(rows(domain, split)[index])


@dataclass
class Tau2Session:
    """One conversation; plain data beside the shared tasks and the world, which copies make again from the calls.

    Attributes:
        tasks: Tasks shared by all games.
        index: Index of the task.
        agents: Agents in team order.
        said: Messages and calls so far, in order.
        done: Places of the reference actions that were made.
        errors: Calls that failed, could not be read or were refused.
    """

    tasks: Tau2Tasks
    index: int
    agents: tuple[str, ...]
    said: list[Said] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    errors: int = 0
    _world: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._world = simulation.begun(self.tasks.domain, self._task)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_world": None}

    @property
    def world(self) -> Any:
        """tau2's environment after all calls so far."""
        if self._world is None:
            self._world = simulation.begun(self.tasks.domain, self._task)
            for reply in self._replies:
                simulation.run(self._world, reply.side, reply.call)
        return self._world

    @property
    def start(self) -> Outcome:
        """The first round, which tells nothing of the problem."""
        return Outcome(reward=0.0, terminated=False, success=False, invalid=False, observation=FIRST_WORDS)

    @property
    def opening(self) -> Mapping[str, str]:
        """Private context per agent."""
        return {agent: self.tasks.opening(self.index, agent) for agent in self.agents}

    @property
    def _task(self) -> Any:
        return self.tasks.tau2_task(self.index)

    @property
    def _replies(self) -> list[Reply]:
        return [reply for entry in self.said for reply in entry.replies]

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Run the calls of a round and note its messages; grade once one of them ends the conversation."""
        events: list[Event] = []
        stopped = False
        for turn in turns:
            if not stopped:
                made, stopped = self._take(turn)
                events += [event | {"agent": turn.agent, "round": turn.round} for event in made]
        return self._outcome(stopped, events, told_by_agent(events))

    def _take(self, turn: Turn) -> tuple[list[Event], bool]:
        """Return the events of an action, and whether it ends the conversation."""
        side = side_of(turn.agent)
        try:
            calls = read_calls(turn.action)
        except CallError as error:
            self.errors += 1
            return [unreadable(error)], False
        if not calls:
            self.said.append(Said(side, turn.action))
            stops = USER_STOPS if side == USER else () if self.tasks.with_user else (STOP,)
            return [], any(stop in turn.action for stop in stops)
        events, replies = [], []
        for call in calls:
            event, reply = self._run(call, turn.agent)
            self.errors += event["status"] != "ok"
            events.append(event)
            replies += [] if reply is None else [reply]
        if replies:
            self.said.append(Said(side, replies=tuple(replies)))
        return events, False

    def _run(self, call: Call, agent: str) -> tuple[Event, Reply | None]:
        """Run one call; without a reply where it was not given to tau2."""
        event: Event = {"kind": "call", "name": call.name[:64], "arguments": dict(call.arguments)}
        event["expected"] = call.name in {wanted.name for wanted in simulation.reference_of(self._task)}
        own: Mapping[str, Tool] = self.tasks.surface.owned[self.tasks.domain][agent]
        if call.name not in own:
            return event | not_owned(own), None
        try:
            arguments = event["arguments"] = own[call.name].read_arguments(call)
        except ArgumentError as error:
            return event | {"status": "invalid", "result": str(error).removeprefix(f"{call.name}: ")}, None
        checked = Call(call.name, arguments)
        if reason := simulation.refusal(checked):
            return event | {"status": "refused", "result": reason}, None
        reply = simulation.run(self.world, simulation.tools_of(self.tasks.domain)[call.name][0], checked)
        self.done |= simulation.matching(self._task, checked)
        result = clean(reply.content.removeprefix("Error: ") if reply.error else reply.content)
        return event | {"status": "error" if reply.error else "ok", "result": result}, reply

    def _outcome(self, stopped: bool, events: Sequence[Event], private: Mapping[str, str]) -> Outcome:
        given_up = not stopped and self.errors >= MOST_ERRORS
        grade = simulation.grade(self.tasks.domain, self._task, self.said) if stopped else Grade(0.0, ())
        reference = simulation.reference_of(self._task)
        made = [reply.call for reply in self._replies]
        wanted = {call.name for call in reference}
        verdict = f"Too many errors: {self.errors}." if given_up else ""
        if stopped:
            verdict = f"Wrong: {', '.join(grade.failed)}." if grade.failed else "All checks hold."
        return Outcome(
            reward=grade.reward,
            terminated=stopped or given_up,
            success=grade.reward == 1.0,
            invalid=any(event["status"] == "unreadable" for event in events),
            verdict=verdict,
            detail={
                "progress": len(self.done) / len(reference) if reference else 1.0,
                "trajectory": follows(reference, made),
                "tool_selection": sum(call.name in wanted for call in made) / len(made) if made else 0.0,
                "failed": ", ".join(grade.failed),
                "calls": len(made),
                "errors": self.errors,
            },
            private=private,
            events=tuple(events),
        )
