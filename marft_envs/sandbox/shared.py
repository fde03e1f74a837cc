"""Shared judges: one per process and backend, created at first use and closed at exit."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marft_envs.sandbox.judge import Judge

_judges: dict[str, Judge] = {}
_lock = threading.Lock()


def shared_judge(backend: str = "auto") -> Judge:
    """Return this process's shared judge of a backend; the first call starts it.

    Args:
        backend: Name of the backend, as for `Judge`.

    Raises:
        SandboxError: The backend does not work here; the message says what to do.
    """
    with _lock:
        if backend not in _judges:
            from marft_envs.sandbox.judge import Judge  # lazy: reading problems needs no judge

            _judges[backend] = Judge(backend=backend)
        return _judges[backend]


def close_shared_judges() -> None:
    """Close all shared judges; later calls create new ones."""
    with _lock:
        judges = list(_judges.values())
        _judges.clear()
    for judge in judges:
        judge.close()


def _forget() -> None:
    """Forget the judges in a forked child, as they belong to the parent."""
    global _lock  # noqa: PLW0603 - the parent may have held it at the fork
    _lock = threading.Lock()
    _judges.clear()


atexit.register(close_shared_judges)
os.register_at_fork(after_in_child=_forget)
