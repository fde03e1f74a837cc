"""Frozen data of the judge: submissions with tests and limits; judgements with verdicts and results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from marft_envs.sandbox.checkers import AnyChecker, read_checker
from marft_envs.sandbox.languages import Language, find_language

MAX_PROGRAM_BYTES = 1 << 20
MAX_TEST_BYTES = 64 << 20  # of one input or one expected output


class Verdict(StrEnum):
    """Verdict of the judge on one test or on a whole program.

    The verdict on a program is that of its first failed test.
    """

    OK = "OK"  # exit status 0 and the checker accepts the output
    WA = "WA"  # wrong answer
    TLE = "TLE"  # time limit: CPU time used up, or wall limit with high CPU use
    ILE = "ILE"  # idleness limit: wall limit with low CPU use (sleeping, blocked, stopped)
    MLE = "MLE"  # memory limit
    RE = "RE"  # runtime error: a signal or an exit status other than 0, even with the correct output
    CE = "CE"  # compile error (also for a Python syntax error), or the compiler hit its limits
    OLE = "OLE"  # output limit
    SV = "SV"  # security violation: a forbidden system call killed the program
    INTERNAL = "INTERNAL"  # infrastructure error, never the program's: no grade, the episode is excluded
    SKIPPED = "SKIPPED"  # not run: an earlier test failed with `stop_on_failure`


@dataclass(frozen=True)
class Test:
    """One test of a program.

    Attributes:
        input: Standard input of the program.
        output: The expected output; never enters the sandbox of the program.
        name: Name for display; may be empty.
    """

    __test__ = False  # not a pytest class

    input: bytes
    output: bytes
    name: str = ""


@dataclass(frozen=True)
class Limits:
    """Resource limits of one test.

    Attributes:
        cpu_s: CPU time in seconds, all threads together.
        wall_s: Wall time in seconds; None is max(3 cpu_s + 2, cpu_s + 5), generous enough for a busy machine.
        memory_mb: Address space in MiB; the interpreter's own is added, see the language table.
        output_mb: Size of the standard output in MiB.
        stderr_kb: Standard error kept, in KiB; more is cut without penalty, up to `output_mb`.
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
        """Effective wall limit in seconds."""
        return max(3 * self.cpu_s + 2, self.cpu_s + 5) if self.wall_s is None else self.wall_s


@dataclass(frozen=True)
class Submission:
    """One program with its tests, limits and checker.

    Attributes:
        program: Source text; a `str` is encoded as UTF-8.
        language: Name in `marft_envs.sandbox.languages.LANGUAGES`, or "c++" (C++17).
        tests: Tests of the program, at least one.
        limits: Resource limits of every test.
        checker: Output checker: "tokens", "exact", "lines", "floats:ABS:REL", "yesno", or a checker object.
        stop_on_failure: Skip the tests after the first failure, for all-or-nothing rewards.

    Raises:
        ValueError: Unknown language or checker, no tests, or a program or test that is too large.
    """

    program: str | bytes
    language: str
    tests: Sequence[Test]
    limits: Limits = field(default_factory=Limits)
    checker: str | AnyChecker = "tokens"
    stop_on_failure: bool = False

    def __post_init__(self) -> None:
        find_language(self.language)
        object.__setattr__(self, "checker", read_checker(self.checker))
        object.__setattr__(self, "tests", tuple(self.tests))
        if not self.tests:
            raise ValueError("tests: found none, wanted at least one: a program without tests can't be judged")
        if len(self.source) > MAX_PROGRAM_BYTES:
            raise ValueError(f"program: found {len(self.source):,} bytes, wanted at most {MAX_PROGRAM_BYTES:,}")
        for index, test in enumerate(self.tests):
            for name, value in (("input", test.input), ("output", test.output)):
                where = f"tests[{index}].{name}"
                if not isinstance(value, bytes):
                    raise ValueError(f"{where}: found {type(value).__name__}, wanted bytes (use .encode())")
                if len(value) > MAX_TEST_BYTES:
                    raise ValueError(f"{where}: found {len(value):,} bytes, wanted at most {MAX_TEST_BYTES:,}")

    @property
    def source(self) -> bytes:
        """Program as bytes; lone surrogates are encoded and fail to compile."""
        return self.program if isinstance(self.program, bytes) else self.program.encode("utf-8", "surrogatepass")

    @property
    def files_mb(self) -> int:
        """Size in MiB of a run's files in memory: its outputs, and its input, which it may also write."""
        largest = max(len(test.input) for test in self.tests) / 2**20
        return math.ceil(2 * self.limits.output_mb + max(self.limits.output_mb, largest))

    @property
    def spoken(self) -> Language:
        """Entry of the language in the table."""
        return find_language(self.language)


@dataclass(frozen=True)
class TestResult:
    """Result of one test.

    Attributes:
        verdict: Verdict on this test.
        score: 1.0 for OK, else 0.0; a custom checker may give a fraction.
        cpu_s: CPU time in seconds, all threads together.
        wall_s: Wall time in seconds.
        peak_memory_mb: Peak resident memory in MiB, with a floor of a few MiB from the runner.
        exit_status: Exit status; minus the signal number if a signal ended it; None if it never ran.
        output: Start of the standard output, at most 4 KiB.
        stderr: End of the standard error, at most 4 KiB.
        reason: Explanation of the verdict; never holds the expected output.
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
    """Judgement on a whole program.

    Attributes:
        verdict: OK if every test is OK, else the verdict of the first failed test; CE if the build failed.
        tests: Results in the order of the tests; empty after CE, and after INTERNAL if nothing ran.
        compile_output: Messages of the compiler, at most 4 KiB.
        backend: Name of the backend that ran it.
        details: Further explanations as numbers and short texts.
    """

    verdict: Verdict
    tests: tuple[TestResult, ...] = ()
    compile_output: str = ""
    backend: str = ""
    details: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def passed(self) -> float:
        """Mean score of the tests, 0 to 1; fractions given by a checker count as such."""
        return sum(test.score for test in self.tests) / len(self.tests) if self.tests else 0.0

    @property
    def is_grade(self) -> bool:
        """False for INTERNAL: the infrastructure failed, so the program has no grade."""
        return self.verdict is not Verdict.INTERNAL


class SandboxError(RuntimeError):
    """The sandbox cannot be used as requested (no engine, no image, no isolation); says what to do."""
