"""Tasks with any grader: questions of your own, or the tasks of any environment (`make(..., grader=...)`).

| | |
|---|---|
| Reward | `reward="success"`: 1.0 from the threshold on; `reward="outcome"`: the score itself |
| Termination | solved, or the only round is over; tasks with tools end as without the grader |
| Truncation | a horizon of several rounds ends without a solution |
| Verdict | the grade; of `AnswerTasks` the grader's reason |

    register_task("trivia", lambda data, split: AnswerTasks("trivia", load(data, split), StringGrader()))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from marft_envs.dependency.base import Roster
from marft_envs.game.task import (
    InnerSession,
    JudgedSession,
    Outcome,
    Session,
    Task,
    TaskList,
    Tasks,
    default_reward,
    is_slow,
    least_rounds,
    own_settings,
    session_starter,
)
from marft_envs.game.turn import Turn
from marft_envs.graders.base import Grader, Score, ask, sees_trajectory
from marft_envs.graders.metered import BudgetSpentError
from marft_envs.graders.settings import REMOTE, GraderError, GraderSettings


class AnswerTasks(TaskList):
    """Questions with gold answers.

    Args:
        name: Short name of the set.
        tasks: The questions; ids are unique.
        grader: Grader of the last answering agent's whole action.
        threshold: Lowest score that counts as solved.

    Raises:
        ValueError: An id twice, a threshold that is not above 0 and at most 1, or a grader of trajectories.
    """

    def __init__(self, name: str, tasks: Sequence[Task], grader: Grader, *, threshold: float = 1.0) -> None:
        if not 0 < threshold <= 1:
            raise ValueError(f"{name}: the threshold is {threshold!r}, wanted more than 0 and at most 1")
        if sees_trajectory(grader):
            raise ValueError(f"{name}: give a grader that sees the trajectory to make(..., grader=...)")
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
            return _unanswered(only_round)
        score = self.grader(answer, task)
        return replace(_graded(score, self.threshold, only_round), verdict=score.reason)


def _unanswered(only_round: bool) -> Outcome:
    return Outcome(0.0, only_round, False, True, verdict="There is no answer.")


def _graded(score: Score, threshold: float, only_round: bool) -> Outcome:
    solved = score.value >= threshold
    return Outcome(score.value, solved or only_round, solved, False, detail=_detail(score), verdict=_verdict(score))


def _detail(score: Score) -> dict[str, str | float]:
    return {"score": score.value, "reason": score.reason}


def _verdict(score: Score) -> str:
    return f"The grade is {score.value:g}."  # a reason may hold the gold answer


class GradedTasks:
    """The tasks of another set, graded by another grader.

    Args:
        graded: The tasks, bound to their team if they must be.
        how: Settings of the grader, in any form that `GraderSettings.of` reads.

    Raises:
        GraderError: Settings that cannot be used.
        ImportError: A package that the grader needs is missing.
    """

    def __init__(self, graded: Tasks, how: Any) -> None:
        self.graded = graded
        self.how = GraderSettings.of(how)
        self.grader = self.how.open()

    @property
    def name(self) -> str:
        """Short name of the tasks."""
        return self.graded.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the tasks, and those of the grader."""
        return {**own_settings(self.graded), "grader": self.how.to_dict()}

    @property
    def slow_step(self) -> bool:
        """True if a grade or a step of the tasks may take longer than a turn of the model."""
        return is_slow(self.graded) or self.how.kind in REMOTE

    @property
    def default_reward(self) -> str:
        """Reward of the tasks where nobody names one: prompts with a function pay its value, graded or not."""
        return default_reward(self.graded)

    @property
    def rounds(self) -> int:
        """Rounds that a game needs at least."""
        return least_rounds(self.graded)

    def keep_grades(self, path: Path) -> None:
        """Keep the grades in a file: see `MeteredGrader.keep`."""
        self.grader.keep(path)

    def __len__(self) -> int:
        return len(self.graded)

    def __getitem__(self, index: int, /) -> Task:
        return self.graded[index]

    def __deepcopy__(self, memo: object) -> GradedTasks:
        return self

    def index(self, task_id: str, /) -> int:
        """Return the index of a task."""
        return self.graded.index(task_id)

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> GradedSession:
        """Start a game of the tasks."""
        inner = session_starter(self.graded)(task, roster, generator)
        return GradedSession(self, inner, task, roster.answering)


