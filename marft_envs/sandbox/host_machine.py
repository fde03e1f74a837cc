"""Host machine of the judge: its cores, tools, visible paths, user ids, folders, and marks of their owners."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from marft_envs.sandbox.jail import runtime_files
from marft_envs.sandbox.judge_data import SandboxError

UIDS_PER_SLOT = 16
_IN_MEMORY, _ROOM = ("/dev/shm", "/tmp"), 512 << 20  # bytes: copies of what programs read, and the boxes
_SINGLE_FILES = ("etc/ld.so.cache", "etc/alternatives", "etc/localtime", "usr/share/zoneinfo")
_LIBRARY_FOLDERS = ("gcc", "*-linux-*", "bfd-plugins", "locale", "python3.*")  # in lib, lib32, lib64 and libexec
_LIBRARY_FILES = ("*.so", "*.so.*", "*.a", "*.o")
_MOST_LIBRARIES = 64
SLOTS_PER_PROCESS = 64
_STRIDE = 104_729  # a prime, so that equal process ids in different PID namespaces map far apart


def physical_cores() -> list[int]:
    """Return one logical CPU of each physical core that this process may use."""
    cores: dict[str, int] = {}
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)  # not Linux
    for cpu in sorted(usable):
        try:
            siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
        except OSError:
            siblings = str(cpu)
        cores.setdefault(siblings, cpu)
    return list(cores.values())


def find_tools() -> dict[str, str]:
    """Return paths of the interpreter and the compiler that an unprivileged user may run.

    Raises:
        SandboxError: There is no Python for unprivileged users.
    """
    found = {"python": _find_python()}
    compiler = shutil.which("g++", path="/usr/local/bin:/usr/bin:/bin")
    return found | ({"c++": compiler} if compiler else {})


class Shown(NamedTuple):
    """Paths of this machine that a jail shows; all others are invisible.

    Attributes:
        paths: Visible files, folders and links.
        hidden: Folders beneath `paths` that stay invisible.
    """

    paths: tuple[Path, ...]
    hidden: tuple[Path, ...]


def find_shown(tools: Mapping[str, str], root: Path = Path("/")) -> Shown:
    """Return the paths that interpreter and compiler need: programs, headers, libraries, Python's standard library.

    Other folders below /usr stay hidden, as packages, virtual environments, sources and shared data there may hold
    our own problems and answers.

    Args:
        tools: Paths of the tools, from `find_tools`.
        root: Root of the file system; tests use another one.
    """
    roots = (root, root / "usr", *(Path(tool).resolve().parent.parent for tool in tools.values()))
    paths, hidden = [root / name for name in _SINGLE_FILES], list[Path]()
    for prefix in dict.fromkeys(roots):
        paths += [prefix / name for name in ("bin", "include")]
        for folder in sorted(prefix.glob("lib*")):
            found = [path for path in sorted(folder.iterdir()) if _is_library(path)] if folder.is_dir() else []
            if folder.is_symlink():
                paths.append(folder)
            elif len(found) <= _MOST_LIBRARIES:
                paths += found
            else:  # all libraries in one folder: one mount per file would take seconds
                paths.append(folder)
                hidden += [path for path in sorted(folder.iterdir()) if path.is_dir() and path not in found]
            hidden += [path for path in sorted(folder.glob("python3*/*-packages")) if path.parent in found]
    return Shown(tuple(path for path in paths if os.path.lexists(path)), tuple(hidden))


@functools.cache
def find_runtime(python: str) -> tuple[str, ...]:
    """Find the paths that an interpreter and its programs read at run time; empty if that fails."""
    command = [python, "-I", "-S", runtime_files.__file__]
    found = subprocess.run(command, capture_output=True, text=True, env={}, stdin=subprocess.DEVNULL, check=False)
    return () if found.returncode else tuple(found.stdout.strip().split("\0"))


def _is_library(path: Path) -> bool:
    patterns = _LIBRARY_FOLDERS if path.is_dir() else _LIBRARY_FILES
    return any(path.match(pattern) for pattern in patterns)


def process_number() -> int:
    """Return this process's id, offset by its PID namespace to separate equal ids."""
    return os.getpid() + pid_namespace() * _STRIDE


