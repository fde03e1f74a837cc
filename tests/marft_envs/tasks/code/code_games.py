"""A small problem, programs for it, and a judge that runs none: it knows what each of them would print."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from marft_envs.sandbox.checkers import read_checker
from marft_envs.sandbox.judge_data import Judgement, Limits, Submission, Test, TestResult, Verdict
from marft_envs.tasks.code import CodeTasks
from marft_envs.tasks.code.problem import Problem

SECRET = 987654321  # an input of a hidden test, and twice it
EXAMPLES = (Test(b"2\n", b"4\n"), Test(b"-3\n", b"-6\n"))
HIDDEN = (Test(b"2", b"4"), Test(b"0\n", b"0\n"), Test(b"%d\n" % SECRET, b"%d\n" % (2 * SECRET)), Test(b"5", b"10"))
DOUBLE = Problem(
    "1/A",
    "Print twice the number.",
    title="Double",
    input_format="An integer x.",
    output_format="2x.",
    note="2 + 2 = 4.",
    examples=EXAMPLES,
    tests=HIDDEN,
    limits=Limits(cpu_s=1.5, memory_mb=64),
    meta={"rating": 800, "tags": "math"},
)

RIGHT = "print(2 * int(input()))"
SMALL_ONLY = "print(min(2 * int(input()), 100))"  # passes the examples, fails a hidden test
WRONG = "print(4)"
CRASHES = "print(1 / 0)"
BROKEN = "print("


def said(program: str, tag: str = "python") -> str:
    return f"I think so.\n```{tag}\n{program}\n```\n"


class FakeJudge:
    """Answers for the programs above; remembers what it was asked."""

    outputs: dict[str, Callable[[int], object]] = {  # noqa: RUF012
        RIGHT: lambda x: 2 * x,
        SMALL_ONLY: lambda x: min(2 * x, 100),
        WRONG: lambda x: 4,
    }

    def __init__(self) -> None:
        self.asked: list[Submission] = []

    def __deepcopy__(self, memo):
        raise AssertionError("a judge is shared, not copied")

    def run_many(self, submissions: Iterable[Submission]) -> list[Judgement]:
        return [self._judge(submission) for submission in submissions]

    def _judge(self, submission: Submission) -> Judgement:
        self.asked.append(submission)
        program = submission.source.decode().strip()
        if program == BROKEN:
            return Judgement(Verdict.CE, compile_output="SyntaxError: '(' was never closed")
        results: list[TestResult] = []
        for test in submission.tests:
            if submission.stop_on_failure and results and results[-1].verdict is not Verdict.OK:
                results.append(TestResult(Verdict.SKIPPED))
            else:
                results.append(self._result(program, submission, test))
        bad = (result.verdict for result in results if result.verdict is not Verdict.OK)
        return Judgement(next(bad, Verdict.OK), tuple(results), backend="fake")

    def _result(self, program: str, submission: Submission, test: Test) -> TestResult:
        if program == CRASHES:
            return TestResult(Verdict.RE, exit_status=1, stderr=b"Traceback\nZeroDivisionError: division by zero\n")
        if program not in self.outputs:
            return TestResult(Verdict.INTERNAL, reason="the jail fell over")
        output = f"{self.outputs[program](int(test.input))}\n".encode()
        check = read_checker(submission.checker).check(test.input, output, test.output)
        return TestResult(Verdict.OK if check.score == 1 else Verdict.WA, check.score, output=output)


def code_tasks(judge: FakeJudge | None = None, problems=(DOUBLE,), **kwargs) -> CodeTasks:
    return CodeTasks("codeforces", problems, judge=judge or FakeJudge(), **kwargs)
