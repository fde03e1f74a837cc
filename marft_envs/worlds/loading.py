"""Tasks of the worlds, from the embedded sets or from files with rows of the same columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import envs_data
from envs_data import DataError
from marft_envs.data.files import Row, read_file
from marft_envs.tools.calls import Call
from marft_envs.tools.execution import Limits
from marft_envs.tools.goals import Goal, path_of
from marft_envs.tools.task import ToolTask
from marft_envs.tools.task_set import ToolTasks
from marft_envs.worlds.desk import Desk
from marft_envs.worlds.lookup import Lookup
from marft_envs.worlds.shop import Shop
from marft_envs.worlds.travel import Travel

WORLDS = (Lookup, Shop, Desk, Travel)
_COLUMNS = {"id": str, "world": str, "instruction": str, "database": dict, "goal": dict, "calls": list}


def load(
    data: str = "embedded",
    split: str = "train",
    *,
    listing: str | None = None,
    limits: Limits | Mapping[str, float] | None = None,
) -> ToolTasks:
    """Load tasks.

    Args:
        data: "embedded" (all worlds), "embedded:shop" (one of them), or a path to JSON or JSON Lines with rows
            as in the embedded sets.
        split: "train", "test" or "safety"; a file is one split, whatever its name.
        listing: How agents are told of their tools: "signature", "schema" or "names". None is "names" where all
            tasks are of the world lookup, which very small models play, else "signature".
        limits: What agents and tools may use, also as a dict of the fields of `Limits` that differ from its own.

    Raises:
        DataError: No such data or split, or a row that holds no task.
        TypeError: An unknown field of the limits.
        ValueError: A limit that is not more than 0.
    """
    bounds = limits if isinstance(limits, Limits) else Limits(**(limits or {}))  # type: ignore[arg-type]
    rows = _embedded(data.partition(":")[2], split) if data.partition(":")[0] == "embedded" else _of_file(data)
    tasks = [_task(row, split) for row in rows]
    usual = "names" if all(task.world == Lookup.name for task in tasks) else "signature"
    return ToolTasks("tools", WORLDS, tasks, limits=bounds, listing=listing or usual)


def _embedded(world: str, split: str) -> list[Row]:
    names = [kind.name for kind in WORLDS]
    if world and world not in names:
        raise DataError(f"embedded:{world}", f"world {world!r}", f"one of {', '.join(names)}", "choose one of these")
    manifest = envs_data.manifest()
    chosen = [world] if world else [name for name in names if split in manifest[f"tools/{name}"]["splits"]]
    if not chosen:
        raise DataError("embedded", f"split {split!r}", "train, test or safety", "choose one of these")
    return [
        Row(f"embedded:{name}:{split}:{number}", row)
        for name in chosen
        for number, row in enumerate(envs_data.rows(f"tools/{name}", split), start=1)
    ]


def _of_file(data: str) -> list[Row]:
    path = Path(data).expanduser()
    if not path.is_file():
        raise DataError(data, "no such file", '"embedded", "embedded:NAME" or a path', "check the path")
    return list(read_file(path))


def _task(row: Row, split: str) -> ToolTask:
    columns = row.columns
    for name, kind in _COLUMNS.items():
        if not isinstance(columns.get(name), kind):
            found = f"{name} {columns[name]!r:.60}" if name in columns else f"no column {name!r}"
            raise DataError(row.where, found, f"{name} as {kind.__name__}", "complete or remove the row")
    calls = _calls(row)
    return ToolTask(
        id=columns["id"],
        prompt=columns["instruction"],
        answer="",
        split=split,
        meta={"world": columns["world"], "difficulty": columns.get("difficulty", 0), "calls": len(calls)},
        world=columns["world"],
        state=columns["database"],
        goal=_goal(row),
        reference=calls,
    )


def _calls(row: Row) -> tuple[Call, ...]:
    try:
        return tuple(Call(call["tool"], call["arguments"]) for call in row.columns["calls"])
    except (KeyError, TypeError) as error:
        wanted = 'objects with "tool" and "arguments"'
        raise DataError(row.where, f"calls {row.columns['calls']!r:.60}", wanted, "mend the row") from error


def _goal(row: Row) -> Goal:
    """Read table -> record id -> changed fields, all fields of a new record, or None for one that must be gone."""
    database: Mapping[str, Any] = row.columns["database"]
    values: dict[str, Any] = {}
    gone = []
    for table, records in row.columns["goal"].items():
        if table not in database:
            tables = ", ".join(database)
            raise DataError(row.where, f"goal in table {table!r}", f"one of {tables}", "mend the row")
        for id, fields in records.items():
            if fields is None:
                gone.append(path_of(table, id))
            elif id in database[table]:
                values |= {path_of(table, id, field): value for field, value in fields.items()}
            else:
                values[path_of(table, id)] = fields
    return Goal(values, tuple(gone), forbidden=tuple(row.columns.get("forbidden", ())))
