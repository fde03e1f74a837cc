"""Tasks of PlanCraft as a `TaskSet`, and the session of a game."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from envs_data.packages import Package
from marft_envs import Outcome, Task, Turn, UnknownTaskError
from marft_envs.dependency import Roster

PACKAGE = Package(
    "plancraft",
    "plancraft",
    "0.4.9",
    "pip install 'marft[plancraft]' && pip install --no-deps plancraft==0.4.9",
    needs=("loguru", "networkx", "PIL", "pydantic"),
)
FILES = {  # SHA-256 of the file of each split
    "train": "6ac648167901760ba93ca45769c338274360b76d41d81acc4faa0f80503de872",
    "val": "213a0089aa943508bfc615f56f39889eeb242da4fb0b6af24233fe0999332f6e",
    "test": "e2359f60c015b990859860788992408e587dffc8d710275a1a9f319fbfed00ce",
}
_SEARCH = re.compile(r"search: *(\w+)")


class CraftingTasks:
    """The tasks of one split.

    Args:
        split: "train", "val" or "test".

    Raises:
        PackageError: The package is not installed, in another version, or with other data.
        ValueError: No such split.
    """

    name = "plancraft"

    def __init__(self, split: str = "train") -> None:
        if split not in FILES:
            raise ValueError(f"plancraft: found the split {split!r}, wanted one of {', '.join(FILES)}")
        self.split = split
        self._rows: list[dict[str, Any]] = json.loads(PACKAGE.read(f"data/{split}.json", FILES[split]))
        self._places = {row["id"]: place for place, row in enumerate(self._rows)}

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record of a game."""
        return {"package": f"{PACKAGE.name}=={PACKAGE.version}", "split": self.split}

    def __len__(self) -> int:
        return len(self._rows)

    def __deepcopy__(self, memo: object) -> CraftingTasks:
        return self

    def __getitem__(self, index: int, /) -> Task:
        from marft_envs.plugins.plancraft import crafting

        row = self._rows[index]
        answer = "impossible" if row["impossible"] else ", ".join(row["optimal_path"])
        meta = {"complexity": row["complexity_split"], "distractors": int(row["num_distractors"])}
        return Task(row["id"], crafting.shown(row["target"], self._slots(index)), answer, self.split, meta)

    def index(self, task_id: str, /) -> int:
        """Return the index of a task.

        Raises:
            UnknownTaskError: No such id.
        """
        if task_id not in self._places:
            raise UnknownTaskError(task_id, self._places, self.name)
        return self._places[task_id]

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> CraftingSession:
        """Start a game; nothing in it is random."""
        place = self.index(task.id)
        return CraftingSession(self, place, roster.answering, self._slots(place))

    def oracle_action(self, session: CraftingSession, agent: str) -> str:
        """Return the next action of the gold plan; agents that do not answer propose it."""
        plan = _gold_plan(self, session.place)
        action = plan[min(session.rounds, len(plan) - 1)]
        return action if agent in session.answering else f"The next action is {action}"

    def gold_plan(self, index: int) -> list[str]:
        """Return the actions that solve a task."""
        from marft_envs.plugins.plancraft import crafting

        row = self._rows[index]
        if row["impossible"]:
            return [crafting.STOP]
        return crafting.gold_plan(self._slots(index), row["optimal_path"], row["inventory_trace"])

    def target(self, index: int) -> str:
        """Return the item to craft."""
        return str(self._rows[index]["target"])

    def is_impossible(self, index: int) -> bool:
        """Return True for a task that the inventory does not allow."""
        return bool(self._rows[index]["impossible"])

    def _slots(self, index: int) -> dict[int, dict[str, Any]]:
        return {int(slot): dict(item) for slot, item in self._rows[index]["slotted_inventory"].items()}


@lru_cache(maxsize=1024)
def _gold_plan(tasks: CraftingTasks, index: int) -> tuple[str, ...]:
    return tuple(tasks.gold_plan(index))


@dataclass
class CraftingSession:
    """One game: the table as plain data.

    Attributes:
        tasks: Tasks shared by all games.
        place: Index of the task.
        answering: Agents whose actions are taken.
        slots: Type and quantity by slot.
        ingredients: Slots of the grid that the present result uses up.
        rounds: Number of rounds so far.
    """

    tasks: CraftingTasks
    place: int
    answering: frozenset[str]
    slots: dict[int, dict[str, Any]]
    ingredients: list[int] = field(default_factory=list)
    rounds: int = 0

    @property
    def opening(self) -> Mapping[str, str]:
        """No agent is told anything of its own."""
        return {}

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Take the action of the last answering agent."""
        from marft_envs.plugins.plancraft import crafting

        self.rounds += 1
        said = [turn.action for turn in turns if turn.agent in self.answering]
        text = said[-1].rpartition("</think>")[2] if said else ""
        if searched := _SEARCH.search(text):
            return Outcome(0.0, False, False, False, observation=crafting.recipes_of(searched[1]))
        action = crafting.read_action(text)
        if isinstance(action, str):
            return Outcome(0.0, False, False, True, observation=action)
        if crafting.is_stop(action):
            right = self.tasks.is_impossible(self.place)
            return Outcome(float(right), True, right, False, detail={"stopped": True})
        self.slots, self.ingredients = crafting.apply(action, self.slots, self.ingredients)
        target = self.tasks.target(self.place)
        made = any(item["type"] == target for slot, item in self.slots.items() if slot != 0)
        return Outcome(float(made), made, made, False, observation=crafting.shown(target, self.slots))
