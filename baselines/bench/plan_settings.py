"""Settings of trainings in a plan: of the task, of single arms, and of the cells of a grid."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from baselines.bench.arms import TRAINED_AS
from baselines.bench.plan_errors import PlanError, or_refuse, refuse_unknown
from baselines.bench.plan_tables import HUGE, TaskPlan
from baselines.experiment.experiment import SETTINGS

_TYPES: Mapping[str, Any] = {
    each.name: typing.get_type_hints(kind)[each.name]
    for kind, _ in SETTINGS.values()
    for each in dataclasses.fields(kind)
}
_OF_THE_BENCH = ("seed", "max_new_tokens", "budget_tokens")
_WINDOW = ("context_window", "overflow")
_LENGTH = ("updates", "epochs")
_IN_WORDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text"}


def check_settings(table: TaskPlan, settings: Mapping[str, Any], *, single_arm: bool = False) -> None:
    """Refuse settings that are unknown, of another type, or decided by the bench or by a key of the task.

    Args:
        table: Task of the plan, as its table tells it.
        settings: Settings by name.
        single_arm: True if they are of one arm, whose training has to be as long as those of the others.
    """
    refuse_unknown("setting", settings, _TYPES)
    for name in _OF_THE_BENCH:
        if name in settings:
            raise PlanError(f"{name} is set by the bench; leave it out")
    for name in _WINDOW:
        if name in settings and (single_arm or table.context_window):
            raise PlanError(f"{name}: context_window is a key of the task, and is the same for all arms")
    for name in _LENGTH:
        if single_arm and name in settings:
            raise PlanError(f"{name}: all arms are trained for as long: wanted it in the settings of the task")
        if table.training_tokens and settings.get(name):
            raise PlanError(f"{name}: training_tokens = {table.training_tokens} ends all trainings: wanted one of both")
    for name, value in settings.items():
        if not _fits(value, _TYPES[name]):
            raise PlanError(f"{name} = {value!r}, wanted {_in_words(_TYPES[name])}")


def check_arms_of_settings(table: TaskPlan, arms: Iterable[str]) -> None:
    """Refuse settings and grids of arms that the plan does not train, and grids that differ in their budget.

    Args:
        table: Task of the plan, as its table tells it.
        arms: Arms of the plan.
    """
    trained = list(dict.fromkeys(TRAINED_AS[arm] for arm in arms if arm in TRAINED_AS))
    told = {f"arm_settings.{arm}": arm for arm in table.arm_settings}
    if table.tune is not None:
        told |= {f"tune.grids.{arm}": arm for arm in table.tune.grids}
    for place, arm in told.items():
        if arm not in trained:
            plays = f"it plays the training of {TRAINED_AS[arm]!r}" if arm in TRAINED_AS else "it is not trained"
            why = f": {plays}" if arm in arms else ""
            raise PlanError(
                f"{place}: found {arm!r}{why}; wanted one of the trained arms {', '.join(trained) or '(none)'}"
            )
    for arm, settings in table.arm_settings.items():
        or_refuse(f"arm_settings.{arm}", partial(check_settings, table, settings, single_arm=True))
    if table.tune is None:
        return
    if not trained:
        raise PlanError("tune: no arm of the plan is trained")
    sizes = {}
    for arm in trained:
        cells = table.tune.cells(arm)
        sizes[arm] = len(cells)
        if len(cells) < 2:
            raise PlanError(f"tune: the grid of {arm} has {len(cells)} cells, wanted at least 2")
        for cell in cells:
            or_refuse(f"tune: grid of {arm}", partial(check_settings, table, cell, single_arm=True))
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{size} of {arm}" for arm, size in sizes.items())
        raise PlanError(f"tune: found grids of {found} cells: wanted equally many, so that all arms have one budget")


def _fits(value: Any, wanted: Any) -> bool:
    """Return True if a value from TOML is of an annotated type; whole numbers are numbers, true and false are not."""
    origin, parts = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is typing.Literal:
        return isinstance(value, str) and value in parts
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, parts[0]) for item in value)
    if wanted is int:
        return type(value) is int and abs(value) < HUGE
    if wanted is float:
        return type(value) in (int, float) and math.isfinite(value) and abs(value) < HUGE
    return isinstance(value, wanted)


def _in_words(wanted: Any) -> str:
    origin, parts = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_in_words(part) for part in parts if part is not type(None))
    if origin is typing.Literal:
        return f"one of {', '.join(parts)}"
    return f"a list, each {_in_words(parts[0])}" if origin is tuple else _IN_WORDS[wanted]
