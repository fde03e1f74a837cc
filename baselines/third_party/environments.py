"""The libraries, with the bounds they were tested in, and the virtual environments that hold them.

TorchRL, Tianshou, skrl and Stable-Baselines3 agree with each other; BenchMARL wants an older TorchRL, RLlib and
AgileRL pin other versions of Gymnasium and PettingZoo, so these have environments of their own.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines import virtual_environment
from baselines.virtual_environment import ROOT

TORCH = "torch==2.13.0"  # installed before anything else, so that nothing else chooses its build


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
    return virtual_environment.cache_folder() / "third_party"


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
    return virtual_environment.interpreter(folder, [TORCH, *requirements(environment)])


def prepare(environment: str, folder: Path) -> Path:
    """Make a virtual environment, unless it is there; return its interpreter.

    Raises:
        subprocess.CalledProcessError: pip failed; its output is in `install.log` in the folder.
    """
    return virtual_environment.prepare(folder, [TORCH, *requirements(environment)])
