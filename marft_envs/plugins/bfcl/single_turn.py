"""The single-turn categories of BFCL: one question, functions that are described but never run, and the right calls.

    tasks = BfclTasks("parallel")
    game = FlexMG(tasks.for_team(team), team)

Agents with the tool "*" in their profile are told the functions of a question. The calls in the last answering
agent's action are graded against the possible answers. For irrelevance the right answer is to make no call (an
unreadable one is a call).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marft_envs import Outcome, Task, Turn
from marft_envs.dependency import Roster
from marft_envs.plugins.bfcl.oracle_policy import NO_CALL, beside_the_calls
from marft_envs.tasks.tools import Call, CallError, TeamTools, Tool, Toolbox, WorldKind, read_calls, write_calls

if TYPE_CHECKING:
    from marft_envs import FlexMG
from marft_envs.plugins.bfcl.checker import check_calls, gold_calls
from marft_envs.plugins.bfcl.files import SINGLE_TURN, Entry, json_schema, read


class BfclTasks(TeamTools):
    """The entries of one or more single-turn categories; a `TaskSet` once it is bound to a team.

    Args:
        categories: Names of categories; see `files.SINGLE_TURN`.
        listing: Format in which agents are told of the functions: "schema" or "signature".

    Raises:
        PackageError: The package `bfcl-eval` is not installed, in another version, or with other files.
        ValueError: No such category.
    """

    agents_finish = False

    def __init__(self, *categories: str, listing: str = "schema") -> None:
        if unknown := [category for category in categories if category not in SINGLE_TURN]:
            raise ValueError(f"bfcl: found the category {unknown[0]!r}, wanted one of {', '.join(SINGLE_TURN)}")
        self._all = tuple(entry for category in categories or SINGLE_TURN[:1] for entry in read(category))
        super().__init__("bfcl", [entry.id for entry in self._all], listing)

    def kinds(self) -> list[WorldKind]:
        """Return a world for each question: its functions."""
        return [Toolbox(entry.id, {tool.name: tool for tool in map(tool_of, entry.functions)}) for entry in self._all]

    def __getitem__(self, index: int, /) -> Task:
        entry = self._all[index]
        said = "\n\n".join(content for turn in entry.turns for _, content in turn)
        return Task(entry.id, said, "", "test", {"category": entry.id.rsplit("_", 1)[0]})

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> BfclSession:
        """Start a game; nothing in it is random."""
        return BfclSession(self, self.index(task.id), roster.agents, roster.answering)

    def entry(self, task_id: str) -> Entry:
        """Return the entry of a task."""
        return self._all[self.index(task_id)]

    def grade(self, place: int, said: str) -> tuple[str, bool]:
        """Compare an action with the possible answers of an entry.

        Returns:
            The error, empty if the action is right, and whether the action could be read.
        """
        entry = self._all[place]
        try:
            calls = [_by_name(call, entry) for call in read_calls(said)]
        except CallError as error:
            return str(error), False
        if not entry.truth:
            return ("calls were made, none was wanted" if calls else ""), True
        return check_calls(entry.functions, calls, entry.truth), True

    def oracle_turn(self, game: FlexMG, agent: str) -> str:
        """Return the action with which an agent plays its part of the solution."""
        entry = self.entry(game.task.id)
        right = gold_calls(entry.functions, entry.truth)
        return beside_the_calls(self, game, agent) or write_calls(right) or NO_CALL


@dataclass
class BfclSession:
    """One game: it shows the functions once and grades once."""

    tasks: BfclTasks
    place: int
    agents: tuple[str, ...]
    answering: frozenset[str]

    @property
    def opening(self) -> Mapping[str, str]:
        """Initial message per agent with tools: the functions of the question."""
        surface, world = self.tasks.surface, self.tasks[self.place].id
        told = {agent: surface.opening(world, agent) for agent in self.agents}
        return {agent: text for agent, text in told.items() if text}

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome | None:
        """Grade the last answering agent's action; a round without one is graded only if it is the last."""
        answers = [turn.action for turn in turns if turn.agent in self.answering]
        if not answers and not last_round:
            return None
        fault, readable = self.tasks.grade(self.place, answers[-1]) if answers else ("nobody answered", False)
        return Outcome(
            float(not fault),
            True,
            not fault,
            not readable,
            detail={"fault": fault},
            verdict="wrong" if fault else "right",
        )


def tool_of(function: Mapping[str, Any]) -> Tool:
    """Make a tool of a description; it cannot be run."""
    return Tool(function["name"], function["description"], json_schema(function["parameters"]), dict)


def _by_name(call: Call, entry: Entry) -> Call:
    """Name the positional arguments, by their order in the description."""
    if not call.positional:
        return call
    names = [
        name for found in entry.functions if found["name"] == call.name for name in found["parameters"]["properties"]
    ]
    return Call(call.name, {**dict(zip(names, call.positional, strict=False)), **call.arguments})
