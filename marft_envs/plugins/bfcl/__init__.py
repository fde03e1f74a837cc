"""The Berkeley Function Calling Leaderboard (BFCL v4), read from the files of the optional package `bfcl-eval`.

Single-turn categories are `simple_python` (the default), `multiple`, `parallel`, `parallel_multiple`, `irrelevance` and
five of real users, `live_simple`, ... A task is a question with its right calls, or with none, and takes one round.
`multi_turn_base` has several requests in turn and stateful classes that are really called; it takes up to 40 rounds.

| | |
|---|---|
| Answer | the calls in the last answering agent's action; in multi-turn, those of all agents with functions |
| Reward | 1.0 if all is right, else 0.0; `reward="outcome"`: in multi-turn the share of the requests that were met |
| Termination | the calls are graded; in multi-turn the first request that is not met, or the last one, is graded |

There is one split, `test`. The package is installed without its dependencies:
`pip install --no-deps bfcl-eval==2026.3.23`.

Version history: v0, first version.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marft_envs import register_task

if TYPE_CHECKING:
    from marft_envs.plugins.bfcl.multi_turn import MultiTurnTasks
    from marft_envs.plugins.bfcl.single_turn import BfclTasks

_TEAMS = Path(__file__).parent / "teams"  # the presets, whose agents own all functions or none


def register() -> None:
    """Register the environments of all presets."""
    register_task(
        "bfcl",
        load,
        family=str(_TEAMS),
        keywords=("listing",),
        description="function calls for requests of users (Berkeley Function Calling Leaderboard)",
        split="test",
        horizon=40,
    )


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
    from marft_envs.plugins.bfcl.files import MULTI_TURN, SINGLE_TURN
    from marft_envs.plugins.bfcl.multi_turn import MultiTurnTasks
    from marft_envs.plugins.bfcl.single_turn import BfclTasks

    if names in MULTI_TURN:
        return MultiTurnTasks(names, listing=listing)
    return BfclTasks(*(names.split("+") if names else SINGLE_TURN[:1]), listing=listing)
