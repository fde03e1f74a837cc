"""Competitive programming: one problem, one program in the last fenced block of what the answering agent says.

| | |
|---|---|
| Sets | codeforces |
| Answer | the last block in a language asked for; none is invalid |
| Earlier round | the public examples are run. One fails: the results on the examples open the next round. All pass: \
the hidden tests are run too; all pass: solved; else the game goes on, told of the examples only |
| Last round | examples and hidden tests are run and decide |
| Reward | success: 1.0 for a program that passes every test, else 0.0. outcome: of the last round, the fraction of \
all tests passed (with `grading="all"`, as success); 1.0 where the problem is solved earlier |
| Termination | solved, or the only round is over |
| Truncation | not solved when a horizon of several rounds ends |
| Verdict | "The program passed 3 of 20 tests (WA)."; shown with `feedback="verdict"` only |
| Failure | a judge that fails raises `JudgeFailure`: an episode to leave out, never reward 0 |

Only the deciding round pays a fraction, so that a team gains nothing by dragging on. That a game goes on although
all examples pass does tell that a hidden test failed, and nothing else of the hidden tests reaches an agent, an
outcome or a trace but their number.

Version history: v0, first version.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

from marft_envs.problem import LANGUAGES, Problem, clip, family
from marft_envs.sandbox.languages import find_language
from marft_envs.sandbox.submission import Submission
from marft_envs.sandbox.verdict import Judgement, Test, TestResult, Verdict
from marft_envs.task import JudgeFailure, Outcome, Task, UnknownTaskError
from marft_envs.tasks.program import Program, extract_program

Grading = Literal["fraction", "all"]

_NO_PROGRAM = "There is no program in the answer: no block that begins with ``` and the language, and ends with ```."
_SAID = {
    Verdict.WA: "wrong answer",
    Verdict.TLE: "time limit exceeded",
    Verdict.ILE: "idle until the time limit",
    Verdict.MLE: "memory limit exceeded",
    Verdict.RE: "runtime error",
    Verdict.OLE: "too much output",
    Verdict.SV: "a forbidden system call",
}
_SHOWN_CHARS = 400
_SHOWN_EXAMPLES = 8


class ProgramJudge(Protocol):
    """What runs programs; `marft_envs.sandbox.Judge` is one. Called from many threads."""

    def run_many(self, submissions: Iterable[Submission]) -> list[Judgement]:
        """Judge programs; the judgements come in their order."""


class CodeTasks:
    """Programming problems with their tests, as a `TaskSet`.

    Args:
        name: Short name.
        problems: The problems.
        judge: Name of a backend of the sandbox ("auto": the strongest that holds), whose judge the process
            shares and starts when the first program is judged; or a judge.
        languages: In which an answer is taken: "python", "c++", "c++20".
        grading: What `Outcome.reward` is: the "fraction" of tests passed, or 1.0 only if "all" are (quicker:
            stops at the first that fails).
        split: Of the tasks.

    Raises:
        ValueError: Two problems of one id, or one that can't be solved in these languages.
    """

    def __init__(
        self,
        name: str,
        problems: Iterable[Problem],
        *,
        judge: str | ProgramJudge = "auto",
        languages: Sequence[str] = LANGUAGES,
        grading: Grading = "fraction",
        split: str = "train",
    ) -> None:
        self.name = name
        self.problems = tuple(problems)
        self.languages = _checked_languages(languages)
        if grading not in ("fraction", "all"):
            raise ValueError(f"grading: found {grading!r}, wanted 'fraction' or 'all'")
        self.grading = grading
        self._judge = judge
        self._places: dict[str, int] = {}
        for place, problem in enumerate(self.problems):
            if self._places.setdefault(problem.id, place) != place:
                raise ValueError(f"task set {name!r}: two problems have the id {problem.id!r}; ids must be unique")
            if not problem.allowed(self.languages):
                raise ValueError(
                    f"task set {name!r}: problem {problem.id!r} takes {', '.join(problem.languages)}, "
                    f"none of the languages {', '.join(self.languages)}"
                )
        self._tasks = tuple(self._task(problem, split) for problem in self.problems)

    @property
    def settings(self) -> dict[str, Any]:
        """What a record keeps; not the judge, which changes no verdict."""
        return {"languages": list(self.languages), "grading": self.grading}

    @classmethod
    def load(
        cls,
        kind: str,
        data: str | os.PathLike[str] = "embedded",
        split: str = "train",
        *,
        judge: str | ProgramJudge = "auto",
        languages: Sequence[str] = LANGUAGES,
        grading: Grading = "fraction",
    ) -> CodeTasks:
        """Load a set.

        Args:
            kind: "codeforces".
            data: "embedded", a path to JSON, JSONL, CSV or Parquet, or "hub:owner/name".
            split: "train", "test", ...
            judge: As of the class.
            languages: As of the class.
            grading: As of the class.

        Raises:
            DataError: See `marft_envs.data.problems.load_problems`.
        """
        from marft_envs.data.problems import load_problems

        named = os.fspath(data) if isinstance(data, os.PathLike) else data
        problems = load_problems(kind, named, split)
        return cls(kind, problems, judge=judge, languages=languages, grading=grading, split=split)

    def _task(self, problem: Problem, split: str) -> Task:
        meta = {**problem.meta, "tests": len(problem.all_tests)}
        return Task(problem.id, problem.prompt(self.languages), "", split, meta)

    def __len__(self) -> int:
        return len(self._tasks)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle a judge by its backend: jails stay in their process."""
        backend = getattr(self._judge, "backend", None)
        return self.__dict__ | ({"_judge": backend} if isinstance(backend, str) else {})

    def __deepcopy__(self, memo: object) -> CodeTasks:
        return self

    def __getitem__(self, index: int, /) -> Task:
        return self._tasks[index]

    def index(self, task_id: str, /) -> int:
        """Return the place of a task.

        Raises:
            UnknownTaskError: No such id.
        """
        try:
            return self._places[task_id]
        except (KeyError, TypeError) as error:
            raise UnknownTaskError(task_id, self._places, self.name) from error

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Judge the last program of the answer, by the table above.

        Raises:
            JudgeFailure: The judge failed.
            SandboxError: There is no judge here at all; says what to do.
        """
        problem = self.problems[self.index(task.id)]
        languages = [family(name) for name in problem.allowed(self.languages)]
        program = None if answer is None else extract_program(answer, languages)
        only_round = round == 0 and last_round
        if program is None:
            told = "" if last_round else _NO_PROGRAM
            return Outcome(0.0, only_round, success=False, invalid=True, observation=told, verdict=_NO_PROGRAM)
        if last_round:
            judged = self._run(problem, program, problem.all_tests, stop=self.grading == "all")
            return self._decided(program, judged, len(problem.all_tests), ends=only_round)
        return self._explored(problem, program)

    def _explored(self, problem: Problem, program: Program) -> Outcome:
        """Judge in an earlier round."""
        tests, said = problem.hidden, ""
        if problem.examples:
            judged = self._run(problem, program, problem.examples, stop=False)
            said = feedback(problem.examples, judged)
            if judged.verdict is not Verdict.OK or not tests:
                return self._decided(program, judged, len(problem.examples), said=said)
        judged = self._run(problem, program, tests, stop=True)
        return self._decided(program, judged, len(tests), said=said)

    def _decided(
        self, program: Program, judged: Judgement, count: int, *, ends: bool = False, said: str | None = None
    ) -> Outcome:
        """Make an outcome of a judgement on `count` tests; `said` opens the next round, None in the last one."""
        success = judged.verdict is Verdict.OK
        passed = sum(test.verdict is Verdict.OK for test in judged.tests)
        pays = said is None and self.grading == "fraction"
        return Outcome(
            reward=1.0 if success else judged.passed if pays else 0.0,
            terminated=success or ends,
            success=success,
            invalid=False,
            observation="" if success or said is None else said,
            detail={
                "language": program.language,
                "program_chars": len(program.source),
                "verdict": str(judged.verdict),
                "passed": passed,
                "tests": count,
            },
            verdict=f"The program passed {passed} of {count} tests ({judged.verdict}).",
        )

    def _run(self, problem: Problem, program: Program, tests: Sequence[Test], *, stop: bool) -> Judgement:
        language = next(name for name in problem.allowed(self.languages) if family(name) == program.language)
        source = problem.complete(program.source)
        submission = Submission(source, language, tests, problem.limits, problem.checker, stop_on_failure=stop)
        (judged,) = self._judge_here().run_many([submission])
        reasons = dict.fromkeys(test.reason for test in judged.tests if test.verdict is Verdict.INTERNAL)
        if reasons or not judged.is_grade:
            raise JudgeFailure(
                f"{self.name}: the judge ({judged.backend}) failed on problem {problem.id!r}: "
                f"{clip('; '.join(reasons) or str(dict(judged.details)), _SHOWN_CHARS)}; leave this episode out"
            )
        return judged

    def _judge_here(self) -> ProgramJudge:
        if not isinstance(self._judge, str):
            return self._judge
        from marft_envs.sandbox.shared import shared_judge

        return shared_judge(self._judge)


def feedback(examples: Sequence[Test], judged: Judgement) -> str:
    """Write down how a program did on the public examples."""
    if judged.verdict is Verdict.CE:
        return f"The program does not compile:\n{clip(judged.compile_output, _SHOWN_CHARS)}"
    lines = ["Results on the examples:"]
    for place, (test, result) in enumerate(zip(examples, judged.tests, strict=True), start=1):
        if result.verdict is Verdict.OK:
            lines.append(f"Example {place}: right.")
        elif place <= _SHOWN_EXAMPLES:
            lines.append(f"Example {place}: {_explain(test, result)}")
        else:
            lines.append(f"Example {place}: {_SAID.get(result.verdict, result.verdict)}.")
    return "\n".join(lines)


def _explain(test: Test, result: TestResult) -> str:
    said = f"{_SAID.get(result.verdict, result.verdict)}."
    if result.verdict is Verdict.RE:
        last_line = clip(result.stderr[-_SHOWN_CHARS:].strip().rpartition(b"\n")[2], _SHOWN_CHARS)
        return f"{said} {last_line}" if last_line else f"{said} Exit status {result.exit_status}."
    if result.verdict is not Verdict.WA:
        return said
    shown = (("Input", test.input), ("Expected", test.output), ("Found", result.output))
    return "\n".join([said, *(f"{name}:\n{clip(content, _SHOWN_CHARS)}" for name, content in shown)])


def _checked_languages(languages: Sequence[str]) -> tuple[str, ...]:
    names = (languages,) if isinstance(languages, str) else tuple(languages)
    if not names:
        raise ValueError("languages: found none, wanted at least one of python, c++, c++20")
    for name in names:
        find_language(name)
    return names
