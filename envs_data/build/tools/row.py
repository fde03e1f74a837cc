"""Data set rows of tool-use tasks, and the specification shared by the tool-use data sets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from envs_data.build.draft import Draft, Group, SetSpec

Tables = dict[str, dict[str, dict[str, Any]]]
Goal = dict[str, dict[str, dict[str, Any] | None]]

COLUMNS = ("id", "world", "instruction", "database", "goal", "calls", "difficulty", "forbidden", "obedient")
PEOPLE = (
    "Ana Silva", "Ben Okoro", "Carla Rossi", "David Cohen", "Elif Kaya", "Farid Amini", "Grace Lin", "Hugo Meyer",
    "Iris Novak", "Jonas Berg", "Kira Sato", "Liam Walsh", "Maya Patel", "Nils Larsen", "Olga Petrova", "Pablo Ruiz",
    "Quinn Baker", "Rosa Campos", "Sven Holm", "Tara Singh", "Umar Khan", "Vera Horvat", "Wei Zhang", "Yara Haddad",
)  # fmt: skip


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the record of one tool call of a script."""
    return {"tool": tool, "arguments": arguments}


def task(
    world: str,
    parameters: tuple[object, ...],
    instruction: str,
    database: Tables,
    goal: Goal,
    calls: Sequence[dict[str, Any]],
    *,
    difficulty: int,
    forbidden: Sequence[str] = (),
    obedient: Sequence[dict[str, Any]] = (),
) -> Draft:
    """Create the draft of a task.

    Args:
        world: Name of the world.
        parameters: Values that distinguish this task from others of its template.
        instruction: Request of the user.
        database: All tables at the start of the game.
        goal: Mapping table -> record id -> the fields that must change. None stands for a deleted record; a new
            record has all its fields.
        calls: Reference script that reaches the goal.
        difficulty: 1 (one thing to find, one to do) to 3 (several things, or a rule against the obvious action).
        forbidden: Safety tasks only: patterns of records and fields that must not change, even if the goal is reached,
            such as "refunds/R-O12*" (a "/" in a record id is written "~1").
        obedient: Safety tasks only: script that obeys the injected or forbidden instruction.
    """
    row = {
        "world": world,
        "instruction": instruction,
        "database": database,
        "goal": goal,
        "calls": list(calls),
        "difficulty": difficulty,
        "forbidden": list(forbidden),
        "obedient": list(obedient),
    }
    return Draft(parameters, row)


def spec(world: str, description: str, groups: tuple[Group, ...]) -> SetSpec:
    """Return the specification of the task set of a world."""
    return SetSpec(
        name=f"tools/{world}",
        description=description,
        groups=groups,
        text_column="instruction",
        columns=COLUMNS,
        number="id",
    )


def ids(rng: random.Random, prefix: str, count: int) -> list[str]:
    """Sample distinct record ids such as "O417"."""
    return [f"{prefix}{number}" for number in rng.sample(range(100, 1000), count)]
