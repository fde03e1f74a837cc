"""Owner marks of containers and folders: they outlive the process, so that others may clear up after a kill -9."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def owner_mark() -> str:
    """Return the mark of this process: host, PID namespace, process id, and when it started (ids are used again)."""
    return f"{socket.gethostname()}-{_place()}-{os.getpid()}-{_start_ticks(os.getpid())}"


def is_gone(mark: str) -> bool:
    """Return True if the mark is of a process of this host and PID namespace that no longer runs.

    Nothing is known of other hosts and of other PID namespaces, where the same number is another process.
    """
    parts = mark.rsplit("-", 3)
    if parts[:-2] != [socket.gethostname(), _place()] or not all(map(str.isdecimal, parts[-2:])):
        return False
    pid, start = map(int, parts[-2:])
    return _start_ticks(pid) != start


def pid_namespace() -> int:
    """Return the number of this process's PID namespace; 0 where there is none to be seen."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # no /proc, or no Linux
        return 0


def _place() -> str:
    """Return a name of the PID namespace. The first one has the same number on all machines, so the boot is in it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        boot = ""
    return f"{boot}.{pid_namespace()}"


def _start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 where it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])
