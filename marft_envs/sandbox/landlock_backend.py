"""Landlock backend without dependencies: Landlock, seccomp and resource limits set before each program starts.

It works without root, without user namespaces, and inside an ordinary container. As root, programs also get their
own user ids. Two channels stay open: `stat` reveals that a path exists, and a program sees the kernel and the
processors of the host.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from marft_envs.sandbox.machine import Shown, find_runtime, find_shown, find_tools, slot_uids
from marft_envs.sandbox.process import Workplace, runner_command, start_slot
from marft_envs.sandbox.slot import Slot


class LandlockBackend:
    """Backend whose slots are processes of this machine.

    Attributes:
        name: Name of the backend for `Judge`.
        isolation: Name of the isolation for the runner.
        tools: Paths of the interpreter and the compiler.
    """

    name = "landlock"
    isolation = "landlock"

    def __init__(self) -> None:
        self.tools: Mapping[str, str] = find_tools()
        self._workplace = Workplace()

    def open_slot(self, index: int) -> Slot:
        """Start a runner on a box that only its programs may read."""
        box = str(self._workplace.box(index))
        parent = str(self._workplace.path)
        command = runner_command(sys.executable, parent, self.isolation, box, *self._options(index))
        return start_slot(command, {**self.tools, "box": box, "headers": f"{parent}/headers"}).greet()

    def close(self) -> None:
        """Remove the folder; all slots must be closed before."""
        self._workplace.close()

    def _options(self, index: int) -> list[str]:
        shown = find_shown(self.tools)
        options = [*landlock_options(shown), *runtime_options(find_runtime(self.tools["python"]), shown.hidden)]
        return [*options, "--uids", "{}:{}".format(*slot_uids(index))] if os.geteuid() == 0 else options


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
