"""Virtual environments of the third-party RL libraries, with the tested version bounds.

TorchRL, Tianshou, skrl and Stable-Baselines3 share one environment. BenchMARL needs an older TorchRL; RLlib and
AgileRL pin other versions of Gymnasium and PettingZoo. These three have separate environments.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.third_party import virtual_environment
from baselines.third_party.virtual_environment import ROOT

TORCH = "torch==2.13.0"  # installed first, so that no other package chooses its build


@dataclass(frozen=True)
class Library:
    """A library with its scripts.

    Attributes:
        distribution: Name of its package.
        environment: Name of the virtual environment; libraries with the same name share it.
        runs: Pairs of (script, algorithm) to run.
        also: Further requirements beside the extra of the library's name, if there is one.
    """

    distribution: str
    environment: str
    runs: tuple[tuple[str, str], ...]
    also: tuple[str, ...] = ()


LIBRARIES = {
    "torchrl": Library("torchrl", "shared", (("torchrl_ppo", "mappo"), ("torchrl_ppo", "ippo"))),
    "benchmarl": Library("benchmarl", "benchmarl", (("benchmarl_mappo", "mappo"),)),
    "tianshou": Library("tianshou", "shared", (("tianshou_ppo", "ppo"), ("tianshou_dqn", "dqn"))),
    "rllib": Library("ray", "rllib", (("rllib_ppo", "ppo"),)),
    "agilerl": Library("agilerl", "agilerl", (("agilerl_ippo", "ippo"),)),
    "skrl": Library("skrl", "shared", (("skrl_ppo", "ippo"), ("skrl_ppo", "mappo"))),
    "sb3": Library("stable-baselines3", "shared", (("sb3_ppo", "ppo"), ("sb3_ppo", "maskable_ppo"))),
}


def cache_folder() -> Path:
    """Return the parent folder of the environments, below $MARFT_CACHE or ~/.cache/marft."""
    return virtual_environment.cache_folder() / "third_party"


def bounds(library: str) -> list[str]:
    """Return a library's requirements for pip: the extra of that name with tested bounds, and its `also`.

    Raises:
        FileNotFoundError: pyproject.toml is missing, since this is not a clone of the repository.
    """
    return [*_project()["optional-dependencies"].get(library, []), *LIBRARIES[library].also]


def requirements(environment: str) -> list[str]:
    """Return all requirements of an environment except torch: its libraries and our own dependencies."""
    theirs = [one for name, library in LIBRARIES.items() if library.environment == environment for one in bounds(name)]
    ours: list[str] = _project()["dependencies"]
    return [*theirs, *ours]


def _project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def interpreter(environment: str, folder: Path) -> Path | None:
    """Return the interpreter of a virtual environment that matches its requirements; None without one."""
    return virtual_environment.interpreter(folder, [TORCH, *requirements(environment)])


def prepare(environment: str, folder: Path) -> Path:
    """Make a virtual environment unless it exists; return its interpreter.

    Raises:
        subprocess.CalledProcessError: The installation failed; pip's output is in `install.log` in the folder.
    """
    return virtual_environment.prepare(folder, [TORCH, *requirements(environment)])
