"""Submission to the judge: program, tests, limits and checker, validated before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from marft_envs.sandbox.checkers import AnyChecker, read_checker
from marft_envs.sandbox.languages import Language, find_language
from marft_envs.sandbox.verdict import Limits, Test

MAX_PROGRAM_BYTES = 1 << 20
MAX_TEST_BYTES = 64 << 20  # of one input or one expected output


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
            _check_test(test, f"tests[{index}]")

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


def _check_test(test: Test, where: str) -> None:
    for name, value in (("input", test.input), ("output", test.output)):
        if not isinstance(value, bytes):
            raise ValueError(f"{where}.{name}: found {type(value).__name__}, wanted bytes (use .encode())")
        if len(value) > MAX_TEST_BYTES:
            raise ValueError(f"{where}.{name}: found {len(value):,} bytes, wanted at most {MAX_TEST_BYTES:,}")
