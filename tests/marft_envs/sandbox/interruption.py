"""A batch of submissions in whose middle something happens, whatever the machine is busy with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from marft_envs.sandbox import Submission, Test
from marft_envs.sandbox.checkers import Check
from marft_envs.sandbox.slot import _WINDOW


class Interrupts:
    """A checker for integers that calls something once, when it sees the first output of the batch."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._turn = threading.Lock()

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        if self._turn.acquire(blocking=False):
            self._call()
        return Check(float(int(output) == int(expected)))


def is_running(pid: int) -> bool:
    """Return False for a process that is gone, or ended and not yet collected, for which init may take seconds."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def interrupted(program: str, number: int, call: Callable[[], None]) -> list[Submission]:
    """Return submissions of a program that prints the next integer; `call` is called while one of them is judged.

    They have more tests than a slot sends ahead, so those that follow the first are not all answered by then.
    """
    tests = [Test(b"%d" % n, b"%d" % (n + 1)) for n in range(2 * _WINDOW)]
    checker = Interrupts(call)
    return [Submission(f"{program}  # {n}", "python", tests, checker=checker) for n in range(number)]
