"""Symbolic tier of the grader: math-verify in a separate process with kernel limits and a deadline.

Safe to use from any thread. Without math-verify, or without process forking, the tier is unavailable.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from marft_envs.grading.limits import (
    MAX_SYMBOLIC_CHARS,
    SYMBOLIC_CPU_S,
    SYMBOLIC_MEMORY_BYTES,
    SYMBOLIC_WALL_S,
)

Decision = Literal["equal", "different", "timeout", "unavailable"]
START_S = 60.0  # importing sympy takes 2 s, longer on a busy machine
_SCRIPT = Path(__file__).with_name("symbolic_worker.py")
_NUM_SLOTS = max(2, os.cpu_count() or 2)  # more concurrent jobs would only slow each other down


class _Server:
    """The warm worker process and our end of its control socket."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            with theirs:
                self.process = _start(theirs.fileno())
            self.ready = self._await_ready()
        except BaseException:  # no process available, or Ctrl-C during the start: clean up
            self.close()
            raise

    def _await_ready(self) -> bool:
        self.control.settimeout(START_S)
        try:
            return self.control.recv(1) == b"r"
        except OSError:
            return False

    def send(self, job: socket.socket) -> None:
        """Send one end of a socket pair to the process."""
        socket.send_fds(self.control, [b"j"], [job.fileno()])

    def close(self) -> None:
        """Terminate and reap the process."""
        self.control.close()
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def disown(self) -> None:
        """Close our copy of the socket in a forked child; only the parent can wait for the process."""
        self.control.close()
        if self.process is not None:
            self.process.returncode = 0


def _start(descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", str(_SCRIPT), str(descriptor)],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},  # sympy's choices depend on the order of its sets
    )


class _Owner:
    """Holder of one server per process: started on demand, dropped in a forked child."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.slots = threading.BoundedSemaphore(_NUM_SLOTS)
        self.server: _Server | None = None
        self.failures = 0

    def hand_over(self, job: socket.socket) -> bool:
        """Send a job, and start or replace the server if needed; return False if there is none."""
        with self.lock:
            for _ in range(2):
                if self.server is None and self.failures < 3:
                    self.server = _Server()
                if self.server is None:
                    return False
                try:
                    if self.server.ready:
                        self.server.send(job)
                        return True
                except OSError:
                    pass
                self.failures += not self.server.ready
                self.server.close()
                self.server = None
            return False

    def close(self) -> None:
        """Stop the server; the next job starts a new one."""
        with self.lock:
            if self.server is not None:
                self.server.close()
                self.server = None

    def forget(self) -> None:
        """Drop the server in a forked child, as it belongs to the parent."""
        self.lock = threading.Lock()
        self.slots = threading.BoundedSemaphore(_NUM_SLOTS)
        if self.server is not None:
            self.server.disown()
            self.server = None


_owner = _Owner()
atexit.register(_owner.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_owner.forget)


def available() -> bool:
    """True if this tier can work: math-verify is installed and descriptors can be passed."""
    return find_spec("math_verify") is not None and hasattr(socket, "send_fds") and hasattr(os, "fork")


def close() -> None:
    """Stop the worker process now; otherwise it ends with this process."""
    _owner.close()


def decide(first: str, second: str, wall_s: float = SYMBOLIC_WALL_S) -> Decision:
    """Compare two answers with math-verify.

    Args:
        first: LaTeX of one answer, at most `MAX_SYMBOLIC_CHARS` characters.
        second: LaTeX of the other answer.
        wall_s: Deadline in seconds of wall time; `SYMBOLIC_CPU_S` bounds the CPU time as well.

    Returns:
        "equal" or "different"; "timeout" if the worker exceeded a limit; "unavailable" without a worker.
    """
    if max(len(first), len(second)) > MAX_SYMBOLIC_CHARS:
        return "unavailable"
    if not available():
        return "unavailable"
    with _owner.slots:
        try:
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    if not _owner.hand_over(theirs):
                        return "unavailable"
                return _ask(ours, first, second, wall_s)
        except OSError:  # no descriptor or process available
            return "unavailable"


def _ask(job: socket.socket, first: str, second: str, wall_s: float) -> Decision:
    """Send the job, wait for the verdict until the deadline, and kill a worker that is late."""
    request = {
        "first": first,
        "second": second,
        "wall_s": wall_s,
        "cpu_s": SYMBOLIC_CPU_S,
        "memory_bytes": SYMBOLIC_MEMORY_BYTES,
    }
    deadline = time.monotonic() + wall_s
    received = b""
    try:
        job.sendall(json.dumps(request).encode() + b"\n")
        while received.count(b"\n") < 2:
            job.settimeout(max(1e-3, deadline - time.monotonic()))
            chunk = job.recv(4096)
            if not chunk:
                break
            received += chunk
    except OSError:
        pass
    lines = received.split(b"\n")
    if len(lines) < 3:
        if lines[0].isdigit():  # the first line is the id of the process that works on the job
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(lines[0]), signal.SIGKILL)
        return "timeout"
    return "equal" if json.loads(lines[1]).get("equal") else "different"