def slot_uids(index: int) -> tuple[int, int]:
    """Return the first and last user id of a slot; slots of one PID namespace share none.

    Process limits and the killing of leftover processes go by user id. If a user namespace maps few ids, the range
    wraps around, so a clash is improbable but possible. The same holds between two PID namespaces.
    """
    wanted = (process_number() * SLOTS_PER_PROCESS + index % SLOTS_PER_PROCESS) * UIDS_PER_SLOT
    try:
        mapped = sum(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines())
    except OSError:
        mapped = 1 << 32
    room = (1 << 31) - (1 << 20) if mapped > 1 << 31 else 1 << 15
    first = (1 << 20 if mapped > 1 << 31 else 20_000) + wanted % room
    return first, first + UIDS_PER_SLOT - 1


def memory_folder() -> str | None:
    """Return a tmpfs of this machine where unprivileged users may enter and execute files; None if none has room."""
    for folder in _IN_MEMORY:
        if _has_memory(folder) and _is_open(Path(folder)):
            return folder
    return None


def _has_memory(folder: str) -> bool:
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        found = os.statvfs(folder)
    except OSError:
        return False
    kinds = [kind for _, place, kind, *_ in mounts if place == folder]  # the last mount counts
    return kinds[-1:] == ["tmpfs"] and not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= _ROOM


def make_folder(mark: str, parent: str | None = None) -> Path:
    """Create a folder that unprivileged users may enter but not list.

    Args:
        mark: Mark of its owner.
        parent: Folder to create it in; None takes one for temporary files.

    Raises:
        SandboxError: They may not enter any folder for temporary files.
    """
    parents = (tempfile.gettempdir(), "/tmp", "/var/tmp")
    parent = parent or next((parent for parent in parents if _is_open(Path(parent))), None)
    if parent is None:
        raise SandboxError(f"no folder for temporary files that other users may enter (tried {', '.join(parents)})")
    folder = Path(tempfile.mkdtemp(prefix=f"marft-sandbox-{mark}-", dir=parent))
    folder.chmod(0o711)
    return folder


def is_ours(folder: Path) -> bool:
    """True if a folder exists and is ours; another user may have taken its known name."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def stale_folders() -> list[tuple[Path, str]]:
    """Return the folders that `make_folder` created in any process, with their marks."""
    found = [
        path
        for parent in {tempfile.gettempdir(), "/tmp", "/var/tmp", *_IN_MEMORY}
        for path in Path(parent).glob("marft-sandbox-*-*")
    ]
    return [(path, path.name.removeprefix("marft-sandbox-").rpartition("-")[0]) for path in found]


def _find_python() -> str:
    own = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    places = (own, *(f"{folder}/python3" for folder in ("/usr/local/bin", "/usr/bin", "/bin")))
    for place in places:
        path = Path(os.path.realpath(place))
        if path.is_file() and os.access(path, os.X_OK) and _is_open(path):
            return str(path)
    raise SandboxError(f"no Python that an unprivileged user may run (tried {', '.join(places)}): install python3")


def _is_open(path: Path) -> bool:
    """True if any user may enter all parent folders of a path and read it; without root, if this user may."""
    if os.geteuid() != 0:
        return os.access(path, os.R_OK | os.X_OK)
    try:
        return all(step.stat().st_mode & stat.S_IXOTH for step in (path.resolve(), *path.resolve().parents))
    except OSError:
        return False


# Marks of containers and folders: another process cleans up after their owner was killed.


def owner_mark(pid: int | None = None) -> str:
    """Return the mark of a process, by default of this one.

    It holds host, PID namespace, process id and start time, as ids are reused.
    """
    pid = os.getpid() if pid is None else pid
    return f"{socket.gethostname()}-{_place()}-{pid}-{_start_ticks(pid)}"


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
