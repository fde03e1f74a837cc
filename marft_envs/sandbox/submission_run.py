"""Run of one submission on a slot: build it, run its tests, rule on each run, check the outputs.

Expected outputs stay outside of the submission's jail: byte checkers compare on the host, checker programs run in the
jail after it was reset.
"""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from marft_envs.sandbox.build_cache import Build, BuildCache
from marft_envs.sandbox.checkers import Check, ProgramChecker
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.python_start import LONG_INTEGERS
from marft_envs.sandbox.jail.wire import KIND_BUILD, KIND_RUN, RunRequest, RunResult
from marft_envs.sandbox.judge_data import Judgement, Limits, Submission, Test, TestResult, Verdict
from marft_envs.sandbox.languages import Language
from marft_envs.sandbox.slot import BUILD_FILE_MB, Slot, SlotError
from marft_envs.sandbox.split_submission import SplitSubmission

BUILD_CPU_S, BUILD_WALL_S, BUILD_MEMORY_MB, BUILD_PROCESSES = 20, 90, 2048, 32
_MIB = 1 << 20
_SHOWN_BYTES = 4096  # kept of each output and of a compiler's messages
_OUT_OF_MEMORY = (b"MemoryError", b"bad_alloc")
_FLOOR_KB = 16 << 10  # smaller peaks are the runner's own, from which the program was forked
_NEARLY_ALL = 0.95  # share of the memory limit at which a refused allocation explains a crash
_COMPILER_KILLED = (b": fatal error: Killed signal terminated program ", b" terminated with signal 9 ")
_COMPILER_STARVED = (b": out of memory allocating ", b"virtual memory exhausted: ")
_TEMPORARY_FILE = re.compile(rb"\bbuild/cc[A-Za-z0-9]{6}\.")
_ADDRESS = re.compile(rb"\b0x(?:0000)?(?:7[0-9a-f]|5[56])[0-9a-f]{10}\b")  # of a library, a stack or a heap
_CHECKER_LIMITS = Limits(cpu_s=15.0, memory_mb=1024, output_mb=0.01)
_CHECKER_RUN = ("{python}", *LONG_INTEGERS, "-I", "main.py")
_CHECKER_LANGUAGE = Language("checker", "main.py", (), "", _CHECKER_RUN, extra_memory_mb=32)
_ALONE = 4  # tests that are run before others may help
_TOGETHER = 8  # tests that a slot takes at once: as many as its runner has requests in flight
_LONG_S = 0.1  # of tests that are left; a slot must be made ready before and reset after its help
_MOST_KEPT_BYTES = 256 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SubmissionRun:
    """Judging of one submission on a slot.

    Attributes:
        submission: The submission to judge.
        cache: Cache of earlier builds.
        is_crowded: Returns True if other slots are busy, which inflates measured CPU times.
        helped: Context manager in which idle slots do some work, each of them once; its value is False if none is idle.
        confirmed: Set once a second run has confirmed a TLE, after which the next ones count at once.
    """

    submission: Submission
    cache: BuildCache
    is_crowded: Callable[[], bool]
    helped: Callable[[Callable[[Slot], None]], AbstractContextManager[bool]]
    confirmed: threading.Event = field(default_factory=threading.Event)

    def judge(self, slot: Slot) -> Judgement:
        """Build and test the submission; return the judgement.

        Raises:
            SlotError: The jail failed during the run.
        """
        submission = self.submission
        language, source, product, compile_output = submission.spoken, submission.source, None, ""
        if language.build:
            made = self.cache.get(language, source, lambda: build(slot, language, source))
            if made.product is None:
                return Judgement(Verdict.CE, compile_output=made.output)
            product, compile_output = made.product, made.output
        requests = self._prepare(slot, product)
        if isinstance(submission.checker, ProgramChecker):
            # Expected outputs may enter the jail only after the program has ended, so outputs are kept until then.
            kept = KeptOutputs()
            results = self._run_tests(slot, requests, kept.keep)
            results = check_in_jail(slot, submission.checker, submission, results, kept)
        else:
            results = self._run_shared(slot, requests, product)
        num_skipped = len(submission.tests) - len(results)
        results += [TestResult(Verdict.SKIPPED, reason="an earlier test failed")] * num_skipped
        return Judgement(overall_verdict(results), tuple(results), compile_output)

    def _prepare(self, slot: Slot, product: bytes | None) -> list[RunRequest]:
        """Put the program into a slot; return the run requests of its tests there."""
        submission, language = self.submission, self.submission.spoken
        if product is not None:
            slot.put(language.product, product, 0o555)
        slot.put(language.source, submission.source, 0o444)
        argv = language.command(language.run, slot.places)
        return [run_request(argv, test.input, submission.limits, language) for test in submission.tests]

    def _run_shared(self, slot: Slot, requests: Sequence[RunRequest], product: bytes | None) -> list[TestResult]:
        """Run the tests; if the first ones show that they take long, with the help of idle slots."""
        submission = self.submission
        started = time.monotonic()
        results = self._run_range(slot, requests, range(min(_ALONE, len(requests))))
        left = len(requests) - len(results)
        if not left or (submission.stop_on_failure and results[-1].verdict is not Verdict.OK):
            return results
        seconds = (time.monotonic() - started) / len(results)
        rest = range(len(results), len(requests))
        if seconds * left < _LONG_S:
            return results + self._run_range(slot, requests, rest)
        most = max(1, min(_TOGETHER, int(_LONG_S / seconds)))
        shared = SplitSubmission(rest, most, submission.stop_on_failure)

        def work(own: Slot, its: Sequence[RunRequest]) -> None:
            while (tests := shared.take()) is not None:
                try:
                    found = self._run_range(own, its, tests)
                except BaseException:
                    shared.give_back(tests)
                    raise
                shared.put(tests, found)

        with self.helped(lambda other: work(other, self._prepare(other, product))) as is_helped:
            if not is_helped:
                return results + self._run_range(slot, requests, rest)
            try:
                work(slot, requests)
                while not shared.wait():
                    work(slot, requests)
            finally:
                shared.close()
        return results + shared.results()

    def _run_range(self, slot: Slot, requests: Sequence[RunRequest], tests: range) -> list[TestResult]:
        """Run some of the tests, and compare their outputs on the host."""
        some = requests[tests.start : tests.stop]
        return self._run_tests(slot, some, lambda i, output: check_here(self.submission, tests.start + i, output))

    def _run_tests(
        self, slot: Slot, requests: Sequence[RunRequest], check: Callable[[int, bytes], Check]
    ) -> list[TestResult]:
        """Run the tests in order, up to the first failure with `stop_on_failure`.

        A TLE on a busy machine is confirmed by a second run.
        """
        stop, results = self.submission.stop_on_failure, list[TestResult]()
        while len(results) < len(requests):
            crowded, first = self.is_crowded(), len(results)
            for run in slot.run_all(requests[first:], ahead=not stop):
                results.append(_grade(requests[len(results)], run, len(results), check))
                if stop and results[-1].verdict is not Verdict.OK:
                    break
            for place in range(first, len(results)):
                doubtful = results[place].verdict is Verdict.TLE and not self.confirmed.is_set()
                if doubtful and (crowded or self.is_crowded()):
                    (run,) = slot.run_all([requests[place]], ahead=False)
                    results[place] = _grade(requests[place], run, place, check)
                    if results[place].verdict is Verdict.TLE:
                        self.confirmed.set()
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
    verdict, reason = rule(request, run)
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
    return apply(check(place, run.stdout), result) if verdict is Verdict.OK else result


