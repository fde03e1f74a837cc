"""A budget and a cache around a grader: the same question gets the same grade, and is paid once.

The cache is in memory. `keep(path)` also writes it to a JSON Lines file, and reads what an earlier process left there.
The budget then covers the whole file.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marft_envs.game.task import JudgeFailure, Task
from marft_envs.graders.base import Grader, Score, Trajectory, ask, sees_trajectory


class BudgetSpentError(JudgeFailure):
    """The budget of a grader is used up, so the answer is ungraded."""


class MeteredGrader:
    """Grader with a cache and a budget; may be used from many threads.

    Args:
        grader: Grader that is asked.
        calls: Most questions; None is no limit. A question that is tried again counts once, a cached one not at all.
        tokens: Most tokens of all questions; None is no limit. Questions in flight when it is reached are finished.
        identity: What tells this grader from others in a file, as JSON.
    """

    def __init__(
        self, grader: Grader, *, calls: int | None = None, tokens: int | None = None, identity: Any = None
    ) -> None:
        self.grader = grader
        self.calls = calls
        self.tokens = tokens
        self.identity = identity
        self.calls_made = 0
        self.tokens_spent = 0
        self._known: dict[str, Score] = {}
        self._path: Path | None = None
        self._make_locks()

    @property
    def trajectory(self) -> bool:
        """True if the grader sees the trajectory."""
        return sees_trajectory(self.grader)

    def __call__(self, answer: str, task: Task, trajectory: Trajectory = (), /) -> Score:
        """Return the score, from the cache if the same was asked before.

        Raises:
            BudgetSpentError: The budget is used up.
            JudgeFailure: From the grader.
        """
        key = self._key(answer, task, trajectory)
        with self._lock:
            waits = self._asking.setdefault(key, threading.Lock())
        with waits:  # who asks the same meanwhile waits for this grade
            with self._lock:
                if key in self._known:
                    return self._known[key]
                self._spend()
            score = ask(self.grader, answer, task, trajectory)
            with self._lock:
                self._remember(key, score)
        return score

    def keep(self, path: Path) -> None:
        """Keep all grades in a file from now on; grades that are there already are known and count as spent.

        Args:
            path: JSON Lines file; its folder is made with the first grade. A line cut off by a crash is left out.
        """
        with self._lock:
            self._path = path
            for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
                try:
                    found = json.loads(line)
                    self._count(found["key"], Score(found["score"], found["reason"], found["tokens"]))
                except (ValueError, KeyError, TypeError):
                    continue
                self.calls_made += 1

    def _key(self, answer: str, task: Task, trajectory: Trajectory) -> str:
        shown = list(trajectory) if self.trajectory else None
        asked = [self.identity, task.id, task.prompt, task.answer, answer, shown]
        return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()

    def _spend(self) -> None:
        spent = (("calls", self.calls_made, self.calls), ("tokens", self.tokens_spent, self.tokens))
        for name, used, limit in spent:
            if limit is not None and used >= limit:
                raise BudgetSpentError(
                    f"the grader's budget of {limit} {name} is used up ({used} spent): give it more {name}, or let the "
                    'task\'s own grade count instead (when_spent = "own")'
                )
        self.calls_made += 1

    def _count(self, key: str, score: Score) -> None:
        self._known[key] = score
        self.tokens_spent += score.tokens or 0

    def _remember(self, key: str, score: Score) -> None:
        self._count(key, score)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            line = {"key": key, "score": score.value, "reason": score.reason, "tokens": score.tokens}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def _make_locks(self) -> None:
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}

    def __getstate__(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_asking")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_locks()
