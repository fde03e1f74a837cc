"""Scripted oracle policy of BFCL: the agent with the functions makes the calls that the leaderboard counts as right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marft_envs.dependency import Routed
from marft_envs.tasks.tools import HAND_OFF

if TYPE_CHECKING:
    from marft_envs import FlexMG
    from marft_envs.tasks.tools import TeamTools

NO_CALL = "Nothing is to be called."


def beside_the_calls(tasks: TeamTools, game: FlexMG, agent: str) -> str:
    """Return the action of an agent without functions: a route, or a sentence; empty for the agent that has them.

    Args:
        tasks: The tasks, bound to the team.
        game: Game with these tasks, after reset.
        agent: Agent whose turn it is.
    """
    if isinstance(game.dependency, Routed) and agent == game.dependency.by:
        return f"-> {max(game.team.roster.answering - {agent})}"
    has_functions = set(tasks.surface.owned[game.task.id][agent]) - {HAND_OFF}
    return "" if has_functions else "The agent with the functions makes the calls."
