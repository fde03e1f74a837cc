"""Levels: the problems of a set whose property `level` has one of the values that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from envs_data import DataError

Level = int | str | Sequence[int | str] | None


class Levelled(Protocol):
    """A problem with properties, such as a `Task`."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Properties by name; `level` is one of them where the source has it."""


_Problem = TypeVar("_Problem", bound=Levelled)


def at_level(problems: Sequence[_Problem], level: Level, where: str) -> list[_Problem]:
    """Return the problems of some levels, in their order.

    Args:
        problems: All problems of a split.
        level: A level, several as a list or as text like "1,2"; None returns all problems.
        where: Data and split, for the message.

    Raises:
        DataError: No problem has one of the levels; the message lists those there are.

    Examples:
        >>> from marft_envs.game.task import Task
        >>> tasks = [Task(f"t{n}", "?", "", "train", {"level": n}) for n in (1, 2, 3)]
        >>> [task.id for task in at_level(tasks, "1,3", "mine.jsonl")]
        ['t1', 't3']
    """
    if level is None:
        return list(problems)
    asked = level.split(",") if isinstance(level, str) else level if isinstance(level, Sequence) else [level]
    wanted = [str(each).strip() for each in asked]
    there = dict.fromkeys(str(problem.meta["level"]) for problem in problems if "level" in problem.meta)
    missing = [each for each in wanted if each not in there]
    if missing or not wanted:
        known = f"one of {', '.join(sorted(there))}" if there else "none, as its problems have no level"
        raise DataError(where, f"level {missing[0] if missing else level!r}", known, "choose one of these")
    return [problem for problem in problems if str(problem.meta.get("level")) in wanted]
