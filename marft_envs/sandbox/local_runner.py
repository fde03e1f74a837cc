"""Runner as a host process, for backends without a container engine: command line, process, working folder."""

from __future__ import annotations

import contextlib
import os
import py_compile
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from marft_envs.sandbox.host_machine import Shown, is_gone, is_ours, make_folder, owner_mark, stale_folders
from marft_envs.sandbox.jail import spawn
from marft_envs.sandbox.jail.plan import DEVICES, ZEROS
from marft_envs.sandbox.jail.runtime_files import fill, put_library
from marft_envs.sandbox.slot import RunnerChannel, RunnerSlot

_START = "import sys; sys.path.insert(0, {parent!r}); from jail.runner import main; main()"
_LOG_BYTES = 2048


def runner_command(python: str, parent: str, isolation: str, box: str, *more: str) -> list[str]:
    """Return the command line of the runner; `parent` is the folder of its package `jail`."""
    return [python, "-I", "-S", "-c", _START.format(parent=parent), "--isolation", isolation, "--box", box, *more]


def landlock_options(shown: Shown) -> list[str]:
    """Return runner options that let programs read the paths that a jail shows."""
    return [word for path in shown.paths for word in _beneath(path, shown.hidden)]


def runtime_options(runtime: Sequence[str], hidden: tuple[Path, ...] = ()) -> list[str]:
    """Return runner options that name the paths that programs read at run time."""
    read = (_beneath(Path(os.path.realpath(path)), hidden) for path in runtime)
    return ["--runtime" if word == "--read" else word for words in read for word in words]


def _beneath(path: Path, hidden: tuple[Path, ...]) -> list[str]:
    """Return options for a path.

    A Landlock rule holds for everything beneath its path, so the content of a folder with a hidden part is listed.
    """
    if path.is_symlink() or path in hidden:  # the target of a link has its own rule
        return []
    if not any(other.is_relative_to(path) for other in hidden):
        return ["--read", str(path)]
    return ["--list", str(path), *(word for child in sorted(path.iterdir()) for word in _beneath(child, hidden))]


class ProcessJail:
    """Runner as a child process.

    Args:
        command: Result of `runner_command`, possibly with a wrapper command before it.
        stream: Socket for its descriptors 0 and 1.
        user: User id for the process; None keeps ours.
    """

    def __init__(self, command: Sequence[str], stream: socket.socket, user: int | None) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - `release` closes it
        options: dict[str, Any] = {"stdin": stream, "stdout": stream, "stderr": self._log, "cwd": "/", "env": {}}
        if user is not None:
            options |= {"user": user, "group": user, "extra_groups": []}
        self._process = subprocess.Popen(command, start_new_session=True, **options)
        self._ending = threading.Lock()

    def kill(self) -> None:
        """Kill the process group and reap the process.

        The kernel kills the children with their parent once they have requested it. A child of bubblewrap may not have
        done so yet, so the whole group is killed. Its number cannot be reused before the runner is reaped.
        """
        with self._ending:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.kill()
                self._process.wait()

    def ran_out_of_memory(self) -> bool:
        """Return False: the jail shares the machine's memory, so the cause is unknown."""
        return False

    def last_words(self) -> str:
        """Return the last bytes of the runner's log."""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _LOG_BYTES))
        return self._log.read().decode(errors="replace")

    def release(self) -> None:
        """Close the log file."""
        self._log.close()


def start_slot(command: Sequence[str], places: Mapping[str, str], user: int | None = None) -> RunnerSlot:
    """Start a runner without waiting for it; `greet` waits until it is ready.

    Raises:
        OSError: The command cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            jail = ProcessJail(command, theirs, user)
        except BaseException:
            ours.close()
            raise
    return RunnerSlot(jail, RunnerChannel(ours), places)


class Workplace:
    """Folder of a backend on this machine: a world-readable copy of the runner, and a box per slot.

    A cleaner of temporary files may remove parts of it; missing parts are created again with the next box.

    Args:
        parent: Folder to create it in; None takes one for temporary files.
        runtime: Paths that programs read, to be copied into a root for them.

    Attributes:
        path: Folder with the runner's package `jail` and the `root`. It changes with a call of `box` if it was removed.
    """

    def __init__(self, parent: str | None = None, runtime: Sequence[str] = ()) -> None:
        for folder, mark in stale_folders():
            if is_gone(mark):
                _end_blocked_jails(folder)
                shutil.rmtree(folder, ignore_errors=True)
        self._changing = threading.Lock()
        self._parent, self._runtime = parent, runtime
        self.path = make_folder(owner_mark(), parent)
        self._installed = self._install()

    def box(self, index: int) -> Path:
        """Create and return an empty box for a slot."""
        with self._changing:
            if not is_ours(self.path):
                self.path = make_folder(owner_mark(), self._parent)
            if not all(os.path.lexists(f"{self.path}/{name}") for name in self._installed):
                self._installed = self._install()
            box = self.path / str(index)
        shutil.rmtree(box, ignore_errors=True)
        box.mkdir(mode=0o755)
        return box

    def close(self) -> None:
        """Remove the folder and its content."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _install(self) -> list[str]:
        """Copy the runner and what programs read; return the paths of all files in the folder."""
        runner, root = self.path / "jail", self.path / "root"
        for folder in (runner, root):
            shutil.rmtree(folder, ignore_errors=True)
        _install_runner(runner)
        if self._runtime:
            for folder in (root, root / "box", root / "dev"):
                folder.mkdir(mode=0o755)
            for device in (*DEVICES, ZEROS):  # a jail has its devices there
                Path(f"{root}{device}").touch()
            fill(str(root), self._runtime)
            put_library(str(root), str(runner / spawn.LIBRARY))
        files = [path for folder in (runner, root) for path in folder.rglob("*") if not path.is_dir()]
        return [str(path.relative_to(self.path)) for path in files]


def _end_blocked_jails(folder: Path) -> None:
    """Kill the jails of an owner that was killed while it started them.

    bubblewrap asks the kernel to die with its parent only after the parent has let it continue. If the parent is
    killed before that, the jail waits forever. Its command line names the owner's folder.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text() == "bwrap\n":
                words = (process / "cmdline").read_bytes().split(b"\0")
                if f"{folder}/jail".encode() in words:
                    os.kill(int(process.name), signal.SIGKILL)


def _install_runner(folder: Path) -> None:
    """Copy and compile the runner.

    A jail cannot write there, so without this step it would compile the runner at each start.
    """
    folder.mkdir(mode=0o755)
    for file in resources.files("marft_envs.sandbox.jail").iterdir():
        if file.is_file() and file.name.endswith((".py", ".c")):
            copy = folder / file.name
            copy.write_bytes(file.read_bytes())
            copy.chmod(0o644)
            if copy.suffix == ".py":
                py_compile.compile(str(copy), doraise=True)
    compiler = shutil.which(spawn.COMPILE[0])
    if compiler:  # otherwise the runner starts programs from Python, a millisecond slower
        command = [compiler, *spawn.COMPILE[1:]]
        subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
