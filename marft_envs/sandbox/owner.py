"""Owner marks of containers and folders, which let other processes clean up after a kill -9."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def owner_mark() -> str:
    """Return the mark of this process: host, PID namespace, process id and start time, as ids are reused."""
    return f"{socket.gethostname()}-{_place()}-{os.getpid()}-{_start_ticks(os.getpid())}"


def is_gone(mark: str) -> bool:
    """True if the marked process belonged to this host and PID namespace and no longer runs.

    Processes of other hosts and PID namespaces cannot be checked, so the result for them is False.
    """
    parts = mark.rsplit("-", 3)
    if parts[:-2] != [socket.gethostname(), _place()] or not all(map(str.isdecimal, parts[-2:])):
        return False
    pid, start = map(int, parts[-2:])
    return _start_ticks(pid) != start


def pid_namespace() -> int:
    """Return the number of this process's PID namespace; 0 if it is unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # no /proc, or not Linux
        return 0


def _place() -> str:
    """Return a name of the PID namespace.

    It includes the boot id, as the initial namespace has the same number on all machines.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        boot = ""
    return f"{boot}.{pid_namespace()}"


def _start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot; 0 if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])
