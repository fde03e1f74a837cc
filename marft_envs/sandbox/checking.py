"""Comparison of outputs: on the host for byte checkers, in the jail for checker programs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from marft_envs.sandbox import ruling
from marft_envs.sandbox.checkers import Check, ProgramChecker
from marft_envs.sandbox.languages import Language
from marft_envs.sandbox.slot import Slot
from marft_envs.sandbox.submission import Submission
from marft_envs.sandbox.verdict import Limits, Test, TestResult, Verdict

_LIMITS = Limits(cpu_s=15.0, memory_mb=1024, output_mb=0.01)
_LANGUAGE = Language("checker", "main.py", (), "", ("{python}", "-I", "main.py"), extra_memory_mb=32)
_MOST_KEPT_BYTES = 256 << 20
_log = logging.getLogger(__name__)


def apply(check: Check, result: TestResult) -> TestResult:
    """Return the result of a successful run with the verdict and score of its check."""
    if not 0.0 <= check.score <= 1.0:
        return replace(result, verdict=Verdict.INTERNAL, score=0.0, reason=check.reason)
    verdict = Verdict.OK if check.score == 1.0 else Verdict.WA
    return replace(result, verdict=verdict, score=check.score, reason=check.reason)


def check_here(submission: Submission, place: int, output: bytes) -> Check:
    """Compare on the host; an exception of the caller's checker gives INTERNAL, not a verdict on the program."""
    test, checker = submission.tests[place], submission.checker
    assert not isinstance(checker, str | ProgramChecker)
    try:
        return checker.check(test.input, output, test.output)
    except Exception as error:
        _log.warning("a checker failed", exc_info=error)
        return _broken(type(error).__name__)


class Outputs:
    """Outputs kept until the program has ended; only then may the expected ones enter its jail."""

    def __init__(self) -> None:
        self.outputs: dict[int, bytes] = {}
        self._bytes = 0

    def keep(self, place: int, output: bytes) -> Check:
        """Keep the output of a test; it is wrong if all outputs together exceed `_MOST_KEPT_BYTES`."""
        self._bytes += len(output)
        if self._bytes > _MOST_KEPT_BYTES:
            return Check(0.0, f"the outputs of all tests are longer than {_MOST_KEPT_BYTES >> 20} MiB")
        self.outputs[place] = output
        return Check(1.0)


def check_in_jail(
    slot: Slot, checker: ProgramChecker, submission: Submission, results: Sequence[TestResult], kept: Outputs
) -> list[TestResult]:
    """Reset the slot, run a checker program on the outputs, and return the updated results."""
    slot.reset()
    checked: list[TestResult] = []
    for place, result in enumerate(results):
        if result.verdict is Verdict.OK:
            check = _check(slot, checker, submission.tests[place], kept.outputs[place])
            checked.append(apply(check, result))
        else:
            checked.append(result)
        if submission.stop_on_failure and checked[-1].verdict is not Verdict.OK:
            break
    return checked


def _check(slot: Slot, checker: ProgramChecker, test: Test, output: bytes) -> Check:
    score, failure = _ask(slot, checker, test, output)
    if score is not None:
        return Check(score, "" if score == 1.0 else f"the checker gives {score:g}")
    if _ask(slot, checker, test, test.output)[0] is not None:  # the checker works, so the output is invalid
        return Check(0.0, f"the checker failed on this output alone: {failure}")
    return _broken(failure)


def _ask(slot: Slot, checker: ProgramChecker, test: Test, output: bytes) -> tuple[float | None, str]:
    """Run a checker program on an output; return its score, or None and the reason."""
    for name, content in checker.submission_files(test.input, output, test.output).items():
        slot.put(name, content, 0o444)
    argv = _LANGUAGE.command(_LANGUAGE.run, slot.places)
    request = ruling.run_request(argv, b"", _LIMITS, _LANGUAGE)
    (run,) = slot.run_all([request], ahead=False)
    verdict, reason = ruling.rule(request, run)
    score = checker.read_score(run.stdout) if verdict is Verdict.OK else None
    if score is None:
        _log.warning("a checker program failed: %s", run.stderr.decode(errors="replace").strip())
    return score, f"{verdict} {reason}".strip()


def _broken(why: str) -> Check:
    """Return the check of a broken checker, with NaN as its score.

    The output of the checker goes only to the log, as it may hold the expected output.
    """
    return Check(float("nan"), f"the checker failed: {why}")
