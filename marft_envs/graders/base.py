"""Scores, the grader protocol, and graders that need only the two texts or a function."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from marft_envs.game.task import JudgeFailure, Task
from marft_envs.grading import boxed_answers

Trajectory = Sequence[Mapping[str, Any]]
"""The turns of an episode so far, as JSON: agent, round, action, and events (tool calls and their results)."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_MOST_DIGITS = 1000


@dataclass(frozen=True)
class Score:
    """Score of an answer.

    Attributes:
        value: 0 (wrong) to 1 (right).
        reason: Explanation for people; must not hold the gold answer.
        tokens: Tokens that the grade cost; None: not counted.
    """

    value: float
    reason: str = ""
    tokens: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.value <= 1.0:  # also not a NaN
            raise ValueError(f"a score is {self.value!r}, wanted 0 to 1 ({self.reason or 'no reason given'})")


class Grader(Protocol):
    """Grades an answer to a task, in any thread.

    A grader with an attribute `trajectory` that is true gets the trajectory as its third argument; see `ask`.

    Raises:
        JudgeFailure: Our own infrastructure failed: the answer is ungraded, not wrong.
    """

    def __call__(self, answer: str, task: Task, /) -> Score:
        """Return the score of an answer."""


def sees_trajectory(grader: Grader) -> bool:
    """Return True for a grader that grades the whole trajectory, not the answer alone."""
    return bool(getattr(grader, "trajectory", False))


def ask(grader: Any, answer: str, task: Task, trajectory: Trajectory) -> Score:
    """Return the score of an answer; a grader that sees the trajectory is shown it.

    Raises:
        JudgeFailure: From the grader.
    """
    score: Score = grader(answer, task, trajectory) if sees_trajectory(grader) else grader(answer, task)
    return score


@dataclass(frozen=True)
class LastBox:
    r"""Grade the last `\boxed{}` of an answer with another grader; an answer without one is graded whole."""

    grader: Grader

    def __call__(self, answer: str, task: Task, /) -> Score:
        """Grade the content of the box."""
        return self.grader((boxed_answers(answer) or [answer])[-1], task)


@dataclass(frozen=True)
class StringGrader:
    """Grader for equal text.

    Attributes:
        ignore_case: "Yes" equals "yes".
        ignore_spaces: Runs of blanks and line ends count as one, at the ends as none.
    """

    ignore_case: bool = True
    ignore_spaces: bool = True

    def __call__(self, answer: str, task: Task, /) -> Score:
        """Compare the answer with the gold answer, both in Unicode's NFKC form."""
        equal = self._plain(answer) == self._plain(task.answer)
        return Score(float(equal), "equal text" if equal else "other text")

    def _plain(self, text: str) -> str:
        text = unicodedata.normalize("NFKC", text)
        text = text.casefold() if self.ignore_case else text
        return " ".join(text.split()) if self.ignore_spaces else text


@dataclass(frozen=True)
class NumericGrader:
    """Compare the last number of the answer with the gold number: |a - b| <= max(absolute, relative * |b|).

    Attributes:
        absolute: Absolute tolerance of the comparison.
        relative: Tolerance as a fraction of the gold number.
    """

    absolute: float = 1e-9
    relative: float = 1e-6

    def __call__(self, answer: str, task: Task, /) -> Score:
        """Compare the numbers; thousands commas are not part of a number here.

        Raises:
            ValueError: The gold answer is no number: the data is at fault.
        """
        gold = _last_number(task.answer)
        if gold is None:
            raise ValueError(f"task {task.id!r}: the gold answer is no number; use another grader or fix the data")
        found = _last_number(answer)
        if found is None:
            return Score(0.0, "no number in the answer")
        close = abs(found - gold) <= max(self.absolute, self.relative * abs(gold))
        return Score(float(close), f"found {found:g}")


def _last_number(text: str) -> float | None:
    found = _NUMBER.findall(text[-_MOST_DIGITS:])
    value = float(found[-1]) if found else math.nan
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class FunctionGrader:
    """A Python function of answer and task that returns a score, a number from 0 to 1, or a truth value.

    The function runs in this process: give it answers as text only, never programs (see `marft_envs.sandbox`).

    Attributes:
        function: The function; an exception in it is a `JudgeFailure`, not a wrong answer.
        trajectory: True if it takes the trajectory as a third argument.
    """

    function: Callable[..., Score | float | bool]
    trajectory: bool = False

    def __call__(self, answer: str, task: Task, trajectory: Trajectory = (), /) -> Score:
        """Call the function."""
        name = getattr(self.function, "__qualname__", repr(self.function))
        try:
            found = self.function(answer, task, *([trajectory] if self.trajectory else []))
            return found if isinstance(found, Score) else Score(float(found), name)
        except Exception as error:
            raise JudgeFailure(f"grader {name} on task {task.id!r}: {type(error).__name__}: {error}") from error
