"""One judge per process and backend, created at first use and closed at exit."""

from __future__ import annotations

import atexit
import os
import threading

from marft_envs.sandbox.judge import Judge, JudgeBase
from marft_envs.sandbox.ray_judge import RayJudge

_judges: dict[str, JudgeBase] = {}
_lock = threading.Lock()


def shared_judge(backend: str = "auto") -> JudgeBase:
    """Return this process's shared judge of a backend; the first call starts it.

    Args:
        backend: Name of the backend, as for `Judge`, or "ray:" and such a name: a `RayJudge`.

    Raises:
        SandboxError: The backend does not work here; the message says what to do.
    """
    with _lock:
        if backend not in _judges:
            where, _, remote = backend.partition(":")
            if where == "ray":
                _judges[backend] = RayJudge(remote or "auto")
            else:
                _judges[backend] = Judge(backend)
        return _judges[backend]


def close_shared_judges() -> None:
    """Close all shared judges; later calls create new ones."""
    with _lock:
        judges = list(_judges.values())
        _judges.clear()
    for judge in judges:
        judge.close()


def _forget_shared_judges() -> None:
    """Forget the judges in a forked child, as they belong to the parent."""
    global _lock  # noqa: PLW0603 - the parent may have held it at the fork
    _lock = threading.Lock()
    _judges.clear()


atexit.register(close_shared_judges)  # before the pools of `judge` are closed, since registered after
os.register_at_fork(after_in_child=_forget_shared_judges)
