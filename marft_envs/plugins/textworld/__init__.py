"""Text games of TextWorldExpress, as `marft/textworld_{game}_{solo,duo}-v0`, with the possible actions of each state.

| | |
|---|---|
| Action | the last line of the answering agent's action that is a possible action; others advise |
| Observation | the game's text, its score, and the possible actions unless `show_actions=False` |
| Reward | the change of the game's score, -1 to 1; success is the game's own |
| Termination | the game is won or lost |
| Truncation | 50 rounds; 100 in cookingworld |

The games run in a Java process, one for each process of ours. A game is its seed and its actions, so copies and records
of a game are exact. `CandidateAction(env, k=64)` makes the possible actions the discrete actions of other libraries.

Version history: v0, first version.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from marft_envs import Profile, Tasks, Team, register_task

GAMES = {
    "cookingworld": "cook a meal by a recipe",
    "twc": "put objects where they belong",
    "coin": "find a coin",
    "mapreader": "carry a coin to a room, with a map",
    "arithmetic": "solve a problem and take that many objects",
    "sorting": "sort objects by quantity",
    "simonsays": "do what Simon says",
    "peckingorder": "follow an instructions book step by step",
}
_ALONE = Profile("actor_0", "You play a text game. Write one action, alone on the last line.", answers=True)
_PLANNER = Profile(
    "planner_0", "You advise a teammate who plays a text game. Say what matters now and which action is best."
)
_ACTOR = Profile(
    "actor_0",
    "You play a text game. Read what the planner says, then write one action, alone on the last line.",
    answers=True,
)
TEAMS = {"solo": Team("solo", (_ALONE,)), "duo": Team("duo", (_PLANNER, _ACTOR))}


def register() -> None:
    """Register the environments of all games."""
    for game, told in GAMES.items():
        register_task(
            f"textworld_{game}",
            partial(_load, game),
            teams=TEAMS,
            solo=TEAMS["solo"],
            keywords=("params", "show_actions", "seen_by"),
            description=f"text game: {told} (TextWorldExpress)",
            horizon=100 if game == "cookingworld" else 50,
            reward="outcome",
        )


def _load(game: str, data: Any, split: str, **keywords: Any) -> Tasks:
    from marft_envs.plugins.textworld.tasks import TextWorldTasks

    if data != "embedded":
        raise ValueError(f"textworld_{game}: found data={data!r}, wanted 'embedded': the games are generated")
    return TextWorldTasks(game, split, **keywords)
