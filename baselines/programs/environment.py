"""The environment of an agent program; importing this module registers it.

It has agents, spaces and tasks as any other, so that training, validation, evaluation and their checks find what they
look for. But nobody steps it: its metadata say `plays_itself`, and `collect` plays its `programs`.

Version history: v0, first version.
"""

from __future__ import annotations

import dataclasses
import shutil
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gymnasium.spaces import Text
from pettingzoo import AECEnv

from baselines.programs import ENVIRONMENT
from baselines.programs.host import Program, ProgramHost
from baselines.programs.settings import ProgramSettings, argv_of, is_function
from baselines.programs.tasks import ProgramTasks
from marft_agents.setting_fields import SettingsError
from marft_envs.game.task import Task
from marft_envs.registration.registry import register

_TEXT = Text(max_length=1 << 20, min_length=0, charset=string.printable)


class ProgramTeam(AECEnv[str, str, str]):
    """A team that a program asks.

    Args:
        program: A command, or MODULE:FUNCTION.
        agents: Names of the agents, which are the models of the program.
        data: File of JSON lines, one an episode.
        split: Split of the lines.
        program_folder: Working directory of the program; None: that of this process.
        **settings: Fields of `ProgramSettings`.

    Raises:
        SettingsError: The program cannot be started, the names are empty or not unique, or a setting is out of range.
        ProgramTasksError: See `ProgramTasks`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - PettingZoo's own form
        "name": "program",
        "render_modes": [],
        "plays_itself": True,
        "lists_tasks": True,
        "copies_share_data": True,
        "individual_rewards": True,
    }

    def __init__(
        self,
        program: str,
        agents: Sequence[str],
        data: str,
        split: str = "train",
        program_folder: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.possible_agents = list(agents)
        if not agents or len(set(agents)) < len(agents) or not all(isinstance(a, str) and a for a in agents):
            raise SettingsError(f"agents = {', '.join(map(str, agents))!r}, wanted different names, like planner,coder")
        own = ProgramSettings(**settings)
        argv = argv_of(program)
        found = shutil.which(argv[0]) or shutil.which(Path(program_folder or ".") / argv[0])
        if not is_function(program) and found is None:
            raise SettingsError(f"program = {program!r}: there is no command {argv[0]!r} here")
        self.tasks = ProgramTasks(data, split)
        self.programs = ProgramHost(Program(program, tuple(agents), self.tasks, own, program_folder))
        self.task: Task = self.tasks[0]
        self.agents: list[str] = []
        self.agent_selection = ""

    def observation_space(self, agent: str) -> Text:
        """Return the space of any text."""
        return _TEXT

    def action_space(self, agent: str) -> Text:
        """Return the space of any text."""
        return _TEXT

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Choose nothing: the program begins when it is played."""
        self.agents = list(self.possible_agents)
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> str:
        """Refuse, see `step`."""
        raise NotImplementedError(_REFUSED)

    def step(self, action: str | None) -> None:
        """Refuse: the program asks.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(_REFUSED)

    def close(self) -> None:
        """Leave the programs to those that share them; see `ProgramHost.close`."""


_REFUSED = "an agent program asks its agents itself and cannot be stepped: train, eval and check --program play it"


def make_program_team(
    program: str,
    agents: Sequence[str],
    data: str,
    split: str = "train",
    program_folder: str | None = None,
    program_episodes: int = ProgramSettings.program_episodes,
    client_sampling: str = ProgramSettings.client_sampling,
    program_seconds: float = ProgramSettings.program_seconds,
    program_requests: int = ProgramSettings.program_requests,
    program_tokens: int = ProgramSettings.program_tokens,
    program_open: int = ProgramSettings.program_open,
    program_output: int = ProgramSettings.program_output,
) -> ProgramTeam:
    """Make the environment of a program; its keywords are those of `ProgramTeam` and `ProgramSettings`."""
    names = [field.name for field in dataclasses.fields(ProgramSettings)]
    given = locals()
    return ProgramTeam(program, agents, data, split, program_folder, **{name: given[name] for name in names})


register(
    ENVIRONMENT.rpartition(":")[2],
    make_program_team,
    description="an agent program asks the team through an OpenAI-compatible server and reports the reward",
    task="program",
)
