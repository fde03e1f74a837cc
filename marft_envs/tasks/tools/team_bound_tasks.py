"""Base class of tool-task sets: task ids, and the tools that each agent of a team may call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from marft_envs.dependency.base import Dependency
from marft_envs.game.task import UnknownTaskError
from marft_envs.tasks.tools.tool_access import Surface
from marft_envs.tasks.tools.world import WorldKind
from marft_envs.teams.team import Team


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
        self._places = {id: place for place, id in enumerate(ids)}
        self._surface: Surface | None = None
        if len(self._places) < len(ids):
            raise ValueError(f"{name}: two tasks have the same id")

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