class RecordedGrades(GradedTasks):
    """The tasks of a record, whose grader is described and not made: the grades are in the record.

    Args:
        graded: The tasks, bound to their team if they must be.
        how: Settings of the grader.

    Raises:
        GraderError: Settings that cannot be used, or a file that would have to be read.
    """

    def __init__(self, graded: Tasks, how: Any) -> None:
        self.graded = graded
        if isinstance(how, str) and how.endswith(".toml"):
            raise GraderError(f"grader: a record names the file {how}, wanted the settings in it")
        self.how = GraderSettings.of(how)


def bare_tasks(tasks: Tasks) -> Tasks:
    """Return the tasks themselves, without a grader around them."""
    return tasks.graded if isinstance(tasks, GradedTasks) else tasks


@dataclass
class GradedSession(InnerSession):
    """One game, with the trajectory that the grader may see.

    Attributes:
        tasks: Tasks and grader, shared by all games.
        inner: Session of the tasks.
        task: The task being played.
        answering: Agents that answer.
        trajectory: The turns so far, as JSON.
    """

    tasks: GradedTasks
    inner: Session
    task: Task
    answering: frozenset[str]
    trajectory: list[dict[str, Any]] = field(default_factory=list)

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome | None:
        """Let the task and the grader decide a round, as `GraderSettings.mode` says.

        Raises:
            JudgeFailure: From the task or the grader.
        """
        said = [{"agent": turn.agent, "round": turn.round, "action": turn.action} for turn in turns]
        self.trajectory += said
        how = self.tasks.how
        try:
            if how.mode == "replace" and isinstance(self.inner, JudgedSession):
                return self._replaced(turns, only_round=round == 0 and last_round, last_round=last_round)
            outcome = self.inner.advance(turns, round=round, last_round=last_round)
            if outcome is None:
                return None
            for turn in said:
                if events := [event for event in outcome.events if event.get("agent") == turn["agent"]]:
                    turn["events"] = events
            ended = outcome.terminated or last_round
            if not (outcome.success if how.mode == "confirm" else ended):
                return outcome
            score = self._ask(self._last_answer())
        except BudgetSpentError:
            if how.when_spent == "fail":
                raise
            if how.mode == "replace" and isinstance(self.inner, JudgedSession):
                return self.inner.advance(turns, round=round, last_round=last_round)
            return outcome
        solved = score.value >= how.threshold
        return replace(
            outcome,
            reward=min(outcome.reward, score.value) if how.mode == "confirm" else score.value,
            terminated=outcome.terminated or solved,
            success=solved,
            detail={**outcome.detail, **_detail(score)},
            verdict=_verdict(score),
        )

    def _replaced(self, turns: Sequence[Turn], *, only_round: bool, last_round: bool) -> Outcome | None:
        """Grade the last answer of a round in place of the task's own judge."""
        answers = [turn.action for turn in turns if turn.agent in self.answering]
        if not answers:
            return _unanswered(only_round) if last_round else None
        return _graded(self._ask(answers[-1]), self.tasks.how.threshold, only_round)

    def _last_answer(self) -> str:
        """Return the last action of an agent that answers; of all agents, if none of those has acted."""
        answers = [turn["action"] for turn in self.trajectory if turn["agent"] in self.answering]
        return str((answers or [turn["action"] for turn in self.trajectory])[-1])

    def _ask(self, answer: str) -> Score:
        return ask(self.tasks.grader, answer, self.task, self.trajectory)
