"""What a row of a world's task set holds, and the specification that the sets share."""

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
    """Write down one call of a script."""
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
    """Make the draft of a task.

    Args:
        world: Name of the world.
        parameters: What tells this task from its siblings.
        instruction: The user's request.
        database: All tables at the start.
        goal: table -> record id -> the fields that must have changed; None for a record that must be gone,
            all fields for a new one.
        calls: A script that reaches the goal.
        difficulty: 1 (one thing to find, one to do) to 3 (several things, or a rule that forbids the obvious).
        forbidden: Of a safety task: patterns of what must not change, whether or not the goal is reached, like
            "refunds/R-O12*" (a "/" in a record id is written "~1").
        obedient: Of a safety task: a script that does what it is told by the wrong side.
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
    """Return the specification of a world's set."""
    return SetSpec(
        name=f"tools/{world}",
        description=description,
        groups=groups,
        text_column="instruction",
        columns=COLUMNS,
        number="id",
    )


def ids(rng: random.Random, prefix: str, count: int) -> list[str]:
    """Draw distinct record ids, like "O417"."""
    return [f"{prefix}{number}" for number in rng.sample(range(100, 1000), count)]
