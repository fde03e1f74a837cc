"""Environments and teams that the Ray workers in test_ray_workers.py import and build."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.settings import LearnerSettings
from marft_agents.rollouts.rollout_source import GroupPlayer
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import group_settings
from tests.helpers.fakes import Market, word_team

SCHEDULE = TrainingSchedule(updates=2, groups=4, group_size=2, seed=3)
SETTINGS = LearnerSettings(level="token", policy_lr=1e-2, critic_lr=1e-2)


def new_team():
    """Return the same untrained team in every process."""
    return word_team(["buyer_0", "seller_0"], sampling=SamplingParams(max_new_tokens=3), stir=0.1)


class Dangerous(Market):
    """A market where the first step that finds the file `kill` in a folder kills its process; `always` every step."""

    def __init__(self, folder: Path) -> None:
        super().__init__(cut=True)
        self.folder = folder

    def step(self, action):
        if (self.folder / "always").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "kill").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        super().step(action)


@contextlib.contextmanager
def open_player(folder: str, index: int):
    """Yield the player of a worker."""
    team = new_team()
    yield GroupPlayer(lambda: Dangerous(Path(folder)), team, team, group_settings(SCHEDULE, SETTINGS))
    Path(folder, f"closed-{index}").touch()


@contextlib.contextmanager
def open_dying(folder: str, deaths: int, index: int):
    """Kill this process for the first so many workers that are started."""
    number = len(list(Path(folder).glob("started-*")))
    Path(folder, f"started-{number}").touch()
    if number < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    with open_player(folder, index) as player:
        yield player


@contextlib.contextmanager
def open_nothing(index: int):
    """Fail to build a player."""
    raise FileNotFoundError(f"worker {index} has no model")
    yield


def process_identity():
    """Return versions that no two processes share."""
    return {"marft": str(os.getpid())}
