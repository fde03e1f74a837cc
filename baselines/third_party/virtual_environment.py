"""Cached virtual environments for libraries whose pinned dependencies conflict with ours."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
STAMP = "installed.txt"  # lists the packages and pins of a virtual environment; written last


def cache_folder() -> Path:
    """Return the folder of the environments: $MARFT_CACHE or ~/.cache/marft."""
    return Path(os.environ.get("MARFT_CACHE", Path.home() / ".cache" / "marft"))


def interpreter(folder: Path, packages: Sequence[str], pins: Path | None = None) -> Path | None:
    """Return the interpreter of a virtual environment made from exactly these packages and pins; None without one."""
    stamp = folder / STAMP
    if not stamp.is_file() or stamp.read_text(encoding="utf-8").splitlines() != _contents(packages, pins):
        return None
    return _python(folder)


def prepare(folder: Path, packages: Sequence[str], pins: Path | None = None) -> Path:
    """Make a virtual environment unless it exists; return its interpreter.

    Args:
        folder: Folder of the virtual environment; an outdated one is cleared.
        packages: Requirements for pip. The first is installed alone, so that no other package chooses its build.
        pins: Constraints file for pip; None sets no constraints.

    Raises:
        subprocess.CalledProcessError: The installation failed; pip's output is in `install.log` in the folder.
    """
    there = interpreter(folder, packages, pins)
    if there is not None:
        return there
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(_python(folder)), "-m", "pip", "install", "--disable-pip-version-check"]
    if pins is not None:
        pip += ["-c", str(pins)]
    with (folder / "install.log").open("w", encoding="utf-8") as log:
        for wanted in (packages[:1], packages):  # naming the first again keeps its build
            subprocess.run([*pip, *wanted], stdout=log, stderr=subprocess.STDOUT, check=True)
    (folder / STAMP).write_text("\n".join(_contents(packages, pins)) + "\n", encoding="utf-8")
    return _python(folder)


def _contents(packages: Sequence[str], pins: Path | None) -> list[str]:
    return [*packages, *([] if pins is None else pins.read_text(encoding="utf-8").splitlines())]


def _python(folder: Path) -> Path:
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
