"""A runner as a process of this machine: how the backends without an engine start and end their jails."""

from __future__ import annotations

import contextlib
import os
import py_compile
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from marft_envs.sandbox.channel import Channel
from marft_envs.sandbox.jail import native
from marft_envs.sandbox.machine import make_folder, stale_folders
from marft_envs.sandbox.owner import is_gone, owner_mark
from marft_envs.sandbox.slot import RunnerSlot

_START = "import sys; sys.path.insert(0, {parent!r}); from jail.runner import main; main()"
_LOG_BYTES = 2048


def runner_command(python: str, parent: str, isolation: str, box: str, *more: str) -> list[str]:
    """Return the command line of the runner whose folder `jail` lies in `parent`."""
    return [python, "-I", "-S", "-c", _START.format(parent=parent), "--isolation", isolation, "--box", box, *more]


class ProcessJail:
    """A runner that is a process of ours.

    Args:
        command: See `runner_command`, or something that ends in it.
        stream: Its descriptors 0 and 1.
        user: User id to change to first; None stays what we are.
    """

    def __init__(self, command: Sequence[str], stream: socket.socket, user: int | None) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - `release` closes it
        options: dict[str, Any] = {"stdin": stream, "stdout": stream, "stderr": self._log, "cwd": "/", "env": {}}
        if user is not None:
            options |= {"user": user, "group": user, "extra_groups": []}
        self._process = subprocess.Popen(command, start_new_session=True, **options)
        self._ending = threading.Lock()

    def kill(self) -> None:
        """End it; the kernel ends its children with it.

        But not one whose parent died before it could ask for that (bubblewrap's, in its first moments); it is still of
        the runner's group, whose number is nobody else's until the runner is waited for.
        """
        with self._ending:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.kill()
                self._process.wait()

    def ran_out_of_memory(self) -> bool:
        """Return False: what ran out is the machine's, and whose fault that was nobody can tell."""
        return False

    def last_words(self) -> str:
        """Return the end of the runner's log."""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _LOG_BYTES))
        return self._log.read().decode(errors="replace")

    def release(self) -> None:
        """Close the log."""
        self._log.close()


def start_slot(command: Sequence[str], places: Mapping[str, str], user: int | None = None) -> RunnerSlot:
    """Start a runner; it warms up while we go on, `greet` waits for it.

    Raises:
        OSError: The command is not there.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            jail = ProcessJail(command, theirs, user)
        except BaseException:
            ours.close()
            raise
    return RunnerSlot(jail, Channel(ours), places)


class Workplace:
    """The folder of a backend on this machine: a copy of the runner that any user may read, a folder for each slot.

    A cleaner of temporary files may remove it, or a part of it: what is missing is made again with the next box.

    Attributes:
        path: The folder; holds the runner, the package `jail`. Another one after a call of `box` if it was removed.
    """

    def __init__(self) -> None:
        for folder, mark in stale_folders():
            if is_gone(mark):
                _end_blocked_jails(folder)
                shutil.rmtree(folder, ignore_errors=True)
        self._changing = threading.Lock()
        self.path = make_folder(owner_mark())
        self._installed = _install_runner(self.path / "jail")

    def box(self, index: int) -> Path:
        """Return the empty box of a slot."""
        with self._changing:
            if not _is_ours(self.path):
                self.path = make_folder(owner_mark())
            if not all(os.path.exists(f"{self.path}/jail/{name}") for name in self._installed):
                shutil.rmtree(self.path / "jail", ignore_errors=True)
                self._installed = _install_runner(self.path / "jail")
            box = self.path / str(index)
        shutil.rmtree(box, ignore_errors=True)
        box.mkdir(mode=0o755)
        return box

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.path, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Return True if a folder is still there; its name was known, so another user may have taken it since."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _end_blocked_jails(folder: Path) -> None:
    """End the jails of an owner that was killed in the moment in which it started them.

    bubblewrap asks to end with its parent only after its parent has let it go on. If the parent is killed before
    that, the jail waits without end. Its command line names the owner's folder.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text() == "bwrap\n":
                words = (process / "cmdline").read_bytes().split(b"\0")
                if f"{folder}/jail".encode() in words:
                    os.kill(int(process.name), signal.SIGKILL)


def _install_runner(folder: Path) -> list[str]:
    """Copy the runner and return the names of its files.

    It is compiled here, for a jail can't write there and would compile it at each start.
    """
    folder.mkdir(mode=0o755)
    for file in resources.files("marft_envs.sandbox.jail").iterdir():
        if file.is_file() and file.name.endswith((".py", ".c")):
            copy = folder / file.name
            copy.write_bytes(file.read_bytes())
            copy.chmod(0o644)
            if copy.suffix == ".py":
                py_compile.compile(str(copy), doraise=True)
    compiler = shutil.which(native.COMPILE[0])
    if compiler:  # without one, the runner starts programs in Python, a millisecond slower
        command = [compiler, *native.COMPILE[1:]]
        subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
