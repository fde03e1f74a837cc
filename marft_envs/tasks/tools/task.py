"""Tool-use task record: initial world state, goal, reference calls and private notes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from marft_envs.game.task import Task
from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.goals import ABSENT, Goal, alike, changes, find


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
        given, copied = dict(self.state), json.loads(self.start)
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
