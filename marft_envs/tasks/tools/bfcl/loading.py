"""Loader of BFCL tasks by category name."""

from __future__ import annotations

from marft_envs.tasks.tools.bfcl.files import MULTI_TURN, SINGLE_TURN
from marft_envs.tasks.tools.bfcl.multi_turn import MultiTurnTasks
from marft_envs.tasks.tools.bfcl.single_turn import BfclTasks


def load(data: str = "embedded", split: str = "test", *, listing: str = "schema") -> BfclTasks | MultiTurnTasks:
    """Load categories of the leaderboard.

    Args:
        data: "simple_python", "parallel", ...; several single-turn ones joined by "+"; "embedded" is the first.
        split: Only "test" exists.
        listing: Format in which agents are told of the functions: "schema" or "signature".

    Raises:
        ImportError: The package `bfcl-eval` is not installed; the message says how.
        ValueError: No such category or split.
    """
    if split != "test":
        raise ValueError(f"bfcl: found the split {split!r}, wanted 'test': the leaderboard has no other")
    if data in MULTI_TURN:
        return MultiTurnTasks(data, listing=listing)
    return BfclTasks(*(SINGLE_TURN[:1] if data == "embedded" else data.split("+")), listing=listing)
