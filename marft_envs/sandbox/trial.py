"""Trial of one submission on one slot: build, run the tests, compare; expected outputs stay outside of the jail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from marft_envs.sandbox import checking, ruling
from marft_envs.sandbox.checkers import Check, ProgramChecker
from marft_envs.sandbox.compilation import BuildCache, build
from marft_envs.sandbox.jail.wire import RunRequest, RunResult
from marft_envs.sandbox.slot import Slot
from marft_envs.sandbox.submission import Submission
from marft_envs.sandbox.verdict import Judgement, TestResult, Verdict

_SHOWN_BYTES = 4096


@dataclass(frozen=True)
class Trial:
    """Judging of one submission on a slot.

    Attributes:
        submission: The submission to judge.
        cache: Cache of earlier builds.
        is_crowded: Returns True if other slots are busy, which inflates measured CPU times.
    """

    submission: Submission
    cache: BuildCache
    is_crowded: Callable[[], bool]

    def judge(self, slot: Slot) -> Judgement:
        """Build and test the submission; return the judgement.

        Raises:
            SlotError: The jail failed during the trial.
        """
        language, source, said = self.submission.spoken, self.submission.source, ""
        if language.build:
            made = self.cache.get(language, source, lambda: build(slot, language, source))
            if made.product is None:
                return Judgement(Verdict.CE, compile_output=made.output)
            slot.put(language.product, made.product, 0o555)
            said = made.output
        slot.put(language.source, source, 0o444)
        results = self._run_tests(slot)
        return Judgement(overall_verdict(results), tuple(results), said)

    def _run_tests(self, slot: Slot) -> list[TestResult]:
        submission = self.submission
        language, checker = submission.spoken, submission.checker
        argv = language.command(language.run, slot.places)
        requests = [ruling.run_request(argv, test.input, submission.limits, language) for test in submission.tests]
        if not isinstance(checker, ProgramChecker):
            results = self._run(slot, requests, lambda at, output: checking.check_here(submission, at, output))
        else:
            kept = checking.Outputs()
            results = self._run(slot, requests, kept.keep)
            results = checking.check_in_jail(slot, checker, submission, results, kept)
        left = len(submission.tests) - len(results)
        return [*results, *[TestResult(Verdict.SKIPPED, reason="an earlier test failed")] * left]

    def _run(
        self, slot: Slot, requests: Sequence[RunRequest], check: Callable[[int, bytes], Check]
    ) -> list[TestResult]:
        """Run the tests in order, up to the first failure with `stop_on_failure`.

        A TLE on a busy machine is confirmed by a second run.
        """
        stop, results = self.submission.stop_on_failure, list[TestResult]()
        doubtful = True  # one confirmed TLE is enough
        while len(results) < len(requests):
            crowded, first = self.is_crowded(), len(results)
            for run in slot.run_all(requests[first:], ahead=not stop):
                results.append(_grade(requests[len(results)], run, len(results), check))
                if stop and results[-1].verdict is not Verdict.OK:
                    break
            for place in range(first, len(results)):
                if results[place].verdict is Verdict.TLE and doubtful and (crowded or self.is_crowded()):
                    (run,) = slot.run_all([requests[place]], ahead=False)
                    results[place] = _grade(requests[place], run, place, check)
                    doubtful = results[place].verdict is not Verdict.TLE
            if stop and results[-1].verdict is not Verdict.OK:
                break
        return results


def overall_verdict(results: Sequence[TestResult]) -> Verdict:
    """Return the first verdict that is not OK; INTERNAL has priority, as it invalidates the others."""
    verdicts = [result.verdict for result in results]
    if Verdict.INTERNAL in verdicts:
        return Verdict.INTERNAL
    return next((verdict for verdict in verdicts if verdict is not Verdict.OK), Verdict.OK)


def _grade(request: RunRequest, run: RunResult, place: int, check: Callable[[int, bytes], Check]) -> TestResult:
    verdict, reason = ruling.rule(request, run)
    result = TestResult(
        verdict,
        cpu_s=run.cpu_us / 1e6,
        wall_s=run.wall_us / 1e6,
        peak_memory_mb=run.peak_kb / 1024,
        exit_status=run.exit_status,
        output=run.stdout[:_SHOWN_BYTES],
        stderr=run.stderr[-_SHOWN_BYTES:],
        reason=reason,
    )
    return checking.apply(check(place, run.stdout), result) if verdict is Verdict.OK else result
