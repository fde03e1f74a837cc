"""The libraries, with the bounds they were tested in, and the virtual environments that hold them.

TorchRL, Tianshou, skrl and Stable-Baselines3 agree with each other; BenchMARL wants an older TorchRL, RLlib and
AgileRL pin other versions of Gymnasium and PettingZoo, so these have environments of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TORCH = "torch==2.13.0"  # installed before anything else, so that nothing else chooses its build
STAMP = "installed.txt"  # in a virtual environment: what it holds


@dataclass(frozen=True)
class Library:
    """A library and its scripts.

    Attributes:
        environment: Name of the virtual environment; libraries with the same name share it.
        runs: (script, algorithm) pairs.
        also: What the environment holds beside the extra of its name, if there is one.
    """

    environment: str
    runs: tuple[tuple[str, str], ...]
    also: tuple[str, ...] = ()


LIBRARIES = {
    "torchrl": Library("shared", (("torchrl_ppo", "mappo"), ("torchrl_ppo", "ippo"))),
    "benchmarl": Library("benchmarl", (("benchmarl_mappo", "mappo"),)),
    "tianshou": Library("shared", (("tianshou_ppo", "ppo"), ("tianshou_dqn", "dqn"))),
    "rllib": Library("rllib", (("rllib_ppo", "ppo"),)),
    "agilerl": Library("agilerl", (("agilerl_ippo", "ippo"),)),
    "skrl": Library("shared", (("skrl_ppo", "ippo"), ("skrl_ppo", "mappo"))),
    "sb3": Library("shared", (("sb3_ppo", "ppo"), ("sb3_ppo", "maskable_ppo"))),
}


def cache_folder() -> Path:
    """Return where the environments are made: below $MARFT_CACHE or ~/.cache/marft."""
    return Path(os.environ.get("MARFT_CACHE", Path.home() / ".cache" / "marft")) / "third_party"


def bounds(library: str) -> list[str]:
    """Return what pip is asked for: the extra of that name, with bounds that were tested, and what is wanted beside it.

    Raises:
        FileNotFoundError: This is no clone of the repository, where pyproject.toml says it.
    """
    return [*_project()["optional-dependencies"].get(library, []), *LIBRARIES[library].also]


def requirements(environment: str) -> list[str]:
    """Return what an environment holds beside torch: its libraries, and what our environments need."""
    theirs = [one for name, library in LIBRARIES.items() if library.environment == environment for one in bounds(name)]
    ours: list[str] = _project()["dependencies"]
    return [*theirs, *ours]


def _project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def interpreter(environment: str, folder: Path) -> Path | None:
    """Return the interpreter of a virtual environment, if that holds just its requirements."""
    stamp = folder / STAMP
    if not stamp.is_file() or stamp.read_text(encoding="utf-8").splitlines() != [TORCH, *requirements(environment)]:
        return None
    return _python(folder)


def prepare(environment: str, folder: Path) -> Path:
    """Make a virtual environment, unless it is there; return its interpreter.

    Raises:
        subprocess.CalledProcessError: pip failed; its output is in `install.log` in the folder.
    """
    there = interpreter(environment, folder)
    if there is not None:
        return there
    venv.create(folder, with_pip=True, clear=True)
    python, wanted = _python(folder), [TORCH, *requirements(environment)]
    with (folder / "install.log").open("w", encoding="utf-8") as log:
        for packages in ([TORCH], wanted):  # torch again, so that it stays
            command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *packages]
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
    (folder / STAMP).write_text("\n".join(wanted) + "\n", encoding="utf-8")
    return python


def _python(folder: Path) -> Path:
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
