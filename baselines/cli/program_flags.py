"""Flags of agent programs: --program, --agents and the limits of a program."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from baselines.cli.environment_flags import read_keywords
from baselines.cli.settings_flags import add_knobs, flag, given_knobs
from baselines.programs import ENVIRONMENT
from baselines.programs.settings import ProgramSettings


class ProgramFlagsError(ValueError):
    """Flags of a program that do not belong together; says which are missing or too many."""


def add_program_flags(parser: argparse.ArgumentParser) -> None:
    """Add --program, --agents and the settings of a program."""
    parser.add_argument(
        "--program",
        metavar="PROGRAM",
        help="in place of --env: an agent program that asks the agents by the OpenAI API, as a command or "
        "MODULE:FUNCTION; each line of --data is an episode, see docs/programs.md",
    )
    parser.add_argument(
        "--agents", metavar="NAME,NAME", help="of --program: the agents, by the names of the models that it asks"
    )
    add_knobs(parser, ProgramSettings, title="program")


def name_program(arguments: argparse.Namespace) -> None:
    """Set `env` to the environment of programs where flags name a program.

    Raises:
        ProgramFlagsError: Flags of a program are missing, or are given without one.
    """
    if arguments.program is None:
        given = [*given_knobs(arguments, ProgramSettings), *(["agents"] if arguments.agents is not None else [])]
        if given:
            raise ProgramFlagsError(f"{flag(given[0])} is of a program: give --program too, or leave it out")
        return
    if arguments.env is not None:
        raise ProgramFlagsError(f"--program is an environment of its own: leave out --env {arguments.env}")
    if arguments.agents is None or arguments.data is None:
        missing = "--agents" if arguments.agents is None else "--data"
        raise ProgramFlagsError(
            f"--program needs {missing}: wanted --agents NAME,NAME (the models that it asks) and --data FILE (JSON "
            "lines, an episode each)"
        )
    arguments.env = ENVIRONMENT


def keywords_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords of the environment that flags name, see `name_program`."""
    keywords = read_keywords(arguments)
    if arguments.program is None:
        return keywords
    return {
        **keywords,
        "data": str(Path(keywords["data"]).expanduser().resolve()),  # a run can be resumed anywhere
        "program": arguments.program,
        "program_folder": os.getcwd(),
        "agents": [name.strip() for name in arguments.agents.split(",") if name.strip()],
        **given_knobs(arguments, ProgramSettings),
    }
