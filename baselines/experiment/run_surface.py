"""`surface.json`: what the agents of a run or an evaluation were told, beside its episodes.

With it the records are readable on any machine: export, data sets, publishing and serving make no tool, grader or judge
of the run. Older runs have no such file; there the environment of the run is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import marft_envs
from baselines.experiment.config_trust import Uses, is_own, require_trust
from baselines.experiment.environments import current_id
from marft_agents.runs.run_folder import write_json
from marft_envs.registration.recorded_game import check_surface_record, recorded_game, surface_of

FILE = "surface.json"
NOT_MADE = ("team", "tools", "grader", "judge", "reward")  # keywords of a record that its surface stands for


class RunSurfaceError(ValueError):
    """A surface.json that cannot be used; names the file."""


def keep_surface(env: Any, folder: Path) -> None:
    """Write the surface of an environment to a folder of results; nothing where it has none, or one that is code."""
    surface = surface_of(env)
    if surface is not None and surface["team"] is not None:
        write_json(folder / FILE, surface)


def read_surface(folder: Path) -> dict[str, Any] | None:
    """Read the surface of a run or an evaluation; None for an older one, which has none.

    Raises:
        RunSurfaceError: The file cannot be read, or was changed later.
    """
    file = folder / FILE
    try:
        return check_surface_record(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise RunSurfaceError(f"{file} is no surface of a run: {error}") from error


class RecordedEnvironment:
    """The environment of a run or an evaluation, for its records.

    Args:
        file: Its config.json or evaluation.json.
        trust: True to act on the record of somebody else.

    Attributes:
        env_id: Id of the environment.
        keywords: Keywords of `marft_envs.make`.
        env: The game of the records, see `recorded_game`; of an older run, the environment itself.
        config: Content of the file.
        own: True if this user wrote the file here, or trusts it.

    Raises:
        OSError, TypeError, ValueError: The file is no record of a run, or its environment cannot be made.
        UntrustedConfigError: It names commands, modules, servers or paths that are needed, and is not this user's.
    """

    def __init__(self, file: Path, *, trust: bool | None = False) -> None:
        content = file.read_bytes()
        try:
            self.config: Mapping[str, Any] = json.loads(content.decode("utf-8"))
            self.env_id, self.keywords = current_id(str(self.config["env"])), dict(self.config["keywords"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{file} is no record of a run: {type(error).__name__}: {error}") from error
        self.own = bool(trust) or is_own(file, content)

        def require(*only: str, but: Sequence[str] = ()) -> None:
            if not trust:
                require_trust(file, content, self.config, Uses(only, but))

        require("env")  # before the id is looked up, which imports its module
        surface, game = read_surface(file.parent), None
        if surface is not None:
            require("keywords", but=[f"keywords.{name}" for name in NOT_MADE])
            game = recorded_game(self.env_id, self.keywords, surface)
        if game is None:
            require("keywords")
            game = marft_envs.make(self.env_id, **self.keywords)
        self.env: Any = game
