"""Tests of one submission that several slots share: each takes the next ones, and results stay in order."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from marft_envs.sandbox.judge_data import TestResult, Verdict


class SplitSubmission:
    """Tests that threads take, run and put back as results.

    Args:
        tests: Places of the tests.
        most: Largest number of tests to take at once.
        stop_on_failure: True runs no test after the first that failed, as one slot alone would.
    """

    def __init__(self, tests: range, most: int, stop_on_failure: bool) -> None:
        self._change = threading.Condition()
        self._first, self._next, self._end = tests.start, tests.start, tests.stop
        self._most, self._stops = most, stop_on_failure
        self._results: dict[int, TestResult] = {}
        self._returned: list[range] = []
        self._running: set[range] = set()

    def take(self) -> range | None:
        """Return the places of the next tests to run; None if there are none left."""
        with self._change:
            if self._returned:
                taken = self._returned.pop()
            elif self._next < self._end:
                share = (self._end - self._next) // 4  # the last ones singly, so that the slots end together
                taken = range(self._next, self._next + min(self._most, max(1, share)))
                self._next = taken.stop
            else:
                return None
            self._running.add(taken)
            return taken

    def put(self, tests: range, results: Sequence[TestResult]) -> None:
        """Store the results of tests that were taken; there are fewer if one failed and the others do not count."""
        with self._change:
            self._results.update(zip(tests, results, strict=False))
            if self._stops and any(result.verdict is not Verdict.OK for result in results):
                self._end = min(self._end, tests.start + len(results))
                self._returned = [other for other in self._returned if other.start < self._end]
            self._running.remove(tests)
            self._change.notify_all()

    def give_back(self, tests: range) -> None:
        """Return tests that were taken and have no results, as their slot failed."""
        with self._change:
            if tests.start < self._end:
                self._returned.append(tests)
            self._running.remove(tests)
            self._change.notify_all()

    def close(self) -> None:
        """Let nobody take further tests."""
        with self._change:
            self._next, self._returned = self._end, []

    def wait(self) -> bool:
        """Wait for the tests that others run and that count; return False if some were given back instead."""
        with self._change:
            while not self._returned and any(tests.start < self._end for tests in self._running):
                self._change.wait()
            return not self._returned

    def results(self) -> list[TestResult]:
        """Return the results in order, up to the first failure that stops."""
        return [self._results[place] for place in range(self._first, self._end)]
