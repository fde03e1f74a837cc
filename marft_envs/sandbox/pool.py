"""Pool of slots with one thread each and one common queue; no submission is ever lost."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from marft_envs.sandbox.build_cache import BuildCache
from marft_envs.sandbox.compiled_headers import CompiledHeaders
from marft_envs.sandbox.judge_data import Judgement, SandboxError, Submission, TestResult, Verdict
from marft_envs.sandbox.slot import Slot, SlotError
from marft_envs.sandbox.submission_run import SubmissionRun

RECYCLE_AFTER = 500  # submissions per slot before it is replaced
_PAUSE_S = 0.5  # before the second attempt: the engine may be restarting
_log = logging.getLogger(__name__)


class Backend(Protocol):
    """Interface of a backend, which opens slots.

    Attributes:
        name: Name for reports and judgements.
        tools: Paths of `python` and `c++` in the jail, as far as installed.
    """

    name: str
    tools: Mapping[str, str]

    @property
    def headers(self) -> CompiledHeaders | None:
        """Headers that this machine compiles for builds; None if it compiles none."""

    def open_slot(self, index: int) -> Slot:
        """Open a new jail; raises `SlotError` or `SandboxError`."""

    def close(self) -> None:
        """Remove everything the backend created; all slots must be closed before."""


@dataclass
class _Job:
    submission: Submission
    future: Future[Judgement] = field(default_factory=Future)


def _memory_judgement(num_tests: int) -> Judgement:
    """Return the judgement of a program that made its slot run out of memory; the test is unknown."""
    first = TestResult(Verdict.MLE, reason="the slot ran out of memory, and so did a fresh one")
    others = TestResult(Verdict.SKIPPED, reason="the slot ran out of memory")
    return Judgement(Verdict.MLE, (first, *[others] * (num_tests - 1)))


class SlotPool:
    """Pool of working slots, opened in parallel, each by the thread that uses it.

    Args:
        backend: Backend that opens the slots.
        workers: Number of slots and threads.

    Raises:
        SandboxError: The first slot cannot be opened.
    """

    def __init__(self, backend: Backend, workers: int) -> None:
        self.backend = backend
        self.workers = workers
        self._pid = os.getpid()
        self._builds = BuildCache()
        self._jobs: collections.deque[_Job] = collections.deque()
        self._helps: list[Callable[[Slot], None]] = []
        self._change = threading.Condition()
        self._slots: dict[int, Slot] = {}
        self._num_busy = 0
        self._closing = False
        self._first: Future[None] = Future()
        self._threads = [
            threading.Thread(target=self._work, args=(index,), name=f"judge-{index}", daemon=True)
            for index in range(workers)
        ]
        for thread in self._threads:
            thread.start()
        try:
            self._first.result()
        except BaseException as error:
            self.close()
            if isinstance(error, SlotError | OSError):
                raise SandboxError(f"{backend.name}: {error}") from error
            raise

    def submit(self, submission: Submission) -> Future[Judgement]:
        """Queue a submission.

        Raises:
            SandboxError: The pool is closed or belongs to another process.
        """
        if os.getpid() != self._pid:  # a forked child has our sockets but no threads
            raise SandboxError("the judge belongs to the process that this one was forked from: make another one here")
        job = _Job(submission)
        with self._change:
            if self._closing:
                raise SandboxError("the judge is closed: make another one")
            self._jobs.append(job)
            self._change.notify()
        return job.future

    def close(self) -> None:
        """Close jails and threads; queued submissions are cancelled, running ones get INTERNAL. Idempotent."""
        if os.getpid() != self._pid:  # the parent still uses the jails, the folder and the containers
            return
        with self._change:
            self._closing = True
            jobs, slots = list(self._jobs), list(self._slots.values())
            self._jobs.clear()
            self._change.notify_all()
        for job in jobs:
            job.future.cancel()
        for slot in slots:
            slot.abort()
        for thread in self._threads:
            thread.join()
        self.backend.close()

    def _work(self, index: int) -> None:
        """Run the loop of a slot's thread."""
        try:
            self._open(index)
        except Exception as error:
            _log.warning("slot %d: %s", index, error)
            if index == 0:
                self._first.set_exception(error)
        else:
            if index == 0:
                self._first.set_result(None)
        num_tasks = 0
        while (task := self._next_task()) is not None:
            task(index)
            num_tasks += 1
            self._tidy(index, worn=num_tasks % RECYCLE_AFTER == 0)
        self._drop(index)

    def _next_task(self) -> Callable[[int], None] | None:
        """Wait for work; return a function of the slot's index. Submissions come before help for others."""
        with self._change:
            while True:
                while not self._jobs and not self._helps and not self._closing:
                    self._change.wait()
                if self._closing:
                    return None
                if not self._jobs:
                    self._num_busy += 1
                    return partial(self._help, self._helps.pop())
                job = self._jobs.popleft()
                if job.future.set_running_or_notify_cancel():
                    self._num_busy += 1
                    return partial(self._finish, job)

    def _finish(self, job: _Job, index: int) -> None:
        try:
            job.future.set_result(self._judge(index, job.submission))
        except Exception as error:  # an internal bug: the caller gets it, the thread continues
            job.future.set_exception(error)

    def _help(self, help_with: Callable[[Slot], None], index: int) -> None:
        """Do some work of another slot's submission; if this slot fails, the other one does it."""
        try:
            help_with(self._slots.get(index) or self._open(index))
        except Exception as error:  # whatever it is, the other slot meets it too, and says so
            _log.debug("slot %d, while it helped: %s", index, error)
            self._drop(index)

    @contextlib.contextmanager
    def _helped(self, help_with: Callable[[Slot], None]) -> Iterator[bool]:
        """Offer some work to the idle slots inside a `with` block; the value is False if there are none."""
        with self._change:
            num_idle = 0 if self._jobs else self.workers - self._num_busy
            self._helps += [help_with] * num_idle
            self._change.notify_all()
        try:
            yield num_idle > 0
        finally:
            with self._change:
                self._helps = [other for other in self._helps if other is not help_with]

    def _judge(self, index: int, submission: Submission) -> Judgement:
        """Judge on this slot; after an infrastructure failure, once more on a new one.

        If both slots ran out of memory, the verdict is MLE: no other program used them at the time.
        """
        run = SubmissionRun(submission, self._builds, lambda: self._num_busy > 1, self._helped)
        failures: dict[str, str | int | float] = {}
        num_starved = 0
        for attempt in ("first attempt", "second attempt"):
            try:
                judgement = run.judge(self._slots.get(index) or self._open(index))
                if judgement.is_grade:
                    return replace(judgement, backend=self.backend.name, details=failures)
                failures[attempt] = next(test.reason for test in judgement.tests if test.verdict is Verdict.INTERNAL)
            except (SlotError, SandboxError, OSError) as error:
                judgement = Judgement(Verdict.INTERNAL)
                failures[attempt] = "the judge was closed" if self._closing else str(error)
            if self._closing:
                break
            _log.warning("slot %d, %s: %s", index, attempt, failures[attempt])
            if index in self._slots and self._slots[index].ran_out_of_memory():
                num_starved += 1
            self._drop(index)
            if len(failures) == 1:
                self._refill(index)
        if num_starved == len(failures) == 2:
            judgement = _memory_judgement(len(submission.tests))
        return replace(judgement, backend=self.backend.name, details=failures)

    def _tidy(self, index: int, worn: bool) -> None:
        """Reset the slot for the next program; replace it after a failure or `RECYCLE_AFTER` submissions."""
        try:
            if worn or index not in self._slots:
                raise SlotError("worn out")
            self._slots[index].reset()
        except (SlotError, SandboxError, OSError) as error:
            _log.debug("slot %d: %s", index, error)
            self._drop(index)
            self._refill(index)
        with self._change:
            self._num_busy -= 1

    def _refill(self, index: int) -> None:
        """Open a slot; on failure wait for `_PAUSE_S`, as the engine may be restarting."""
        try:
            if not self._closing:
                self._open(index)
        except (SlotError, SandboxError, OSError) as error:
            _log.warning("slot %d: %s", index, error)
            time.sleep(_PAUSE_S)

    def _open(self, index: int) -> Slot:
        slot = self.backend.open_slot(index)
        with self._change:
            closing = self._closing
            self._slots[index] = slot
        if closing:
            slot.abort()
        return slot

    def _drop(self, index: int) -> None:
        with self._change:
            slot = self._slots.pop(index, None)
        if slot is not None:
            slot.close()