# Rules: from the result of a run to its verdict. The first match counts.


def run_request(argv: tuple[bytes, ...], stdin: bytes, limits: Limits, language: Language) -> RunRequest:
    """Return the run request of one test; its output limit is one byte more, so that the full length passes."""
    return RunRequest(
        kind=KIND_RUN,
        cpu_ms=math.ceil(limits.cpu_s * language.cpu_factor * 1000),
        wall_ms=math.ceil(limits.wall_limit_s * language.cpu_factor * 1000),
        memory_kb=math.ceil((limits.memory_mb + language.extra_memory_mb) * 1024),
        output_bytes=int(limits.output_mb * _MIB) + 1,
        stderr_bytes=math.ceil(limits.stderr_kb * 1024),
        processes=0,
        argv=argv,
        stdin=stdin,
    )


def rule(request: RunRequest, result: RunResult) -> tuple[Verdict, str]:
    """Return verdict and reason of a run; OK means that the output may be compared."""
    status, cpu_ms = result.exit_status, result.cpu_us / 1000
    too_long = result.stdout_total >= request.output_bytes or status == -signal.SIGXFSZ
    if is_out_of_cpu(request, result):
        found = Verdict.TLE, f"CPU time over {request.cpu_ms / 1000:g} s"
    elif result.flags & wire.WALL_LIMIT:
        busy = cpu_ms >= request.cpu_ms / 2
        found = Verdict.TLE if busy else Verdict.ILE, f"{cpu_ms / 1000:.2f} s of CPU in {request.wall_ms / 1000:g} s"
    elif too_long or result.flags & wire.OUTPUT_LIMIT:
        found = Verdict.OLE, f"output over {(request.output_bytes - 1) / _MIB:g} MiB"
    elif result.flags & wire.THREAD_LIMIT:
        found = Verdict.RE, "too many threads"
    elif _is_out_of_memory(request, result):
        found = Verdict.MLE, f"{result.peak_kb / 1024:.0f} of {request.memory_kb / 1024:.0f} MiB"
    elif status == -signal.SIGSYS:
        found = Verdict.SV, "a forbidden system call"
    elif status:
        found = Verdict.RE, describe_exit(status)
    else:
        found = Verdict.OK, ""
    return found


