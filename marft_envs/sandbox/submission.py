"""What the judge is given: a program, its tests and limits, how to compare; checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from marft_envs.sandbox.checkers import AnyChecker, read_checker
from marft_envs.sandbox.languages import Language, find_language
from marft_envs.sandbox.verdict import Limits, Test

MAX_PROGRAM_BYTES = 1 << 20
MAX_TEST_BYTES = 64 << 20  # of an input, and of an expected output


@dataclass(frozen=True)
class Submission:
    """One program to judge.

    Attributes:
        program: Source text; a `str` is taken as UTF-8.
        language: A name of `marft_envs.sandbox.languages.LANGUAGES`, or "c++" (C++17).
        tests: At least one.
        limits: Of every test.
        checker: "tokens", "exact", "lines", "floats:ABS:REL", "yesno", or a checker object.
        stop_on_failure: Skip the tests after the first that fails: for all-or-nothing rewards.

    Raises:
        ValueError: An unknown language or checker, no tests, a program or test too large.
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
            _check_test(test, f"tests[{index}]")

    @property
    def source(self) -> bytes:
        """The program as bytes; lone surrogates pass, and fail to compile."""
        return self.program if isinstance(self.program, bytes) else self.program.encode("utf-8", "surrogatepass")

    @property
    def files_mb(self) -> int:
        """MiB of the files of a run, which lie in memory: the outputs, and the input (it may write to that as well)."""
        largest = max(len(test.input) for test in self.tests) / 2**20
        return math.ceil(2 * self.limits.output_mb + max(self.limits.output_mb, largest))

    @property
    def spoken(self) -> Language:
        """The language's entry in the table."""
        return find_language(self.language)


def _check_test(test: Test, where: str) -> None:
    for name, value in (("input", test.input), ("output", test.output)):
        if not isinstance(value, bytes):
            raise ValueError(f"{where}.{name}: found {type(value).__name__}, wanted bytes (use .encode())")
        if len(value) > MAX_TEST_BYTES:
            raise ValueError(f"{where}.{name}: found {len(value):,} bytes, wanted at most {MAX_TEST_BYTES:,}")
