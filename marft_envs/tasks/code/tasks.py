"""Competitive programming task sets: one problem, judged by the answering agent's last fenced program.

| | |
|---|---|
| Answer | the last block in one of the allowed languages; an answer without one is invalid |
| Earlier round | the public examples are run. One fails: the results on the examples open the next round. All pass, \
or there are none: the program is judged |
| Last round | the program is judged, also if it fails an example |
| Judged | examples and hidden tests are run once per game; the game then ends |
| Reward | success: 1.0 for a program that passes every test, else 0.0. outcome: the fraction of all tests passed \
(with `grading="all"`, as success). A round that does not end the game pays 0.0 |
| Termination | a program is judged, or the last round is over |
| Truncation | never |
| Verdict | "The program passed 1 of 2 tests (WA)."; shown with `feedback="verdict"` only, and only for the examples |
| Failure | a judge that fails raises `JudgeFailure`. Leave such an episode out; its reward is not 0 |

Hidden tests are run only in the round that ends the game. Until then, observations, infos, rewards and records do not
depend on the hidden tests or on their verdicts. No later program of the same game can pass on anything that an
earlier one read there. Programs of other games on the machine are separated by the judge alone.

| a team might | gain |
|---|---|
| hold back a program that passes the examples | none: it is judged alike in every round, and discounting reduces a \
later reward |
| fail an example on purpose, to think for another round | time, up to the horizon. Only its last program meets \
the hidden tests, and pays |
| write a program for the examples alone | the share of the examples in all tests, and the end of the game; \
nothing with success or `grading="all"` |
| end without a program that passes the examples | none: the last round terminates, so a learner does not bootstrap \
the value of a state that never comes |

Version history: v0, first version. A game ended with the first program that passed all tests. A program that passed \
the examples in an earlier round was run on the hidden tests, too. If it failed one, the game went on with the results \
on the examples. So the team knew that a hidden test had failed. With `feedback="verdict"` it also knew the verdict \
and the number of passed tests. The program could leave traces on the machine for programs of later rounds. A horizon \
of several rounds truncated.
v1, a game ends with the first program that passes the examples. Hidden tests are run in its last round only. It \
always terminates.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from marft_envs.game.task import JudgedTasks, JudgeFailure, Outcome, Task, UnknownTaskError, last_outcome, places_of
from marft_envs.sandbox.judge_data import Judgement, Submission, Test, TestResult, Verdict
from marft_envs.sandbox.languages import find_language
from marft_envs.tasks.code.problem import LANGUAGES, Problem, clip, family
from marft_envs.tasks.code.program import Program, extract_program

if TYPE_CHECKING:
    from marft_envs.data.levels import Level

Grading = Literal["fraction", "all"]
Termination = Literal["examples", "solved"]

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
    """Interface of a judge that runs programs, such as `marft_envs.sandbox.Judge`. Called from many threads."""

    def run_many(self, submissions: Iterable[Submission]) -> list[Judgement]:
        """Judge programs; the judgements are in the order of the submissions."""


class CodeTasks(JudgedTasks):
    """Programming problems with their tests, as a `TaskSet`.

    Args:
        name: Short name of the set.
        problems: Problems with statement, examples and hidden tests.
        judge: A judge, or the name of a sandbox backend ("auto": the strongest that works). A named judge is shared
            by the process and started when the first program is judged.
        languages: Allowed languages of an answer: "python", "c++", "c++20".
        grading: Meaning of `Outcome.reward`: the "fraction" of tests passed, or 1.0 only if "all" pass. "all" is
            faster, because it stops at the first failure.
        termination: End of a game before the horizon: the first program that passes the "examples" (v1), or the
            first that has "solved" the problem (v0; hidden tests can reach an agent in a later round).
        split: Split of the tasks.
        instructions: True ends each prompt with two sentences on the limits and the form of the answer.

    Raises:
        ValueError: Two problems have the same id, or one cannot be solved in these languages.
    """

    def __init__(
        self,
        name: str,
        problems: Iterable[Problem],
        *,
        judge: str | ProgramJudge = "auto",
        languages: Sequence[str] = LANGUAGES,
        grading: Grading = "fraction",
        termination: Termination = "examples",
        split: str = "train",
        instructions: bool = True,
    ) -> None:
        self.name = name
        self.problems = tuple(problems)
        self.languages = _checked_languages(languages)
        if grading not in ("fraction", "all"):
            raise ValueError(f"grading: found {grading!r}, wanted 'fraction' or 'all'")
        if termination not in ("examples", "solved"):
            raise ValueError(f"termination: found {termination!r}, wanted 'examples' or 'solved'")
        self.grading = grading
        self.termination = termination
        self.instructions = instructions
        self._judge = judge
        self._places = places_of(name, (problem.id for problem in self.problems), "problems")
        for problem in self.problems:
            if not problem.allowed(self.languages):
                raise ValueError(
                    f"task set {name!r}: problem {problem.id!r} takes {', '.join(problem.languages)}, "
                    f"none of the languages {', '.join(self.languages)}"
                )
        tasks = []
        for problem in self.problems:
            meta = {**problem.meta, "tests": len(problem.all_tests)}
            prompt = problem.prompt(self.languages, instructions=instructions)
            tasks.append(Task(problem.id, prompt, "", split, meta))
        self._tasks = tuple(tasks)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record, without the judge, which changes no verdict. Older records lack the last two."""
        termination = {} if self.termination == "solved" else {"termination": self.termination}
        instructions = {} if self.instructions else {"instructions": False}
        return {"languages": list(self.languages), "grading": self.grading, **termination, **instructions}

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
        termination: Termination = "examples",
        level: Level = None,
        instructions: bool | None = None,
    ) -> CodeTasks:
        """Load the problems of one split.

        Args:
            kind: Name of the set; only "codeforces".
            data: "embedded", a path to JSON, JSONL, CSV or Parquet, or "hub:owner/name".
            split: "train", "test", ...
            judge: As in `CodeTasks`.
            languages: As in `CodeTasks`.
            grading: As in `CodeTasks`.
            termination: As in `CodeTasks`.
            level: A level of the data, several as a list or as text like "1,2"; None is all.
            instructions: As in `CodeTasks`; None leaves them out of the ladder, whose teams have worked examples.

        Raises:
            DataError: See `marft_envs.tasks.code.loading.load_problems`; or no problem has this level.
        """
        from marft_envs.data.levels import at_level
        from marft_envs.tasks.code.loading import load_problems

        return cls(
            kind,
            at_level(load_problems(kind, data, split), level, f"data {data}, split {split}"),
            judge=judge,
            languages=languages,
            grading=grading,
            termination=termination,
            split=split,
            instructions=data != "embedded:ladder" if instructions is None else instructions,
        )

    def __len__(self) -> int:
        return len(self._tasks)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle a judge as the name of its backend: sandboxes stay in their process."""
        backend = getattr(self._judge, "backend", None)
        state = dict(self.__dict__)
        if isinstance(backend, str):
            state["_judge"] = backend
        return state

    def __deepcopy__(self, memo: object) -> CodeTasks:
        return self

    def __getitem__(self, index: int, /) -> Task:
        return self._tasks[index]

    def index(self, task_id: str, /) -> int:
        """Return the index of a task.

        Raises:
            UnknownTaskError: No task has this id.
        """
        try:
            return self._places[task_id]
        except (KeyError, TypeError) as error:
            raise UnknownTaskError(task_id, self._places, self.name) from error

    def judge(self, task: Task, answer: str | None, *, round: int, last_round: bool) -> Outcome:
        """Judge the last program of the answer, by the table of the module.

        Raises:
            JudgeFailure: The judge failed.
            SandboxError: No judge works on this machine; the message says what to do.
        """
        problem = self.problems[self.index(task.id)]
        languages = [family(name) for name in problem.allowed(self.languages)]
        program = None if answer is None else extract_program(answer, languages)
        ends = last_round and (round == 0 or self.termination == "examples")
        if program is None:
            told = "" if last_round else _NO_PROGRAM
            return Outcome(0.0, ends, success=False, invalid=True, observation=told, verdict=_NO_PROGRAM)
        if last_round:
            return self._final(problem, program, ends=ends)
        return self._explored(problem, program)

    def vote(self, outcomes: Sequence[Outcome | None]) -> tuple[str, int] | None:
        """Return the last verdict with the number of tests passed: programs with equal ones are one choice."""
        last = last_outcome(outcomes)
        return None if last is None or last.invalid else (str(last.detail["verdict"]), int(last.detail["passed"]))

    def _final(self, problem: Problem, program: Program, *, ends: bool = True) -> Outcome:
        """Judge a program on all tests and compute its reward."""
        judged = self._run(problem, program, problem.all_tests, stop=self.grading == "all")
        return self._decided(program, judged, len(problem.all_tests), ends=ends)

    def _explored(self, problem: Problem, program: Program) -> Outcome:
        """Judge in an earlier round: on the examples; a program that passes them is run on hidden tests, too."""
        said = ""
        if problem.examples:
            judged = self._run(problem, program, problem.examples, stop=False)
            said = feedback(problem.examples, judged)
            if judged.verdict is not Verdict.OK or not problem.hidden:
                return self._decided(program, judged, len(problem.examples), said=said)
        if self.termination == "examples":
            return self._final(problem, program)  # runs the examples again: same reward as in the last round
        judged = self._run(problem, program, problem.hidden, stop=True)
        return self._decided(program, judged, len(problem.hidden), said=said)

    def _decided(
        self, program: Program, judged: Judgement, count: int, *, ends: bool = False, said: str | None = None
    ) -> Outcome:
        """Make the outcome of a judgement on `count` tests; `said` opens the next round and is None in the last."""
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

    def _judge_here(self) -> ProgramJudge:
        if not isinstance(self._judge, str):
            return self._judge
        from marft_envs.sandbox.shared_judges import shared_judge

        return shared_judge(self._judge)

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


def feedback(examples: Sequence[Test], judged: Judgement) -> str:
    """Describe the results of a program on the public examples."""
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
