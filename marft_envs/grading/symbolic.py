"""The last tier: math-verify in a process of its own that the kernel and we can kill at any moment.

Usable from any thread. Without math-verify, or where processes cannot be forked, nothing is decided.
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
START_S = 60.0  # importing sympy takes 2 s, more on a busy machine
_SCRIPT = Path(__file__).with_name("symbolic_worker.py")
_NUM_SLOTS = max(2, os.cpu_count() or 2)  # more jobs at once would only slow each other down


class _Server:
    """The warm process and our end of its control socket."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            with theirs:
                self.process = _start(theirs.fileno())
            self.ready = self._await_ready()
        except BaseException:  # no process to be had, or Ctrl-C while it starts: leave nothing behind
            self.close()
            raise

    def _await_ready(self) -> bool:
        self.control.settimeout(START_S)
        try:
            return self.control.recv(1) == b"r"
        except OSError:
            return False

    def send(self, job: socket.socket) -> None:
        """Hand over one end of a socket pair."""
        socket.send_fds(self.control, [b"j"], [job.fileno()])

    def close(self) -> None:
        """End the process and collect it."""
        self.control.close()
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def disown(self) -> None:
        """In a forked child: close our copy of the socket; the process is not ours to wait for."""
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
        env={**os.environ, "PYTHONHASHSEED": "0"},  # the order of sympy's sets decides what it tries
    )


class _Owner:
    """Keeps one server for this process, starts it on demand, forgets it in a forked child."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.slots = threading.BoundedSemaphore(_NUM_SLOTS)
        self.server: _Server | None = None
        self.failures = 0

    def hand_over(self, job: socket.socket) -> bool:
        """Send a job; start or replace the server where needed. False if there is none."""
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
        """End the server; the next job starts another."""
        with self.lock:
            if self.server is not None:
                self.server.close()
                self.server = None

    def forget(self) -> None:
        """In a forked child: the server belongs to the parent."""
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
    """Say whether this tier can work here: math-verify is installed and descriptors can be passed."""
    return find_spec("math_verify") is not None and hasattr(socket, "send_fds") and hasattr(os, "fork")


def close() -> None:
    """End the worker process now (it ends by itself with this process)."""
    _owner.close()


def decide(first: str, second: str, wall_s: float = SYMBOLIC_WALL_S) -> Decision:
    """Let math-verify compare two answers.

    Args:
        first: LaTeX of one answer, at most `MAX_SYMBOLIC_CHARS`.
        second: LaTeX of the other.
        wall_s: Seconds after which the worker is killed; `SYMBOLIC_CPU_S` seconds of work end it before.

    Returns:
        "equal" or "different"; "timeout" if it took too long or died of a limit; "unavailable".
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
        except OSError:  # no descriptor or process to be had
            return "unavailable"


def _ask(job: socket.socket, first: str, second: str, wall_s: float) -> Decision:
    """Send the job, wait for the verdict until the deadline, kill the worker if it is late."""
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
        _kill(lines[0])
        return "timeout"
    return "equal" if json.loads(lines[1]).get("equal") else "different"


def _kill(process_id: bytes) -> None:
    if process_id.isdigit():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(int(process_id), signal.SIGKILL)
