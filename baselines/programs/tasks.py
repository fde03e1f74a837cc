"""Tasks of a program: the JSON lines of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from marft_agents.trajectory import EpisodeStart
from marft_envs.game.task import Outcome, Task, TaskList

SPLIT = "split"  # field of a line that names its split


class ProgramTasksError(ValueError):
    """A file that holds no tasks of a program; names the line."""


class ProgramTasks(TaskList):
    """Lines of a file; the text of a task is its line.

    Args:
        file: Path of a file with one JSON value a line. Objects may have a field "split"; where none has, every split
            is the whole file.
        split: Split of the tasks.

    Raises:
        ProgramTasksError: The file cannot be read, a line is no JSON, or the split is empty.
    """

    def __init__(self, file: str, split: str) -> None:
        try:
            text = Path(file).expanduser().read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ProgramTasksError(f"--data {file} cannot be read: {error}; wanted a file of JSON lines") from error
        tasks: list[Task] = []
        splits: set[str] = set()
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ProgramTasksError(f"{file}:{number} is not JSON: {error}") from error
            own = value.get(SPLIT, "") if isinstance(value, Mapping) else ""
            name = str(value["id"]) if isinstance(value, Mapping) and "id" in value else f"line {number}"
            splits.add(str(own))
            tasks.append(Task(name, line.strip(), "", str(own)))
        chosen = tasks if splits <= {""} else [task for task in tasks if task.split == split]
        if not chosen:
            there = f"its splits are {', '.join(sorted(splits))}" if tasks else "it is empty"
            raise ProgramTasksError(f"--data {file} has no lines of the split {split!r}; {there}")
        super().__init__("program", chosen)

    def episode(self, start: EpisodeStart) -> tuple[str, str]:
        """Return the id of the task of an episode, and its line."""
        options: Mapping[str, Any] = start.options or {}
        if "task_id" in options:
            task = self[self.index(options["task_id"])]
        else:
            drawn = int(np.random.default_rng(start.seed).integers(len(self)))
            task = self[int(options.get("index", drawn)) % len(self)]
        return task.id, task.prompt

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Refuse: the program gives the reward."""
        raise NotImplementedError("a program gives the reward of its tasks")
