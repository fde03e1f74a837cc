"""Crafting tasks of PlanCraft, as `marft/plancraft_{solo,duo}-v0`: sequential planning, and tasks that are impossible.

| | |
|---|---|
| Action | the last answering agent's `move:`, `smelt:`, `search:` or `impossible:`; others plan |
| Observation | the inventory after the action; what was wrong with it; or the recipes that it searched for |
| Reward | 1.0 once the target is in the inventory, or for `impossible:` in an impossible task; else 0.0 |
| Termination | success, or `impossible:` |
| Truncation | 30 rounds, as in the package |

The splits are those of the package: train, val, test. One task in six is impossible. The package is installed without
its dependencies, of which the game needs few. Recipes are looked up in its files; it draws no pictures here.

Version history: v0, first version.
"""

from __future__ import annotations

from typing import Any

from marft_envs import Profile, Tasks, Team, register_task

_RULES = """\
The crafting grid has the slots [A1] [A2] [A3], [B1] [B2] [B3], [C1] [C2] [C3]. Its result appears in [0]. \
The inventory has the slots [I1] to [I36]. Moving the result from [0] to a free inventory slot crafts it. \
Nothing can be moved into [0].
Actions:
move: from [I18] to [B1] with quantity 1
smelt: from [I5] to [I6] with quantity 1
search: ITEM (shows the recipes of an item)
impossible: REASON (ends a task that the inventory does not allow)"""
_ALONE = Profile("actor_0", f"You craft items in Minecraft. Write one action per turn.\n{_RULES}", answers=True)
_PLANNER = Profile(
    "planner_0", f"You plan for a teammate who crafts items in Minecraft. Say the next action and why.\n{_RULES}"
)
_ACTOR = Profile(
    "actor_0",
    f"You craft items in Minecraft. Read what the planner says, then write one action per turn.\n{_RULES}",
    answers=True,
)
TEAMS = {"solo": Team("solo", (_ALONE,)), "duo": Team("duo", (_PLANNER, _ACTOR))}
HORIZON = 30


def register() -> None:
    """Register the environments."""
    register_task(
        "plancraft",
        _load,
        teams=TEAMS,
        solo=TEAMS["solo"],
        description="crafting in Minecraft, step by step, with impossible tasks (PlanCraft)",
        horizon=HORIZON,
    )


def _load(data: Any, split: str) -> Tasks:
    from marft_envs.plugins.plancraft.tasks import CraftingTasks

    if data != "embedded":
        raise ValueError(f"plancraft: found data={data!r}, wanted 'embedded': the tasks are those of the package")
    return CraftingTasks(split)
