"""Virtual environment of the third-party trainers."""

from __future__ import annotations

import sys
from pathlib import Path

from baselines.third_party.virtual_environment import ROOT, cache_folder, prepare
from benchmarks.training.contenders import CONTENDERS

PINS = ROOT / "constraints.txt"  # pins the same torch, transformers and peft for all contenders
RIVALS = ("torch", "trl>=1.16,<1.17", "comlrl>=1.4,<1.5", "peft", "transformers")


def interpreter(contender: str) -> str:
    """Return the Python interpreter of a contender; make its virtual environment on first use.

    Raises:
        subprocess.CalledProcessError: The installation failed; pip's output is in `install.log` in the folder.
    """
    return str(prepare(folder(), RIVALS, PINS) if CONTENDERS[contender].foreign else sys.executable)


def folder() -> Path:
    """Return the folder of the virtual environment."""
    return cache_folder() / "benchmarks" / "training"
