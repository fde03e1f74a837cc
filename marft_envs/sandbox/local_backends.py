"""Backends of this machine, for hosts without a container engine: bubblewrap, Landlock, and one that is unsafe.

`BubblewrapBackend` starts a jail of namespaces for each submission. The jail sees the files that the interpreter and
the compiler need, all read-only. Programs see less: their root is made of copies in the machine's memory
(`jail/runtime_files.py`), where nothing is left of names that they looked up. The box is written by the host and
read-only for the jail, and every submission gets a new jail, so nothing is left over for the next one. Builds run in a
jail of their own with a small writable file system in memory. bubblewrap limits neither processes nor memory: the
runner's fork filter and its limits do. A jail started by root could write kernel settings, so root switches to another
user first.

`LandlockBackend` has no dependencies: Landlock, seccomp and resource limits are set before each program starts. It
works without root, without user namespaces, and inside an ordinary container. As root, programs also get their own user
ids. Two channels stay open: `stat` reveals that a path exists, and a program sees the kernel and the processors of the
host.

`UnsafeBackend` runs plain processes under resource limits without isolation, for trusted programs only. A program can
read and delete your files, reach the network, and leave processes behind.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from marft_envs.sandbox.compiled_headers import compiled_headers
from marft_envs.sandbox.host_machine import Shown, find_runtime, find_shown, find_tools, memory_folder, slot_uids
from marft_envs.sandbox.jail.plan import DEVICES, ZEROS
from marft_envs.sandbox.jail.runtime_files import read_before
from marft_envs.sandbox.jail.wire import RunRequest, RunResult
from marft_envs.sandbox.judge_data import SandboxError
from marft_envs.sandbox.local_runner import Workplace, landlock_options, runner_command, runtime_options, start_slot
from marft_envs.sandbox.slot import RunnerSlot, Slot, SlotError

BOX, ROOT, PARENT = "/box", "/jail", "/marft"
BUILD_BYTES = 128 << 20
_log = logging.getLogger(__name__)


class BubblewrapBackend:
    """Backend whose slots are processes in their own namespaces.

    Attributes:
        name: Name of the backend, "bubblewrap".
        tools: Paths of the interpreter and the compiler.
        headers: Headers that this machine compiles; None without a compiler.

    Raises:
        SandboxError: bubblewrap is not installed.
    """

    name = "bubblewrap"

    def __init__(self) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxError("bubblewrap is not installed: apt install bubblewrap")
        self.tools: Mapping[str, str] = find_tools()
        self.headers = compiled_headers(self.tools.get("c++"))
        self._runtime = find_runtime(self.tools["python"])
        memory = memory_folder()
        self._has_root = bool(memory and self._runtime)
        if not self._has_root:
            _log.warning(
                "bubblewrap: no tmpfs where programs may execute files (tried /dev/shm and /tmp), "
                "so names that a program looks up can tell a later one bits"
            )
        self._workplace = Workplace(memory, self._runtime if self._has_root else ())
        self._command = [program, *_walls(find_shown(self.tools))]

    def open_slot(self, index: int) -> Slot:
        """Create a box and start the first jail on it."""
        user = slot_uids(index)[0] if os.geteuid() == 0 else None
        box = self._workplace.box(index)
        command = [*self._command, "--ro-bind", f"{self._workplace.path}/jail", f"{PARENT}/jail"]
        if self.headers is not None:
            command += ["--ro-bind-try", str(self.headers.path), f"{PARENT}/headers"]  # a cleaner may remove it
        options = runtime_options(self._runtime)
        if self._has_root:
            command += ["--ro-bind", f"{self._workplace.path}/root", ROOT]
            for path in (*DEVICES, ZEROS):
                command += ["--dev-bind", path, f"{ROOT}{path}"]
            options = ["--root", ROOT]
        else:
            read_before(self._runtime)
        return BubblewrapSlot(command, box, self.tools, user, options)

    def close(self) -> None:
        """Remove the folder; all slots must be closed before."""
        self._workplace.close()


class BubblewrapSlot:
    """A box, and successive jails that run on it.

    Args:
        command: Command line of bubblewrap with all its options except those for the box.
        box: Folder of the box on the host.
        tools: Paths of the tools in the jail.
        user: User id to start bubblewrap with; None keeps ours.
        options: Command line options of the runner.
    """

    def __init__(
        self, command: Sequence[str], box: Path, tools: Mapping[str, str], user: int | None, options: Sequence[str]
    ) -> None:
        self.places: Mapping[str, str] = {**tools, "box": BOX, "headers": f"{PARENT}/headers"}
        self._command = command
        self._box = box
        self._user = user
        self._options = options
        self._aborted = False
        self._jail = self._start().greet()

    def put(self, name: str, content: bytes, mode: int) -> None:
        """Write a file of the box on the host; jails cannot write there, so it holds no malicious links."""
        path = self._box / name
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        os.utime(path, (0, 0))  # as `jail.submission_folder.Box.put`

    def build(self, request: RunRequest, product: str, files: Mapping[str, bytes]) -> tuple[RunResult, bytes]:
        """Build in a separate jail, the only one with write access, and only to memory."""
        for name, content in files.items():
            self.put(name, content, 0o444)
        (self._box / "build").mkdir(exist_ok=True)
        builder = self._start("--size", str(BUILD_BYTES), "--tmpfs", f"{ROOT}{BOX}/build")
        try:
            return builder.greet().build_here(request, product)
        finally:
            builder.close()

    def run_all(self, requests: Sequence[RunRequest], ahead: bool) -> Iterator[RunResult]:
        """Run programs one after the other in the current jail."""
        return self._jail.greet().run_all(requests, ahead)

    def reset(self) -> None:
        """Start a new jail on an empty box; it warms up until it is needed."""
        self._jail.close()
        for path in self._box.iterdir():
            path.rmdir() if path.is_dir() else path.unlink()
        self._jail = self._start()

    def ran_out_of_memory(self) -> bool:
        """Return False: a jail has no memory limit of its own."""
        return self._jail.ran_out_of_memory()

    def abort(self) -> None:
        """Kill the jail at once."""
        self._aborted = True
        self._jail.abort()

    def close(self) -> None:
        """Kill the jail and close its channel."""
        self._jail.close()

    def _start(self, *more: str) -> RunnerSlot:
        if self._aborted:
            raise SlotError("the judge was closed")
        # The box is in the root of programs; the link gives its files the same path for builds.
        place = f"{ROOT}{BOX}"
        walls = ["--ro-bind", str(self._box), place, "--symlink", place, BOX, *more, "--remount-ro", "/"]
        runner = runner_command(self.places["python"], PARENT, "namespace", BOX, *self._options)
        return start_slot([*self._command, *walls, "--", *runner], self.places, self._user)


def _walls(shown: Shown) -> list[str]:
    """Return the options of bubblewrap, except those for the box."""
    options = ["--unshare-all", "--uid", "10001", "--gid", "10001", "--hostname", "sandbox"]
    options += ["--cap-drop", "ALL", "--cap-add", "CAP_SYS_CHROOT"]
    options += ["--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
    for path in shown.paths:
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]
        else:
            options += ["--ro-bind", str(path), str(path)]
    for path in shown.hidden:
        options += _cover(path)
    # A user namespace may change settings of its own namespaces, which the next test would read.
    return [*options, "--proc", "/proc", *_cover(Path("/proc/sys")), "--dev", "/dev", "--remount-ro", "/dev"]


def _cover(path: Path) -> list[str]:
    """Return options that cover a folder with an empty one."""
    return ["--tmpfs", str(path), "--remount-ro", str(path)]


class LandlockBackend:
    """Backend whose slots are processes of this machine.

    Attributes:
        name: Name of the backend for `Judge`.
        isolation: Name of the isolation for the runner.
        tools: Paths of the interpreter and the compiler.
        headers: Headers that this machine compiles; None without a compiler.
    """

    name = "landlock"
    isolation = "landlock"

    def __init__(self) -> None:
        self.tools: Mapping[str, str] = find_tools()
        self.headers = compiled_headers(self.tools.get("c++"))
        self._workplace = Workplace()

    def open_slot(self, index: int) -> Slot:
        """Start a runner on a box that only its programs may read."""
        box = str(self._workplace.box(index))
        parent = str(self._workplace.path)
        command = runner_command(sys.executable, parent, self.isolation, box, *self._options(index))
        headers = f"{parent}/headers" if self.headers is None else str(self.headers.path)
        return start_slot(command, {**self.tools, "box": box, "headers": headers}).greet()

    def close(self) -> None:
        """Remove the folder; all slots must be closed before."""
        self._workplace.close()

    def _options(self, index: int) -> list[str]:
        shown = find_shown(self.tools)
        compiled = [] if self.headers is None else ["--read", str(self.headers.path)]
        options = [
            *landlock_options(shown),
            *compiled,
            *runtime_options(find_runtime(self.tools["python"]), shown.hidden),
        ]
        return [*options, "--uids", "{}:{}".format(*slot_uids(index))] if os.geteuid() == 0 else options


class UnsafeBackend(LandlockBackend):
    """Backend without isolation; never selected automatically."""

    name = "unsafe"
    isolation = "none"

    def __init__(self) -> None:
        warnings.warn(
            'backend="unsafe" isolates nothing: judged programs can do whatever you can; trust them as your own',
            RuntimeWarning,
            stacklevel=4,
        )
        super().__init__()

    def _options(self, index: int) -> list[str]:
        return []
