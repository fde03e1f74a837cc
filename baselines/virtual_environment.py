"""Virtual environments beside our own, for libraries whose pins exclude ours; made once, kept in the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
STAMP = "installed.txt"  # in a virtual environment: what it holds


def cache_folder() -> Path:
    """Return where such environments are made: $MARFT_CACHE or ~/.cache/marft."""
    return Path(os.environ.get("MARFT_CACHE", Path.home() / ".cache" / "marft"))


def interpreter(folder: Path, packages: Sequence[str], pins: Path | None = None) -> Path | None:
    """Return the interpreter of a virtual environment, if that was made of just these packages and pins."""
    stamp = folder / STAMP
    if not stamp.is_file() or stamp.read_text(encoding="utf-8").splitlines() != _contents(packages, pins):
        return None
    return _python(folder)


def prepare(folder: Path, packages: Sequence[str], pins: Path | None = None) -> Path:
    """Make a virtual environment, unless it is there; return its interpreter.

    Args:
        folder: where.
        packages: what pip is asked for; the first alone before all, so that nothing else chooses its build.
        pins: a file of constraints; None: none.

    Raises:
        subprocess.CalledProcessError: pip failed; its output is in `install.log` in the folder.
    """
    there = interpreter(folder, packages, pins)
    if there is not None:
        return there
    venv.create(folder, with_pip=True, clear=True)
    pip = [str(_python(folder)), "-m", "pip", "install", "--disable-pip-version-check"]
    if pins is not None:
        pip += ["-c", str(pins)]
    with (folder / "install.log").open("w", encoding="utf-8") as log:
        for wanted in (packages[:1], packages):  # the first again, so that it stays
            subprocess.run([*pip, *wanted], stdout=log, stderr=subprocess.STDOUT, check=True)
    (folder / STAMP).write_text("\n".join(_contents(packages, pins)) + "\n", encoding="utf-8")
    return _python(folder)


def _contents(packages: Sequence[str], pins: Path | None) -> list[str]:
    return [*packages, *([] if pins is None else pins.read_text(encoding="utf-8").splitlines())]


def _python(folder: Path) -> Path:
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
