"""Who owns a container or a folder: a mark that outlives the process, so that others may clear up after a kill -9."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def owner_mark() -> str:
    """Return the mark of this process: host, process id, and when it started (ids are used again)."""
    return f"{socket.gethostname()}-{os.getpid()}-{_start_ticks(os.getpid())}"


def is_gone(mark: str) -> bool:
    """Return True if the mark is of a process of this host that no longer runs; of other hosts nothing is known."""
    host, _, rest = mark.rpartition("-")
    host, _, pid = host.rpartition("-")
    if host != socket.gethostname() or not (pid.isdigit() and rest.isdigit()):
        return False
    return _start_ticks(int(pid)) != int(rest)


def _start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 where it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])
