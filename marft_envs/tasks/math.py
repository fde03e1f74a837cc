r"""Math task sets: one problem, graded by the last \boxed{...} of the answering agent's action.

| Sets | math, gsm8k, aime, cmath (Chinese, graded as such) |
|---|---|
| Reward | 1.0 for a correct answer, else 0.0; no reward for format |
| Termination | the answer is correct, or the only round is over (final; without a readable answer wrong and invalid) |
| Truncation | a horizon of several rounds ends without a correct answer |
| Verdict | "The answer 5 is wrong."; never the gold answer |

Version history: v0, first version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from marft_envs.game.task import Outcome, Task, TaskList, last_outcome

if TYPE_CHECKING:
    from marft_envs.data.levels import Level

Language = Literal["en", "zh"]

KINDS: Mapping[str, Language] = {"math": "en", "gsm8k": "en", "aime": "en", "cmath": "zh"}

_VERDICTS = {
    "en": {
        "right": "The answer {answer} is right.",
        "wrong": "The answer {answer} is wrong.",
        "none": "There is no answer in \\boxed{}.",
    },
    "zh": {
        "right": "答案{answer}正确。",
        "wrong": "答案{answer}错误。",
        "none": "没有写在\\boxed{}里的答案。",
    },
}
_SHOWN_CHARS = 200


class Graded(Protocol):
    """Interface of a grade, such as `marft_envs.grading.Grade`."""

    @property
    def correct(self) -> bool:
        """True if the answer equals the gold answer."""

    @property
    def extracted(self) -> str | None:
        """The text read as the answer; None if none was found."""


Grader = Callable[[str, str], Graded]


@dataclass(frozen=True, eq=False)
class EquivalentAnswer:
    r"""An answer that equals all answers which the grader finds equivalent; it has no hash.

    Examples:
        >>> EquivalentAnswer("0.5", "en") == EquivalentAnswer(r"\frac{1}{2}", "en")
        True
    """

    text: str
    language: Language
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        from marft_envs.grading import equivalent

        return isinstance(other, EquivalentAnswer) and equivalent(self.text, other.text, self.language)


class MathTasks(TaskList):
    """Problems with a gold answer, as a `TaskSet`.

    Args:
        name: Short name of the set.
        tasks: Problems with their gold answers.
        language: "en" or "zh", of the verdicts and of the default grader.
        grader: Maps response and gold answer to a grade; None is `marft_envs.grading.grade_math`.
    """

    def __init__(
        self, name: str, tasks: Sequence[Task], *, language: Language = "en", grader: Grader | None = None
    ) -> None:
        super().__init__(name, tasks)
        self.language = language
        self._grader = grader

    @classmethod
    def load(
        cls, kind: str, data: str | os.PathLike[str] = "embedded", split: str = "train", *, level: Level = None
    ) -> MathTasks:
        """Load the problems of one split.

        Args:
            kind: "math", "gsm8k", "aime" or "cmath".
            data: "embedded", a path to JSON, JSONL, CSV or Parquet, or "hub:owner/name".
            split: "train", "test", ...
            level: A level of the data, several as a list or as text like "1,2"; None is all.

        Raises:
            DataError: See `marft_envs.data.load_tasks`; or no problem has this level.
        """
        from marft_envs.data import load_tasks
        from marft_envs.data.levels import at_level

        tasks = at_level(load_tasks(kind, data, split), level, f"data {data}, split {split}")
        return cls(kind, tasks, language=KINDS[kind])

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Grade the last box of the answer."""
        only_round = round == 0 and last_round
        if answer is None:
            return self._outcome(False, None, only_round, {})
        grade = self._grade(answer, task)
        extracted = None if grade.extracted is None else str(grade.extracted)
        detail: dict[str, str | bool] = {}
        for field in ("extracted", "method", "reason"):  # as far as the grader has them
            value = getattr(grade, field, None)
            if value is not None:
                detail[field] = str(value)
        return self._outcome(bool(grade.correct), extracted, only_round, detail)

    def vote(self, outcomes: Sequence[Outcome | None]) -> EquivalentAnswer | None:
        """Return the last answer as it was extracted; answers that the grader finds equivalent are one choice."""
        last = last_outcome(outcomes)
        extracted = None if last is None else last.detail.get("extracted")
        return None if extracted is None else EquivalentAnswer(str(extracted), self.language)

    def _grade(self, answer: str, task: Task) -> Graded:
        if self._grader is not None:
            return self._grader(answer, task.answer)
        from marft_envs.grading import grade_math

        mode: Any = task.meta.get("gold_mode", "single")
        gold = task.answer if mode == "single" else json.loads(task.answer)
        grade: Graded = grade_math(answer, gold, language=self.language, mode=mode)
        return grade

    def _outcome(self, correct: bool, answer: str | None, only_round: bool, detail: Mapping[str, Any]) -> Outcome:
        said = "none" if answer is None else "right" if correct else "wrong"
        verdict = _VERDICTS[self.language][said]
        return Outcome(
            reward=float(correct),
            terminated=correct or only_round,
            success=correct,
            invalid=answer is None,
            detail=detail,
            verdict=verdict if answer is None else verdict.format(answer=answer[:_SHOWN_CHARS]),
        )