def is_out_of_cpu(request: RunRequest, result: RunResult) -> bool:
    """True if the program used up its CPU time."""
    over = result.flags & wire.CPU_LIMIT or result.cpu_us / 1000 > request.cpu_ms
    return bool(over) or result.exit_status == -signal.SIGXCPU


def _is_out_of_memory(request: RunRequest, result: RunResult) -> bool:
    """True if the kernel or the peak says so, or if the program crashed where an allocation was refused."""
    used_kb = result.peak_kb if result.peak_kb > _FLOOR_KB else 0
    if result.flags & wire.OOM or used_kb > request.memory_kb:
        return True
    if result.exit_status in (0, -signal.SIGSYS):
        return False
    refused = any(word in result.stderr[-1024:] for word in _OUT_OF_MEMORY)
    return refused or used_kb >= _NEARLY_ALL * request.memory_kb


def describe_exit(exit_status: int) -> str:
    """Describe an exit status in words: "exit status 3", "signal SIGSEGV"."""
    if exit_status >= 0:
        return f"exit status {exit_status}"
    try:
        return f"signal {signal.Signals(-exit_status).name}"
    except ValueError:
        return f"signal {-exit_status}"


# Builds


def build(slot: Slot, language: Language, source: bytes) -> Build:
    """Build a program in a slot; a compiler that fails or hits a limit is a valid result.

    A build that was ended is repeated once, as the cause may be a busy machine or one that ran out of memory.
    """
    first = _build_once(slot, language, source)
    return _build_once(slot, language, source) if first.was_ended else first


def build_request(argv: tuple[bytes, ...]) -> RunRequest:
    """Return the run request of a build."""
    return RunRequest(
        kind=KIND_BUILD,
        cpu_ms=BUILD_CPU_S * 1000,
        wall_ms=BUILD_WALL_S * 1000,
        memory_kb=BUILD_MEMORY_MB * 1024,
        output_bytes=BUILD_FILE_MB * _MIB,
        stderr_bytes=1 << 16,
        processes=BUILD_PROCESSES,
        argv=argv,
        stdin=b"",
    )


