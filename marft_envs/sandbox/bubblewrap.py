"""The bubblewrap backend: a jail of namespaces for each submission, for machines without an engine.

The jail sees what the interpreter and the compiler need of the system, all read-only, and its box, which the host
writes and it only reads: nothing can be left over for the next submission, which gets another jail. Builds have one
of their own, with a little memory to write to. bubblewrap limits neither processes nor memory: the runner's filter
against fork and its limits do. A jail started by root could write the kernel's settings, so root becomes another
user first.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from marft_envs.sandbox.channel import SlotError
from marft_envs.sandbox.jail.warm import warm
from marft_envs.sandbox.jail.wire import RunRequest, RunResult
from marft_envs.sandbox.landlock_backend import runtime_options
from marft_envs.sandbox.machine import Shown, find_runtime, find_shown, find_tools, slot_uids
from marft_envs.sandbox.process import Workplace, runner_command, start_slot
from marft_envs.sandbox.slot import RunnerSlot, Slot
from marft_envs.sandbox.verdict import SandboxError

BOX, PARENT = "/box", "/marft"
BUILD_BYTES = 128 << 20


class BubblewrapBackend:
    """Slots that are processes in namespaces of their own.

    Attributes:
        name: "bubblewrap".
        tools: What programs are built and run with.

    Raises:
        SandboxError: bubblewrap is not installed.
    """

    name = "bubblewrap"

    def __init__(self) -> None:
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxError("bubblewrap is not installed: apt install bubblewrap")
        self.tools: Mapping[str, str] = find_tools()
        self._workplace = Workplace()
        self._command = [program, *_walls(find_shown(self.tools))]
        self._runtime = find_runtime(self.tools["python"])

    def open_slot(self, index: int) -> Slot:
        """Make a box, and start the first jail over it."""
        user = slot_uids(index)[0] if os.geteuid() == 0 else None
        box = self._workplace.box(index)
        command = [*self._command, "--ro-bind", f"{self._workplace.path}/jail", f"{PARENT}/jail"]
        warm(self._runtime)
        return BubblewrapSlot(command, box, self.tools, user, runtime_options(self._runtime))

    def close(self) -> None:
        """Remove the folder; the slots are closed before."""
        self._workplace.close()


class BubblewrapSlot:
    """A box, and one jail after the other over it.

    Args:
        command: bubblewrap with all walls but the box.
        box: Folder on the host.
        tools: What there is in the jail.
        user: User id to start bubblewrap with; None is ours.
        options: Of the runner.
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
        """Write a file of the box, on the host; no jail can write there, so there are no links to fall for."""
        path = self._box / name
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        path.chmod(mode)

    def build(self, request: RunRequest, product: str, files: Mapping[str, bytes]) -> tuple[RunResult, bytes]:
        """Build in a jail of its own, the only one that may write, and only into memory."""
        for name, content in files.items():
            self.put(name, content, 0o444)
        (self._box / "build").mkdir(exist_ok=True)
        builder = self._start("--size", str(BUILD_BYTES), "--tmpfs", f"{BOX}/build")
        try:
            return builder.greet().build_here(request, product)
        finally:
            builder.close()

    def run_all(self, requests: Sequence[RunRequest], ahead: bool) -> Iterator[RunResult]:
        """Run programs one after the other."""
        return self._jail.greet().run_all(requests, ahead)

    def reset(self) -> None:
        """Take another jail over an empty box; it warms up until it is needed."""
        self._jail.close()
        for path in self._box.iterdir():
            path.rmdir() if path.is_dir() else path.unlink()
        self._jail = self._start()

    def ran_out_of_memory(self) -> bool:
        """Return False: a jail has no memory of its own."""
        return self._jail.ran_out_of_memory()

    def abort(self) -> None:
        """End the jail at once."""
        self._aborted = True
        self._jail.abort()

    def close(self) -> None:
        """End the jail."""
        self._jail.close()

    def _start(self, *more: str) -> RunnerSlot:
        if self._aborted:
            raise SlotError("the judge was closed")
        walls = ["--ro-bind", str(self._box), BOX, *more, "--remount-ro", "/"]
        runner = runner_command(self.places["python"], PARENT, "namespace", BOX, *self._options)
        return start_slot([*self._command, *walls, "--", *runner], self.places, self._user)


def _walls(shown: Shown) -> list[str]:
    """Return the options of bubblewrap, but for the box."""
    options = ["--unshare-all", "--uid", "10001", "--gid", "10001", "--hostname", "sandbox", "--cap-drop", "ALL"]
    options += ["--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
    for path in shown.paths:
        options += _mount(path)
    for path in shown.hidden:
        options += _cover(path)
    # A user namespace may change the settings of its own namespaces, and the next test would read them.
    return [*options, "--proc", "/proc", *_cover(Path("/proc/sys")), "--dev", "/dev", "--remount-ro", "/dev"]


def _cover(path: Path) -> list[str]:
    """Cover a folder with an empty one."""
    return ["--tmpfs", str(path), "--remount-ro", str(path)]


def _mount(path: Path) -> list[str]:
    kind, source = ("--symlink", os.readlink(path)) if path.is_symlink() else ("--ro-bind", str(path))
    return [kind, source, str(path)]
