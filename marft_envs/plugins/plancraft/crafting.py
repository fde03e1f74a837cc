"""Crafting by the rules of the package plancraft, on plain data: the table, the gold plan, recipes as text.

The package's environment draws a picture of each state, from 900 images that it loads first. Its rules need none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from plancraft.environment.actions import (
    ImpossibleActionHandler,
    MoveActionHandler,
    SmeltActionHandler,
    StopAction,
    convert_from_slot_index,
)
from plancraft.environment.env import PlancraftEnvironment, target_and_inventory_to_text_obs
from plancraft.environment.planner import decompose_subgoal, get_inventory_counter
from plancraft.environment.recipes import RECIPES, id_to_item

Slots = dict[int, dict[str, Any]]
STOP = "impossible: the inventory does not allow it"
_HANDLERS = (MoveActionHandler(), SmeltActionHandler(), ImpossibleActionHandler())
_UNKNOWN = "Write one action: move:, smelt:, search: or impossible:"
_MOST_ALTERNATIVES = 8


class _NoPicture:
    """Stand-in for the picture of the table."""

    frame = None

    def add_item_to_slot(self, *_: Any) -> None:
        """Draw nothing."""

    def remove_item_from_slot(self, *_: Any) -> None:
        """Draw nothing."""


@lru_cache(maxsize=1)
def _recipes() -> tuple[tuple[Any, frozenset[str]], ...]:
    """Return all recipes with their ingredients; sorted, since the package lists files as the disk has them."""
    return tuple((recipe, frozenset(recipe.inputs)) for name in sorted(RECIPES) for recipe in RECIPES[name])


class _Fitting:
    """Recipes that the grid may fit: those whose ingredients include all items in it. Trying all takes 5 ms."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots

    def __iter__(self) -> Iterator[Any]:
        placed = {item["type"] for slot, item in self.slots.items() if 1 <= slot <= 9}
        if placed:
            yield from (one for one, inputs in _recipes() if placed <= inputs and one.recipe_type != "smelting")


def read_action(text: str) -> Any:
    """Read an action of the package: an object, or the text of what is wrong with it."""
    for handler in _HANDLERS:
        try:
            found = handler.match(text)
        except Exception as error:  # such as a number of more digits than Python reads
            return f"Format Error: {error}"
        if found:
            return found
    return _UNKNOWN


def is_stop(action: Any) -> bool:
    """Return True for the action `impossible`."""
    return isinstance(action, StopAction)


def apply(action: Any, slots: Slots, ingredients: Sequence[int]) -> tuple[Slots, list[int]]:
    """Apply a move or a smelting to the table.

    Args:
        action: What `read_action` returned.
        slots: Type and quantity by slot: 0 is the result, 1 to 9 the grid, 10 to 45 the inventory.
        ingredients: Slots of the grid, from 0, that the present result uses up.

    Returns:
        Slots and ingredients after the action; unchanged if it is against the rules.
    """
    slots = copy.deepcopy(slots)
    table = object.__new__(PlancraftEnvironment)
    vars(table).update(
        table=_NoPicture(),
        state=slots,
        table_indexes=list(range(1, 10)),
        output_index=0,
        crafting_recipes=_Fitting(slots),
        smelting_recipes=[one for one, _ in _recipes() if one.recipe_type == "smelting"],
        ingredients_idxs=list(ingredients),
    )
    table.step(action)
    return table.state, [int(index) for index in table.ingredients_idxs]


def shown(target: str, slots: Slots) -> str:
    """Return the text of a state, in the package's form."""
    return str(target_and_inventory_to_text_obs(target, slots))


def gold_plan(slots: Slots, path: Sequence[str], trace: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the actions that follow the recipes of a task's solution.

    Args:
        slots: The first inventory.
        path: Items to craft, in order.
        trace: Quantity by item after each of them.

    Raises:
        ValueError: No recipe leads from one inventory to the next.
    """
    table, actions = copy.deepcopy(slots), []
    for item, after in zip(path, trace, strict=True):
        before = {name: count for name, count in get_inventory_counter(table).items() if count > 0}
        recipe = next((one for one in RECIPES[item] if _leads(one, before, after)), None)
        if recipe is None:
            raise ValueError(f"plancraft: no recipe of {item} leads from {before} to {dict(after)}")
        steps, table, _ = decompose_subgoal(table, recipe, dict(after))
        actions += steps
    return actions


def _leads(recipe: Any, before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    if not recipe.can_craft_from_inventory(before):
        return False
    made = recipe.craft_from_inventory(before)
    return {name: count for name, count in made.items() if count > 0} == dict(after)


@lru_cache(maxsize=4096)
def recipes_of(item: str) -> str:
    """Return the recipes of an item as text; unlike the package's, it is the same each time."""
    found = [_told(recipe) for recipe in RECIPES[item]] if item in RECIPES else []
    if not found:
        return f"There is no recipe of {item}."
    return "\n".join([f"Recipes of {item}:", *dict.fromkeys(sorted(found))])


def _told(recipe: Any) -> str:
    if recipe.recipe_type == "smelting":
        return f"smelt {_alternatives(recipe.ingredient)}"
    makes = f"makes {recipe.result.count}"
    if recipe.recipe_type == "shapeless":
        needed = [", ".join(f"{count} {name}" for name, count in sorted(one.items())) for one in recipe.ingredients]
        return f"anywhere in the grid: {_alternatives(needed)}; {makes}"
    cells = [
        f"{_alternatives(names)} at {convert_from_slot_index(3 * row + column + 1)}"
        for row, items in enumerate(recipe.kernel)
        for column, ids in enumerate(items)
        if (names := [name for name in map(id_to_item, ids) if name is not None])
    ]
    return f"{', '.join(cells)}; {makes}"


def _alternatives(names: Any) -> str:
    return " or ".join(sorted(names)[:_MOST_ALTERNATIVES])
