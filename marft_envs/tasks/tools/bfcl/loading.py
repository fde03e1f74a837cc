"""Loader of BFCL tasks by category name."""

from __future__ import annotations

from marft_envs.tasks.tools.bfcl.files import MULTI_TURN, SINGLE_TURN
from marft_envs.tasks.tools.bfcl.multi_turn import MultiTurnTasks
from marft_envs.tasks.tools.bfcl.single_turn import BfclTasks


def load(data: str = "embedded", split: str = "test", *, listing: str = "schema") -> BfclTasks | MultiTurnTasks:
    """Load categories of the leaderboard.

    Args:
        data: "simple_python", "parallel", "multi_turn_base", ...; several single-turn ones joined by "+". "embedded" is
            simple_python; "embedded:" may stand before a name.
        split: Only "test" exists.
        listing: Format in which agents are told of the functions: "schema" or "signature".

    Raises:
        PackageError: The package `bfcl-eval` is not installed, in another version, or with other files.
        ValueError: No such category or split.
    """
    if split != "test":
        raise ValueError(
            f"bfcl: found the split {split!r}, wanted 'test': the leaderboard has no other. A team that trains on it "
            "trains on what it is scored with"
        )
    names = "" if data == "embedded" else data.removeprefix("embedded:")
    if names in MULTI_TURN:
        return MultiTurnTasks(names, listing=listing)
    return BfclTasks(*(names.split("+") if names else SINGLE_TURN[:1]), listing=listing)
