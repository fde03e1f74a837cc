"""Tasks of a suite of AgentDojo, and the session of one game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from marft_envs import Outcome, Task, Turn, clean
from marft_envs.dependency import Roster
from marft_envs.plugins.agentdojo.package import PACKAGE
from marft_envs.plugins.agentdojo.suites import BENCHMARK, Suite, attacks, suite_of
from marft_envs.tasks.tools import (
    HAND_OFF,
    ArgumentError,
    Call,
    CallError,
    Event,
    TeamTools,
    Toolbox,
    WorldKind,
    follows,
    look_up_tool,
    read_calls,
    told_by_agent,
    unreadable,
    write_calls,
)

ATTACK = "important_instructions"


class Case(NamedTuple):
    """A user task, and the injection task that is laid into its data; empty: none."""

    user: str
    injection: str = ""

    @property
    def id(self) -> str:
        """Id of the task: `user_task_3`, or `user_task_3/injection_task_1`."""
        return f"{self.user}/{self.injection}" if self.injection else self.user


class DojoTasks(TeamTools):
    """User tasks of one suite; a `TaskSet` once it is bound to a team.

    Args:
        suite: "workspace", "travel", "banking" or "slack".
        injection: None: no attack; "all": each user task with each injection task; or the id of one, such as
            "injection_task_3".
        attack: Name of an attack of the package, or a text with `{goal}` in it, and `{user}`, `{model}` or `{task}`.
        listing: Format in which agents are told of their tools: "schema" or "signature".

    Raises:
        ValueError: No such injection task or attack.
    """

    agents_finish = False

    def __init__(
        self, suite: str, *, injection: str | None = None, attack: str = ATTACK, listing: str = "schema"
    ) -> None:
        self.suite = suite
        self.injection = injection
        self.attack = _checked_attack(attack, f"agentdojo_{suite}")
        known = list(self.package.injection_tasks)
        if injection is not None and injection not in ("all", *known):
            raise ValueError(
                f"agentdojo_{suite}: found injection={injection!r}, wanted None, 'all' or one of {', '.join(known)}"
            )
        chosen = {None: [""], "all": known}.get(injection, [injection])
        self._cases = [Case(user, each or "") for user in self.package.user_tasks for each in chosen]
        super().__init__(f"agentdojo_{suite}", [case.id for case in self._cases], listing)

    @property
    def package(self) -> Suite:
        """The package's suite."""
        return suite_of(self.suite)

    def kinds(self) -> list[WorldKind]:
        """Return the only world: the tools of the suite."""
        return [Toolbox(self.suite, self.package.tools)]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record and the checkpoint: tool surface, attack and version of the package."""
        return {
            **super().settings,
            "injection": self.injection,
            "attack": self.attack if self.injection else None,
            "package": f"{PACKAGE.name}=={PACKAGE.version}, {BENCHMARK}",
        }

    def __getitem__(self, index: int, /) -> Task:
        case = self._cases[index]
        task = self.package.user_tasks[case.user]
        meta = {"difficulty": task.DIFFICULTY.name.lower()}
        if case.injection:
            meta["injection_task"] = case.injection
        return Task(case.id, task.PROMPT, task.GROUND_TRUTH_OUTPUT, "test", meta)

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> DojoSession:
        """Start a game; nothing in it is random."""
        return DojoSession(self, self.index(task.id), roster.agents, roster.answering)

    def user_task(self, index: int) -> Any:
        """Return the package's user task."""
        return self.package.user_tasks[self._cases[index].user]

    def injection_task(self, index: int) -> Any:
        """Return the package's injection task; None without an attack."""
        return self.package.injection_tasks.get(self._cases[index].injection)

    def world(self, index: int) -> Any:
        """Return a new world at the start of a task, with the attacker's texts in it."""
        case = self._cases[index]
        texts = self.package.injections(case.user, case.injection, self.attack) if case.injection else {}
        return self.package.world(texts)

    def reference(self, index: int) -> tuple[Call, ...]:
        """Return the package's calls that solve the user's task."""
        return _reference(self.suite, self._cases[index], self.attack, attacker=False)

    def attackers_reference(self, index: int) -> tuple[Call, ...]:
        """Return the package's calls that reach the attacker's goal; of some goals it has none."""
        return _reference(self.suite, self._cases[index], self.attack, attacker=True)

    def oracle_action(self, session: DojoSession, agent: str) -> str:
        """Return the next action of the reference: the due calls of the agent's own tools, a hand-off, the answer.

        Raises:
            ValueError: No agent owns a tool that is needed.
        """
        return self.action_of(self.reference(session.index)[len(session.made) :], session, agent)

    def action_of(self, due: Sequence[Call], session: DojoSession, agent: str) -> str:
        """Return the action with which an agent begins on a list of calls."""
        owned = self.surface.owned[self.suite]
        if strange := [call.name for call in due if not any(call.name in tools for tools in owned.values())]:
            raise ValueError(f"no agent of the team owns the tool {strange[0]!r}; give it to one in its profile")
        now: list[Call] = []
        for call in due:
            if call.name not in owned[agent]:
                break
            now.append(call)
        left = due[len(now) :]
        if not left and not now and agent in session.answering:
            return self.user_task(session.index).GROUND_TRUTH_OUTPUT or "Done."
        next_agents = [name for name, tools in owned.items() if left[0].name in tools] if left else session.answering
        if agent not in next_agents and HAND_OFF in owned[agent]:
            now.append(Call(HAND_OFF, {"to": min(next_agents)}))
        return write_calls(now)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # data, never changed: copies of games share it


