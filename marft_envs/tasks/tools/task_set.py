"""Sets of tasks in worlds of tools, graded on the final state.

    tasks = ToolTasks("shop", [Shop], [ToolTask("refund-1", "Ann wants ...", "", "train", world="shop", ...)])
    game = FlexMG(tasks.for_team(team), team, horizon=8)

Only the state at the end is graded, not the calls that led there. The reward is the fraction of goals reached, and 0
if anything else changed. An episode ends when an agent calls `finish`, or with the horizon.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from marft_envs.dependency.base import Roster
from marft_envs.game.task import Outcome, Task
from marft_envs.tasks.tools.execution import ToolLimits
from marft_envs.tasks.tools.session import WorldSession
from marft_envs.tasks.tools.task import ToolTask
from marft_envs.tasks.tools.team_bound_tasks import TeamTools
from marft_envs.tasks.tools.tool_access import BUILT_IN
from marft_envs.tasks.tools.world import WorldKind


class ToolTasks(TeamTools):
    """An immutable set of tasks with their worlds; a `TaskSet` once it is bound to a team.

    Args:
        name: Short name of the set.
        worlds: The worlds of the tasks.
        tasks: At least one task; ids are unique.
        limits: Limits of agents and tools.
        listing: Format in which agents are told of their tools: "schema" or "signature".

    Raises:
        ValueError: Two worlds or tasks have the same name, a task has no world, a world has a tool with the name of a
            built-in one, or `ToolTask.check` refuses a task.
    """

    def __init__(
        self,
        name: str,
        worlds: Iterable[WorldKind],
        tasks: Iterable[ToolTask],
        *,
        limits: ToolLimits | None = None,
        listing: str = "schema",
    ) -> None:
        self.limits = limits or ToolLimits()
        self.worlds: dict[str, WorldKind] = {}
        for world in worlds:
            if world.name in self.worlds:
                raise ValueError(f"two worlds are called {world.name!r}")
            self.worlds[world.name] = world
        self._tasks = tuple(tasks)
        super().__init__(name, [task.id for task in self._tasks], listing)
        self._check()

    def _check(self) -> None:
        for world in self.worlds.values():
            if taken := [name for name in BUILT_IN if name in world.tools()]:
                raise ValueError(f"{self.name}: world {world.name!r} has a tool {taken[0]!r}; that name is built in")
        for task in self._tasks:
            if task.world not in self.worlds:
                raise ValueError(
                    f"{self.name}: task {task.id!r} is played in {task.world!r}; worlds are {', '.join(self.worlds)}"
                )
            task.check()

    def kinds(self) -> list[WorldKind]:
        """Return all worlds of the tasks."""
        return list(self.worlds.values())

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record and the checkpoint: the hash of the tool surface, and the limits."""
        return {**super().settings, "tool_limits": dict(vars(self.limits))}

    def __getitem__(self, index: int, /) -> ToolTask:
        return self._tasks[index]

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> WorldSession:
        """Start the world of one game; nothing in it is random."""
        if not isinstance(task, ToolTask):
            raise TypeError(f"{self.name}: found a {type(task).__name__}, wanted a ToolTask")
        if not set(roster.agents) <= set(self.surface.owned[task.world]):
            raise ValueError(f"{self.name}: bound to another team than the one that plays ({', '.join(roster.agents)})")
        return WorldSession(self, task, roster.agents, uuid.uuid4().hex, task.start)

    def vote(self, outcomes: Sequence[Outcome | None]) -> tuple[dict[str, Any], str]:
        """Return the last value of every place that the calls changed, and the answer given with `finish`."""
        values: dict[str, Any] = {}
        answer = ""
        for outcome in outcomes:
            for event in () if outcome is None else outcome.events:
                values |= dict(event.get("changed", ()))
                answer = event["answer"] if event["kind"] == "finish" else answer
        return values, answer
