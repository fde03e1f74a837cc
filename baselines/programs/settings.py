"""Settings of a program, and the program itself: a command, or MODULE:FUNCTION."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from typing import Literal

from marft_agents.setting_fields import SettingsError, check_knobs, knob

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class ProgramSettings:
    """How a program is run, and its limits; one that exceeds them is a failed episode."""

    program_episodes: int = knob(
        1,
        "episodes that one process plays, one line in and one line out each, so that heavy imports are paid once; "
        "0: any number (MODULE:FUNCTION always plays any number)",
        lambda v: v >= 0,
        ">= 0",
    )
    client_sampling: Literal["strict", "ignore"] = knob(
        "strict",
        "sampling parameters of a request that differ from the run's: strict refuses the request, ignore keeps the "
        "run's",
    )
    program_seconds: float = knob(
        300.0,
        "longest episode of a program in seconds, without those in which it waits for agents",
        lambda v: v > 0,
        "> 0",
    )
    program_requests: int = knob(256, "most requests of an episode of a program", lambda v: v >= 1, ">= 1")
    program_tokens: int = knob(
        200_000, "most tokens of an episode, of its prompts and its answers together", lambda v: v >= 1, ">= 1"
    )
    program_open: int = knob(
        64, "most requests that an episode has open at once; more are told to come later", lambda v: v >= 1, ">= 1"
    )
    program_output: int = knob(
        1_000_000, "most bytes that an episode writes to standard output and error", lambda v: v >= 1, ">= 1"
    )

    def __post_init__(self) -> None:
        check_knobs(self)


def is_function(program: str) -> bool:
    """Return True for MODULE:FUNCTION, False for a command.

    Examples:
        >>> is_function("my_agents:play"), is_function("python my_agents.py")
        (True, False)
    """
    return FUNCTION.fullmatch(program) is not None


def argv_of(program: str) -> list[str]:
    """Return the command of a program.

    Raises:
        SettingsError: It is empty, or its quotes do not match.
    """
    if is_function(program):
        return [sys.executable, "-m", "baselines.programs.function_runner", program]
    try:
        found = shlex.split(program)
    except ValueError as error:
        raise SettingsError(f"program = {program!r}: {error}") from error
    if not found:
        raise SettingsError("program is empty: wanted a command, like 'python agents.py', or MODULE:FUNCTION")
    return found
