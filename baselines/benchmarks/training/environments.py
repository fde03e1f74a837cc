"""The virtual environment of the trainers that are not ours."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[3]
TORCH = "torch"  # installed before anything else, so that nothing else chooses its build
RIVALS = ("trl>=1.16,<1.17", "comlrl>=1.4,<1.5", "peft", "transformers")
FOREIGN = ("trl", "trl-plain", "comlrl")


def interpreter(contender: str) -> str:
    """Return the Python that runs a contender; what must be installed is, once."""
    return str(prepare(folder()) if contender in FOREIGN else sys.executable)


def folder() -> Path:
    """Return where the environment is made: below $MARFT_CACHE or ~/.cache/marft."""
    return Path(os.environ.get("MARFT_CACHE", Path.home() / ".cache" / "marft")) / "benchmarks" / "training"


def prepare(place: Path) -> Path:
    """Make the virtual environment, unless it is there with just these requirements; return its interpreter.

    Raises:
        subprocess.CalledProcessError: pip failed; its output is in `install.log` in the folder.
    """
    python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pins = ROOT / "constraints.txt"  # the same torch, transformers and peft as ours
    wanted = "\n".join([*RIVALS, pins.read_text(encoding="utf-8")])
    stamp = place / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    venv.create(place, with_pip=True, clear=True)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-c", str(pins)]
    with (place / "install.log").open("w", encoding="utf-8") as log:
        for packages in ((TORCH,), (TORCH, *RIVALS)):
            subprocess.run([*pip, *packages], stdout=log, stderr=subprocess.STDOUT, check=True)
    stamp.write_text(wanted, encoding="utf-8")
    return python
