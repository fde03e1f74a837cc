"""One judge a process for all who name the same backend: made at the first use, closed at the process's end."""

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
    """Return the judge of a backend that this process shares; the first call starts it.

    Args:
        backend: As of `Judge`.

    Raises:
        SandboxError: No such backend works here; says what to do.
    """
    with _lock:
        if backend not in _judges:
            from marft_envs.sandbox.judge import Judge  # what reads a problem need not load what runs a program

            _judges[backend] = Judge(backend=backend)
        return _judges[backend]


def close_shared_judges() -> None:
    """Close them all; a later use makes new ones."""
    with _lock:
        judges = list(_judges.values())
        _judges.clear()
    for judge in judges:
        judge.close()


def _forget() -> None:
    """In a forked child: the judges are the parent's."""
    global _lock  # noqa: PLW0603 - the parent may have held it
    _lock = threading.Lock()
    _judges.clear()


atexit.register(close_shared_judges)
os.register_at_fork(after_in_child=_forget)
