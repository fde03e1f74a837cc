"""Client of the worker process of reasoning-gym: one process per process of ours, started when it is first needed."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marft_envs import JudgeFailure

WALL_S = 300.0  # of one request; the worker itself bounds the CPU time of a scored answer
_SCRIPT = Path(__file__).with_name("worker.py")
_SETTINGS = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class WorkerDiedError(RuntimeError):
    """The worker ended before it replied: out of CPU time or memory, or ended by somebody else."""


class _Owner:
    """Holder of the worker; dropped in a forked child, since it belongs to the parent."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self.lock:
            if self.process is None:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", str(_SCRIPT)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **_SETTINGS},
                    bufsize=0,
                )
            try:
                return _exchange(self.process, json.dumps(request).encode() + b"\n")
            except BaseException:  # also Ctrl-C: a reply that is not read would answer the next request
                self._end()
                raise

    def close(self) -> None:
        with self.lock:
            self._end()

    def forget(self) -> None:
        self.lock = threading.Lock()
        if self.process is not None:
            _close_pipes(self.process)
            self.process.returncode = 0  # only the parent can wait for it
            self.process = None

    def _end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            _close_pipes(self.process)
            self.process = None


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    received = b""
    try:
        process.stdin.write(request)
        while not received.endswith(b"\n"):
            if not select.select([process.stdout], [], [], WALL_S)[0]:
                raise WorkerDiedError(f"no reply in {WALL_S:g} s")
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                raise WorkerDiedError("the worker ended")
            received += chunk
    except BrokenPipeError as error:
        raise WorkerDiedError("the worker ended") from error
    reply: dict[str, Any] = json.loads(received)
    return reply


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


_owner = _Owner()
atexit.register(_owner.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_owner.forget)


def close() -> None:
    """Stop the worker now; otherwise it ends with this process. The next request starts a new one."""
    _owner.close()


def problem(place: Mapping[str, Any]) -> tuple[str, str]:
    """Return question and gold answer of a problem.

    Args:
        place: Generator, seed, size, config (as JSON text) and index.

    Raises:
        ValueError: The generator refuses its settings.
        JudgeFailure: The worker died.
    """
    try:
        reply = _owner.ask(place)
    except WorkerDiedError as error:
        raise JudgeFailure(f"reasoning-gym, {place['generator']}: {error} while it generated a problem") from error
    if "error" in reply:
        raise ValueError(f"reasoning-gym, {place['generator']}, config {place['config']}: {reply['error']}")
    return reply["question"], reply["answer"]


def score(place: Mapping[str, Any], answer: str) -> float | None:
    """Return the score of an answer to a problem, 0 to 1; None if the scorer died of it.

    Raises:
        JudgeFailure: The problem cannot be generated.
    """
    try:
        reply = _owner.ask({**place, "answer": answer})
    except WorkerDiedError:
        return None
    if "error" in reply:
        raise JudgeFailure(f"reasoning-gym, {place['generator']}: {reply['error']}")
    return float(reply["score"])
