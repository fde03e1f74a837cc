"""What a judge is asked and what it answers: tests, limits, submissions, verdicts, judgements; all frozen data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """What the judge says of a program on a test, and of the program as a whole.

    The order is that of `Judgement.verdict`: of several failed tests the first one's verdict counts.
    """

    OK = "OK"  # exit status 0 and the checker accepts the output
    WA = "WA"  # wrong answer
    TLE = "TLE"  # time limit: CPU used up, or wall limit with much CPU
    ILE = "ILE"  # idleness limit: wall limit with little CPU (sleeping, blocked, stopped)
    MLE = "MLE"  # memory limit
    RE = "RE"  # runtime error: a signal or an exit status other than 0, even with the right output
    CE = "CE"  # compile error (also for a Python syntax error), or the compiler hit its limits
    OLE = "OLE"  # output limit
    SV = "SV"  # security violation: a forbidden system call killed the program
    INTERNAL = "INTERNAL"  # our fault, never the program's: not a grade, an excluded episode
    SKIPPED = "SKIPPED"  # not run: an earlier test failed and the submission asked to stop there


@dataclass(frozen=True)
class Test:
    """One test.

    Attributes:
        input: The program's standard input.
        output: The expected output; never enters the sandbox of the program.
        name: For people; empty is fine.
    """

    __test__ = False  # not a pytest class

    input: bytes
    output: bytes
    name: str = ""


@dataclass(frozen=True)
class Limits:
    """What one test may use.

    Attributes:
        cpu_s: CPU seconds, all threads together.
        wall_s: Wall seconds; None is max(3 cpu_s + 2, cpu_s + 5), so that a busy machine fails nobody.
        memory_mb: Address space in MiB (the interpreter's own comes on top, see the language table).
        output_mb: Standard output in MiB.
        stderr_kb: Standard error kept, in KiB; more is cut, not punished, up to `output_mb`.
    """

    cpu_s: float = 2.0
    wall_s: float | None = None
    memory_mb: int = 256
    output_mb: float = 16.0
    stderr_kb: int = 64

    def __post_init__(self) -> None:
        bounds = {
            "cpu_s": (self.cpu_s, 300.0),
            "wall_s": (1.0 if self.wall_s is None else self.wall_s, 900.0),
            "memory_mb": (self.memory_mb, 8192),
            "output_mb": (self.output_mb, 64.0),
            "stderr_kb": (self.stderr_kb, 1024),
        }
        for name, (value, most) in bounds.items():
            if not (math.isfinite(value) and 0 < value <= most):
                raise ValueError(f"Limits.{name}: found {value!r}, wanted more than 0 and at most {most}")

    @property
    def wall_limit_s(self) -> float:
        """Wall seconds that hold."""
        return max(3 * self.cpu_s + 2, self.cpu_s + 5) if self.wall_s is None else self.wall_s


@dataclass(frozen=True)
class TestResult:
    """What one test came to.

    Attributes:
        verdict: See `Verdict`.
        score: 1.0 for OK, else 0.0; a custom checker may give a fraction.
        cpu_s: CPU time, all threads.
        wall_s: Wall time.
        peak_memory_mb: Peak resident memory, MiB (has a floor of some MiB: the runner's own).
        exit_status: Exit status; minus the signal number where a signal ended it; None where it never ran.
        output: The head of the standard output, at most 4 KiB.
        stderr: The tail of the standard error, at most 4 KiB.
        reason: What explains the verdict, for people; never holds the expected output.
    """

    __test__ = False

    verdict: Verdict
    score: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_memory_mb: float = 0.0
    exit_status: int | None = None
    output: bytes = b""
    stderr: bytes = b""
    reason: str = ""


@dataclass(frozen=True)
class Judgement:
    """What a judge says of a program.

    Attributes:
        verdict: OK if every test is, else that of the first test that is not; CE before any test ran.
        tests: In the order given; empty after CE, and after INTERNAL if nothing ran.
        compile_output: What the compiler said, at most 4 KiB.
        backend: Which backend ran it.
        details: Whatever else explains it; numbers and short text.
    """

    verdict: Verdict
    tests: tuple[TestResult, ...] = ()
    compile_output: str = ""
    backend: str = ""
    details: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def passed(self) -> float:
        """Fraction of the tests passed, 0 to 1; a checker's fraction counts as such."""
        return sum(test.score for test in self.tests) / len(self.tests) if self.tests else 0.0

    @property
    def is_grade(self) -> bool:
        """False for INTERNAL: the infrastructure failed, and this says nothing of the program."""
        return self.verdict is not Verdict.INTERNAL


class SandboxError(RuntimeError):
    """The sandbox can't be used as asked (no engine, no image, nothing isolates): says what to do."""