def _build_once(slot: Slot, language: Language, source: bytes) -> Build:
    request = build_request(language.command(language.build, slot.places))
    result, product = slot.build(request, language.product, {language.source: source})
    messages = repeatable(result.stderr or result.stdout, slot.places["box"])
    verdict, _ = rule(request, result)
    if verdict is Verdict.OK and product:
        return Build(product, messages)
    if verdict is Verdict.OK:
        raise SlotError("the compiler reports success, but what it made is not there or too large")
    if any(words in result.stderr for words in _COMPILER_STARVED):
        verdict = Verdict.MLE
    # What was said up to a limit differs from build to build.
    output = messages if verdict is Verdict.RE and messages else f"the compiler: {_ended_by(verdict, result)}"
    # The compiler driver outlives the compiler proper and reports its end.
    killed = result.exit_status == -signal.SIGKILL or any(words in result.stderr for words in _COMPILER_KILLED)
    stopped = killed or bool(result.flags & wire.WALL_LIMIT)
    return Build(None, output, was_ended=stopped and not is_out_of_cpu(request, result))


def repeatable(messages: bytes, box: str) -> str:
    """Return what a compiler said without what differs between two builds of one source, and cut.

    Its temporary files have random names, and the kernel places programs at random addresses. `jail.plan` settles the
    rest: a relative folder for temporary files, and the time.

    Args:
        messages: Output of a compiler.
        box: Folder of the build, which only some jails name alike.
    """
    settled = messages.replace(os.fsencode(os.path.realpath(box)), b"/box").replace(os.fsencode(box), b"/box")
    settled = _ADDRESS.sub(b"0x...", _TEMPORARY_FILE.sub(b"build/main.", settled))
    return settled[:_SHOWN_BYTES].decode(errors="replace")


def _ended_by(verdict: Verdict, result: RunResult) -> str:
    """Describe the end of a compiler without figures, which differ from build to build."""
    if verdict is Verdict.RE:
        return describe_exit(result.exit_status)
    return {
        Verdict.TLE: "out of time",
        Verdict.ILE: "out of time",
        Verdict.MLE: f"out of memory ({BUILD_MEMORY_MB} MiB)",
        Verdict.OLE: f"output over {BUILD_FILE_MB} MiB",
        Verdict.SV: "a forbidden system call",
    }[verdict]


# Checks of outputs


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


class KeptOutputs:
    """Outputs kept until the program has ended; only then may the expected ones enter its jail.

    Attributes:
        outputs: Output of each test that was kept, by the index of the test.
    """

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
    slot: Slot, checker: ProgramChecker, submission: Submission, results: Sequence[TestResult], kept: KeptOutputs
) -> list[TestResult]:
    """Reset the slot, run a checker program on the outputs, and return the updated results."""
    slot.reset()
    checked: list[TestResult] = []
    for place, result in enumerate(results):
        if result.verdict is Verdict.OK:
            check = _check_by_program(slot, checker, submission.tests[place], kept.outputs[place])
            checked.append(apply(check, result))
        else:
            checked.append(result)
        if submission.stop_on_failure and checked[-1].verdict is not Verdict.OK:
            break
    return checked


def _check_by_program(slot: Slot, checker: ProgramChecker, test: Test, output: bytes) -> Check:
    score, failure = _run_checker(slot, checker, test, output)
    if score is not None:
        return Check(score, "" if score == 1.0 else f"the checker gives {score:g}")
    if _run_checker(slot, checker, test, test.output)[0] is not None:  # the checker works, so the output is invalid
        return Check(0.0, f"the checker failed on this output alone: {failure}")
    return _broken(failure)


def _run_checker(slot: Slot, checker: ProgramChecker, test: Test, output: bytes) -> tuple[float | None, str]:
    """Run a checker program on an output; return its score, or None and the reason."""
    for name, content in checker.submission_files(test.input, output, test.output).items():
        slot.put(name, content, 0o444)
    argv = _CHECKER_LANGUAGE.command(_CHECKER_LANGUAGE.run, slot.places)
    request = run_request(argv, b"", _CHECKER_LIMITS, _CHECKER_LANGUAGE)
    (run,) = slot.run_all([request], ahead=False)
    verdict, reason = rule(request, run)
    score = checker.read_score(run.stdout) if verdict is Verdict.OK else None
    if score is None:
        _log.warning("a checker program failed: %s", run.stderr.decode(errors="replace").strip())
    return score, f"{verdict} {reason}".strip()


def _broken(why: str) -> Check:
    """Return the check of a broken checker, with NaN as its score.

    The output of the checker goes only to the log, as it may hold the expected output.
    """
    return Check(float("nan"), f"the checker failed: {why}")
