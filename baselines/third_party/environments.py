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

ROOT = Path(__file__).parents[2]
TORCH = "torch==2.13.0"  # installed before anything else, so that nothing else chooses its build
LEARN = 0.2  # above chance: what an algorithm that must learn the probe has to reach


@dataclass(frozen=True)
class Library:
    """A library and its scripts.

    Attributes:
        requirements: Tested bounds.
        environment: Name of the virtual environment; libraries with the same name share it.
        runs: (script, algorithm) pairs.
        must_learn: The algorithms whose success on the probe must exceed chance by `LEARN`.
    """

    requirements: tuple[str, ...]
    environment: str
    runs: tuple[tuple[str, str], ...]
    must_learn: tuple[str, ...] = ()


LIBRARIES = {
    "torchrl": Library(
        ("torchrl>=0.14,<0.15",), "shared", (("torchrl_ppo", "mappo"), ("torchrl_ppo", "ippo")), ("mappo", "ippo")
    ),
    "benchmarl": Library(("benchmarl>=1.5.2,<1.6",), "benchmarl", (("benchmarl_mappo", "mappo"),)),
    "tianshou": Library(
        ("tianshou>=2.0,<2.1",), "shared", (("tianshou_ppo", "ppo"), ("tianshou_dqn", "dqn")), ("ppo",)
    ),
    "rllib": Library(("ray[rllib]>=2.60,<2.61",), "rllib", (("rllib_ppo", "ppo"),), ("ppo",)),
    "agilerl": Library(("agilerl>=2.58,<2.59", "peft"), "agilerl", (("agilerl_ippo", "ippo"),)),
    "skrl": Library(("skrl>=2.1,<2.2",), "shared", (("skrl_ppo", "ippo"), ("skrl_ppo", "mappo"))),
    "sb3": Library(
        ("stable-baselines3>=2.9,<2.10", "sb3-contrib>=2.9,<2.10"),
        "shared",
        (("sb3_ppo", "ppo"), ("sb3_ppo", "maskable_ppo")),
        ("ppo",),
    ),
}


def cache_folder() -> Path:
    """Return where the environments are made: below $MARFT_CACHE or ~/.cache/marft."""
    return Path(os.environ.get("MARFT_CACHE", Path.home() / ".cache" / "marft")) / "third_party"


def requirements(environment: str) -> list[str]:
    """Return what an environment holds beside torch: its libraries, and what our environments need.

    Raises:
        FileNotFoundError: This is no clone of the repository, where pyproject.toml says what we need.
    """
    with (ROOT / "pyproject.toml").open("rb") as file:
        ours: list[str] = tomllib.load(file)["project"]["dependencies"]
    theirs = [
        one for library in LIBRARIES.values() if library.environment == environment for one in library.requirements
    ]
    return [*theirs, *ours]


def prepare(environment: str, folder: Path) -> Path:
    """Make a virtual environment, unless it is there with just these requirements; return its interpreter.

    Raises:
        subprocess.CalledProcessError: pip failed; its output is in `install.log` in the folder.
    """
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    wanted = [TORCH, *requirements(environment)]
    stamp = folder / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8").splitlines() == wanted:
        return python
    venv.create(folder, with_pip=True, clear=True)
    with (folder / "install.log").open("w", encoding="utf-8") as log:
        for packages in ([TORCH], wanted):  # torch again, so that it stays
            command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *packages]
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
    stamp.write_text("\n".join(wanted) + "\n", encoding="utf-8")
    return python
