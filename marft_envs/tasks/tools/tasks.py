"""Sets of tasks in worlds of tools, graded on the final state.

    tasks = ToolTasks("shop", [Shop], [ToolTask("refund-1", "Ann wants ...", "", "train", world="shop", ...)])
    game = FlexMG(tasks.for_team(team), team, horizon=8)

Only the state at the end is graded, not the calls that led there. The reward is the fraction of goals reached, and 0
if anything else changed. An episode ends when an agent calls `finish`, or with the horizon.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from marft_envs.dependency.base import Dependency, Roster
from marft_envs.game.task import Outcome, Task, UnknownTaskError, places_of
from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.execution import ToolLimits
from marft_envs.tasks.tools.goals import ABSENT, Goal, alike, changes, find
from marft_envs.tasks.tools.session import WorldSession
from marft_envs.tasks.tools.tool_access import BUILT_IN, Surface
from marft_envs.tasks.tools.world import WorldKind
from marft_envs.teams.team import Team


@dataclass(frozen=True)
class ToolTask(Task):
    """One task in a world.

    Attributes:
        answer: Required value of `finish(answer=...)` (see `goals.same_answer`); empty: no answer is required.
        world: Name of the world.
        state: The database at the start, as JSON has it: str keys, lists, str, int, float, bool, None.
        goal: Conditions on the final state. Without values, gone and answer the task is to change nothing
            and to finish.
        reference: Calls that solve the task, in order, with arguments by name; without finish and hand_off.
        notes: Private text of the task (a PIN, a wish), by tool name; only agents that own the tool are told it, at
            the start.
    """

    world: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    goal: Goal = field(default_factory=lambda: Goal({}))
    reference: tuple[Call, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def start(self) -> str:
        """The state as JSON, shared by all games of the task."""
        return json.dumps(self.state, ensure_ascii=False, allow_nan=False)

    def check(self) -> None:
        """Require that the state is plain data and that no goal is reached at the start.

        Raises:
            ValueError: Otherwise; the message names the task and the path.
        """
        try:
            given, copied = dict(self.state), json.loads(self.start)
        except (TypeError, ValueError) as error:
            raise ValueError(f"task {self.id!r}: its state is not plain JSON data: {error}") from error
        if given != copied and (lost := next(changes(given, copied), None)):
            raise ValueError(f"task {self.id!r}: {lost!r} of its state is not plain JSON data")
        for path, value in self.goal.values.items():
            if alike(find(self.state, path), value):
                raise ValueError(f"task {self.id!r}: the goal {path!r} = {value!r} is reached before anything is done")
        for path in self.goal.gone:
            if find(self.state, path) is ABSENT:
                raise ValueError(f"task {self.id!r}: the goal that {path!r} is gone is reached before anything is done")

    def __deepcopy__(self, memo: object) -> ToolTask:
        return self  # data, never changed: copies of games share it


class TeamTools(ABC):
    """Base class of all sets of tool tasks: ids, and the tool surface of a team.

    Attributes:
        name: Short name of the set.
        listing: Format in which agents are told of their tools: "schema" or "signature".
        agents_finish: True if agents end an episode themselves, with `finish`.
    """

    agents_finish: ClassVar[bool] = True

    def __init__(self, name: str, ids: Sequence[str], listing: str) -> None:
        self.name = name
        self.listing = listing
        self._places = places_of(name, ids)
        self._surface: Surface | None = None

    @abstractmethod
    def kinds(self) -> Sequence[WorldKind]:
        """Return all worlds of the tasks."""

    def for_team(self, team: Team, dependency: Dependency | None = None) -> Self:
        """Return the same tasks with the tool surface of a team.

        Args:
            team: Team with profiles that name the tools of each agent.
            dependency: Dependency function of the game; None is the team's own.

        Raises:
            TeamError: See `Surface.of`.
        """
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound._surface = Surface.of(self.kinds(), team, dependency, self.listing, finish=self.agents_finish)
        return bound

    @property
    def surface(self) -> Surface:
        """Tools of each agent in each world.

        Raises:
            ValueError: The tasks are not bound to a team.
        """
        if self._surface is None:
            raise ValueError(f"{self.name}: whose tools? Bind the tasks to a team first: tasks.for_team(team)")
        return self._surface

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record and the checkpoint: the hash of the tool surface."""
        return {"tool_surface": self.surface.sha256}

    def __len__(self) -> int:
        return len(self._places)

    def index(self, task_id: str, /) -> int:
        """Return the index of a task.

        Raises:
            UnknownTaskError: No task has this id.
        """
        if task_id not in self._places:
            raise UnknownTaskError(task_id, self._places, self.name)
        return self._places[task_id]


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
