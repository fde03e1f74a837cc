"""The virtual environment of the trainers that are not ours."""

from __future__ import annotations

import sys
from pathlib import Path

from baselines.virtual_environment import ROOT, cache_folder, prepare

PINS = ROOT / "constraints.txt"  # the same torch, transformers and peft as ours
RIVALS = ("torch", "trl>=1.16,<1.17", "comlrl>=1.4,<1.5", "peft", "transformers")
FOREIGN = ("trl", "trl-plain", "comlrl")


def interpreter(contender: str) -> str:
    """Return the Python that runs a contender; what must be installed is, once.

    Raises:
        subprocess.CalledProcessError: pip failed; its output is in `install.log` in the folder.
    """
    return str(prepare(folder(), RIVALS, PINS) if contender in FOREIGN else sys.executable)


def folder() -> Path:
    """Return where the environment is made."""
    return cache_folder() / "benchmarks" / "training"
