"""Per-game state of a task: a judge that only sees answers, or a world that agents act on.

The game hands each finished round to its session and gets the outcome back. A set of tasks with `judge` needs
no session of its own: `JudgedSession` is made around it. A set with `begin` keeps a world between rounds (tools, a
database): its sessions are plain data, copied with the game.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast, runtime_checkable

import numpy as np

from marft_envs.plan import Roster
from marft_envs.task import Outcome, Task, TaskSet
from marft_envs.trace import Turn


class Session(Protocol):
    """The task's side of one running game; can be deep-copied and pickled between rounds."""

    @property
    def opening(self) -> Mapping[str, str]:
        """Texts for the system prompts of single agents (their tools, their private resources)."""

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome | None:
        """Process the actions of a round and return the outcome.

        Args:
            turns: Turns of this round, in the order they were taken.
            round: Index of the round, from 0.
            last_round: The horizon ends the game after this round.

        Returns:
            The outcome; None if there was nothing to judge. A function of the session's state and these
            arguments alone.

        Raises:
            JudgeFailure: Our own infrastructure failed; nothing else.
        """


@runtime_checkable
class WorldSet(Protocol):
    """An immutable, indexed set of tasks that are played in a world with state; shared by games and threads."""

    @property
    def name(self) -> str:
        """Short name, e.g. "tools"."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Task: ...

    def index(self, task_id: str, /) -> int:
        """Return the index of a task; raises `UnknownTaskError` for an unknown id."""

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> Session:
        """Start the world of one game; all its randomness comes from the generator."""


@dataclass
class JudgedSession:
    """The session of a set of tasks that only judges answers, without state."""

    tasks: TaskSet
    task: Task
    answering: frozenset[str]
    opening: Mapping[str, str] = field(default_factory=dict)

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome | None:
        """Judge the last answering agent's action; a round without one is judged only if it is the last."""
        answers = [turn.action for turn in turns if turn.agent in self.answering]
        if not answers and not last_round:
            return None
        return self.tasks.judge(self.task, answers[-1] if answers else None, round=round, last_round=last_round)


def begin(tasks: TaskSet | WorldSet, task: Task, roster: Roster, generator: np.random.Generator) -> Session:
    """Start the session of a game."""
    start = getattr(tasks, "begin", None)  # not isinstance: a check of a protocol costs 10 us
    if start is not None:
        session: Session = start(task, roster, generator)
        return session
    return JudgedSession(cast(TaskSet, tasks), task, roster.answering)
