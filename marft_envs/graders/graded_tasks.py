"""A set of questions with any grader, as a `TaskSet`: own data with own grading in one line.

| | |
|---|---|
| Reward | `reward="success"`: 1.0 from the threshold on; `reward="outcome"`: the score itself |
| Termination | solved, or the only round is over |
| Truncation | a horizon of several rounds ends without a solution |
| Verdict | the grader's reason |

    register_task("trivia", lambda data, split: AnswerTasks("trivia", load(data, split), StringGrader()))
"""

from __future__ import annotations

from collections.abc import Sequence

from marft_envs.graders.base import Grader
from marft_envs.tasks.base import Outcome, Task, TaskList


class AnswerTasks(TaskList):
    """Questions with gold answers.

    Args:
        name: Short name of the set.
        tasks: The questions; ids are unique.
        grader: Grader of the last answering agent's whole action.
        threshold: Lowest score that counts as solved.

    Raises:
        ValueError: An id twice, or a threshold that is not above 0 and at most 1.
    """

    def __init__(self, name: str, tasks: Sequence[Task], grader: Grader, *, threshold: float = 1.0) -> None:
        if not 0 < threshold <= 1:
            raise ValueError(f"{name}: the threshold is {threshold!r}, wanted more than 0 and at most 1")
        super().__init__(name, tasks)
        self.grader = grader
        self.threshold = threshold

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Grade the answer.

        Raises:
            JudgeFailure: From the grader.
        """
        only_round = round == 0 and last_round
        if answer is None:
            return Outcome(0.0, only_round, False, True, verdict="There is no answer.")
        score = self.grader(answer, task)
        solved = score.value >= self.threshold
        detail: dict[str, str | float] = {"score": score.value, "reason": score.reason}
        return Outcome(score.value, solved or only_round, solved, False, detail=detail, verdict=score.reason)
