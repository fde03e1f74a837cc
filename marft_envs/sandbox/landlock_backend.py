"""The backend that needs nothing: Landlock, seccomp and limits, which each program gets before it starts.

Works without root, without user namespaces, inside an ordinary container. What stays open: `stat` tells that a path
exists, and a program sees the kernel and the processors of the host. As root, programs also get user ids of their own.
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
    """Slots that are processes of this machine.

    Attributes:
        name: As `Judge` names it.
        isolation: As the runner names it.
        tools: What programs are built and run with.
    """

    name = "landlock"
    isolation = "landlock"

    def __init__(self) -> None:
        self.tools: Mapping[str, str] = find_tools()
        self._workplace = Workplace()

    def open_slot(self, index: int) -> Slot:
        """Start a runner over a box that only its programs may read."""
        box = str(self._workplace.box(index))
        parent = str(self._workplace.path)
        command = runner_command(sys.executable, parent, self.isolation, box, *self._options(index))
        return start_slot(command, {**self.tools, "box": box, "headers": f"{parent}/headers"}).greet()

    def close(self) -> None:
        """Remove the folder; the slots are closed before."""
        self._workplace.close()

    def _options(self, index: int) -> list[str]:
        shown = find_shown(self.tools)
        options = [*landlock_options(shown), *runtime_options(find_runtime(self.tools["python"]), shown.hidden)]
        return [*options, "--uids", "{}:{}".format(*slot_uids(index))] if os.geteuid() == 0 else options


def landlock_options(shown: Shown) -> list[str]:
    """Return the options of the runner that let programs read what a jail shows."""
    return [word for path in shown.paths for word in _beneath(path, shown.hidden)]


def runtime_options(runtime: Sequence[str], hidden: tuple[Path, ...] = ()) -> list[str]:
    """Return the options of the runner that name what programs read when they run."""
    read = (_beneath(Path(os.path.realpath(path)), hidden) for path in runtime)
    return ["--runtime" if word == "--read" else word for words in read for word in words]


def _beneath(path: Path, hidden: tuple[Path, ...]) -> list[str]:
    """Return options for a path. A rule holds for all that is beneath it, so a folder that hides another is listed."""
    if path.is_symlink() or path in hidden:  # what a link leads to is shown, or it is not
        return []
    if not any(other.is_relative_to(path) for other in hidden):
        return ["--read", str(path)]
    return ["--list", str(path), *(word for child in sorted(path.iterdir()) for word in _beneath(child, hidden))]