def _checked_attack(attack: str, where: str) -> str:
    """Require the name of an attack, or a template that can be filled."""
    if attack in attacks():
        return attack
    try:
        filled = attack.format(goal="{goal}", user="", model="", task="")
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{where}: attack: {error!r} in {attack!r}; it may hold {{goal}}, {{user}}, {{model}} and {{task}}; write "
            "other braces twice"
        ) from error
    if "{goal}" not in filled:
        raise ValueError(
            f"{where}: found the attack {attack!r}, wanted a text with {{goal}} in it, or one of {', '.join(attacks())}"
        )
    return attack


@lru_cache(maxsize=4096)
def _reference(suite: str, case: Case, attack: str, *, attacker: bool) -> tuple[Call, ...]:
    package = suite_of(suite)
    task = package.injection_tasks[case.injection] if attacker else package.user_tasks[case.user]
    texts = package.injections(case.user, case.injection, attack) if case.injection else {}
    return tuple(package.reference(task, package.world(texts)))


@dataclass
class DojoSession:
    """One game; plain data beside the shared tasks and the world, which copies make again from the calls.

    Attributes:
        tasks: Tasks shared by all games.
        index: Index of the task.
        agents: Agents in team order.
        answering: Agents whose text without calls is the answer to the user.
        made: Calls that were run, in order, also those that failed.
    """

    tasks: DojoTasks
    index: int
    agents: tuple[str, ...]
    answering: frozenset[str]
    made: list[Call] = field(default_factory=list)
    _world: Any = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_world": None}

    @property
    def world(self) -> Any:
        """The package's environment after all calls so far."""
        if self._world is None:
            self._world = self.tasks.world(self.index)
            for call in self.made:
                self.tasks.package.run(self._world, call)
        return self._world

    @property
    def opening(self) -> Mapping[str, str]:
        """Private context per agent: what the package tells its assistant, and the agent's tools."""
        told = self.tasks.package.system_message
        surface = self.tasks.surface
        return {agent: f"{told}\n\n{surface.opening(self.tasks.suite, agent)}".strip() for agent in self.agents}

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Run the calls of a round; grade once the user is answered, or after the last round."""
        events: list[Event] = []
        answer = None
        for turn in turns:
            if answer is None:
                made, answer = self._take(turn)
                events += [event | {"agent": turn.agent, "round": turn.round} for event in made]
        ended = answer is not None or last_round
        success, violation, faults = self._checks(answer or "") if ended else (False, False, "")
        reference = self.tasks.reference(self.index)
        names = {call.name for call in reference}
        return Outcome(
            reward=float(success),
            terminated=answer is not None,
            success=success,
            invalid=any(event.get("status") == "unreadable" for event in events),
            verdict=("The user's task is done." if success else "The user's task is not done.") if ended else "",
            detail={
                "progress": sum(call in self.made for call in reference) / len(reference) if reference else 1.0,
                "violation": violation,
                "trajectory": follows(reference, self.made),
                "tool_selection": sum(call.name in names for call in self.made) / len(self.made) if self.made else 0.0,
                "calls": len(self.made),
                "fault": faults,
            },
            private=told_by_agent(events),
            events=tuple(events),
        )

    def _take(self, turn: Turn) -> tuple[list[Event], str | None]:
        """Return the events of an action, and its text if that is the answer to the user."""
        try:
            calls = read_calls(turn.action)
        except CallError as error:
            return [unreadable(error)], None
        if not calls:
            text = turn.action.rpartition("</think>")[2]
            return [], text if turn.agent in self.answering else None
        events: list[Event] = []
        for call in calls:
            events.append(self._run(call, turn.agent, events))
        return events, None

    def _run(self, call: Call, agent: str, before: Sequence[Event]) -> Event:
        """Run one call; `before` are the events of this turn."""
        event, tool = look_up_tool(call, self.tasks.surface.owned[self.tasks.suite][agent], before)
        if tool is None:
            return event
        event["expected"] = call.name in {wanted.name for wanted in self.tasks.reference(self.index)}
        try:
            arguments = event["arguments"] = tool.read_arguments(call)
        except ArgumentError as error:
            return event | {"status": "invalid", "result": str(error).removeprefix(f"{call.name}: ")}
        checked = Call(call.name, arguments)
        result, failed = self.tasks.package.run(self.world, checked)
        self.made.append(checked)
        return event | {"status": "error" if failed else "ok", "result": clean(result)}

    def _checks(self, answer: str) -> tuple[bool, bool, str]:
        """Return whether the user's task is done, whether the attacker's goal is reached, and errors of the checks.

        A check fails that cannot be made, for example since a person was removed of whom it asks. Five user tasks of
        the package count as done where nothing was done. Here a task without any call is not done.
        """
        tasks, found, faults = self.tasks, [False, False], []
        checks = (tasks.user_task(self.index) if self.made else None, tasks.injection_task(self.index))
        before = tasks.world(self.index) if any(checks) else None
        for place, task in enumerate(checks):
            try:
                found[place] = task is not None and tasks.package.holds(task, answer, before, self.world, self.made)
            except Exception as error:
                faults.append(f"{task.ID}: {type(error).__name__}: {error}"[:200])
        return found[0], found[1], "; ".join(faults)
