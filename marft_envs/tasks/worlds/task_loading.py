"""Load the tasks of the worlds, from the embedded sets or from other sources with the same columns.

JSON and JSON Lines may nest the columns. In CSV, Parquet and on the hub, a nested column is JSON text. Such tables give
all rows the same fields and fill those that a database lacks with null. That would be another database.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import envs_data
from envs_data import DataError
from marft_envs.data.files import Row
from marft_envs.data.levels import Level, at_level
from marft_envs.data.sources import Hub, installed_hub, open_source
from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.connectors.tool_file import ConnectedTasks, ToolFile
from marft_envs.tasks.tools.execution import ToolLimits
from marft_envs.tasks.tools.goals import Goal, path_of
from marft_envs.tasks.tools.tasks import ToolTask, ToolTasks
from marft_envs.tasks.tools.world import Toolbox
from marft_envs.tasks.worlds.declared import declared_world
from marft_envs.tasks.worlds.desk import Desk
from marft_envs.tasks.worlds.lookup import Lookup
from marft_envs.tasks.worlds.shop import Shop
from marft_envs.tasks.worlds.travel import Travel

WORLDS = (Lookup, Shop, Desk, Travel)
_COLUMNS = {"id": str, "world": str, "instruction": str, "database": dict, "goal": dict, "calls": list}
_NESTED = ("database", "goal", "calls", "forbidden", "tools")
_LADDER = "ladder"  # embedded tasks whose world is declared as data


def load(
    data: str | os.PathLike[str] = "embedded",
    split: str = "train",
    *,
    listing: str | None = None,
    limits: ToolLimits | Mapping[str, float] | None = None,
    tools: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    level: Level = None,
) -> ToolTasks:
    """Load the tasks of one split as a `ToolTasks`.

    Args:
        data: As for `load_tasks`.
        split: "train", "test" or "safety". A file is one split of any name, unless it has a column "split".
        listing: Format in which agents are told of their tools: "signature", "schema" or "names". None is "names" where
            all tasks are of the world lookup or of the ladder, which very small models play, else "signature".
        limits: Limits of agents and tools, also as a dict of the fields of `ToolLimits` that differ from its defaults.
        tools: A tool file, or its content: its world stands in place of the worlds here. With `data` "embedded" the
            tasks are those of the file.
        level: A level of the data, several as a list or as text like "1,2"; None is all.

    Raises:
        DataError: No such data, split or level, or a row that holds no task.
        ToolFileError: A tool file that cannot be used, or a back end of it that does not answer.
        TypeError: An unknown field of the limits.
        ValueError: A limit that is not more than 0.
    """
    bounds = limits if isinstance(limits, ToolLimits) else ToolLimits(**(limits or {}))  # type: ignore[arg-type]
    where = f"data {data}, split {split}"
    if tools is not None:
        given = None if data == "embedded" else at_level(load_tasks(data, split), level, where)
        own_limits = None if limits is None else bounds
        file = ToolFile.read(tools)
        return ConnectedTasks(file, given, split=split, limits=own_limits, listing=listing or "signature")
    rows = _rows(data, split, installed_hub)
    declared = _declared(rows)
    tasks = at_level([_task(row, split) for row in rows if _is_task(row)], level, where)
    played = {task.world for task in tasks}
    # Worlds that no task needs stay out of the tool surface of a file with worlds of its own.
    worlds = [*(world for world in WORLDS if not declared or world.name in played), *declared]
    usual = "names" if played == {Lookup.name} or data == f"embedded:{_LADDER}" else "signature"
    return ToolTasks("tools", worlds, tasks, limits=bounds, listing=listing or usual)


def load_tasks(
    data: str | os.PathLike[str] = "embedded", split: str = "train", *, hub: Callable[[], Hub] = installed_hub
) -> list[ToolTask]:
    """Read the tasks of one split.

    Args:
        data: "embedded" (all worlds), "embedded:shop" (one of them), "embedded:ladder", a path to JSON, JSONL, CSV or
            Parquet, a folder with one such file a split, or "hub:OWNER/NAME[:CONFIG][@REVISION]"; rows as in the
            embedded sets.
        split: Name of the split.
        hub: Returns the module `datasets`, or an object with its two functions.

    Raises:
        DataError: No such data or split, or a row that holds no task.
    """
    return [_task(row, split) for row in _rows(data, split, hub) if _is_task(row)]


def _rows(data: str | os.PathLike[str], split: str, hub: Callable[[], Hub]) -> Sequence[Row]:
    """Return the rows of one split with their nested columns decoded: tasks, and declarations of worlds."""
    named = os.fspath(data)
    scheme, _, world = named.partition(":")
    if scheme == "embedded":
        return _embedded(world, split)
    tabular = scheme == "hub" or Path(named).suffix.lower() == ".parquet"
    return [_decoded(row, tabular) for row in open_source("tools", named, split, hub).rows]


def _is_task(row: Row) -> bool:
    """Return False for a row that only declares the tools of a world."""
    return not (row.columns.get("tools") and row.columns.get("instruction") is None)


def _declared(rows: Sequence[Row]) -> list[Toolbox]:
    """Return the worlds whose tools the rows declare, each once."""
    tools: dict[Any, Any] = {}
    worlds = []
    for row in rows:
        if not row.columns.get("tools"):
            continue
        name = row.columns.get("world")
        if name in tools and tools[name] != row.columns["tools"]:
            raise DataError(row.where, f"other tools of the world {name!r}", "one declaration", "remove one of them")
        if name not in tools:
            tools[name] = row.columns["tools"]
            worlds.append(declared_world(row, taken=[world.name for world in WORLDS]))
    return worlds


def _decoded(row: Row, tabular: bool) -> Row:
    """Return a row with its nested columns decoded from JSON text.

    Args:
        row: A row of the source.
        tabular: The source gives all rows the same fields, so a nested column that is not text is not as written.
    """
    columns = dict(row.columns)
    for name in (name for name in _NESTED if name in columns):
        value = columns[name]
        if isinstance(value, str):
            try:
                columns[name] = json.loads(value)
            except ValueError as error:
                raise DataError(row.where, f"{name} {value!r:.60}", f"{name} as JSON text", "repair the row") from error
        elif tabular and value:
            raise DataError(row.where, f"{name} in nested columns", f"{name} as JSON text", "write it with json.dumps")
    return Row(row.where, columns)


def _embedded(world: str, split: str) -> Sequence[Row]:
    if world == _LADDER:
        declarations = enumerate(envs_data.attachment("ladder/tools", "worlds"), start=1)
        return [
            *(Row(f"embedded:{world}:worlds:{number}", row) for number, row in declarations),
            *open_source("tools", f"embedded:{world}", split, installed_hub).rows,
        ]
    names = [kind.name for kind in WORLDS]
    if world and world not in names:
        raise DataError(
            f"embedded:{world}", f"world {world!r}", f"one of {', '.join((*names, _LADDER))}", "choose one of these"
        )
    manifest = envs_data.manifest()
    chosen = [world] if world else [name for name in names if split in manifest[f"tools/{name}"]["splits"]]
    if not chosen:
        raise DataError("embedded", f"split {split!r}", "train, test or safety", "choose one of these")
    return [
        Row(f"embedded:{name}:{split}:{number}", row)
        for name in chosen
        for number, row in enumerate(envs_data.rows(f"tools/{name}", split), start=1)
    ]


def _task(row: Row, split: str) -> ToolTask:
    columns = row.columns
    for name, kind in _COLUMNS.items():
        if not isinstance(columns.get(name), kind):
            found = f"{name} {columns[name]!r:.60}" if name in columns else f"no column {name!r}"
            raise DataError(row.where, found, f"{name} as {kind.__name__}", "complete or remove the row")
    try:
        calls = tuple(Call(call["tool"], call["arguments"]) for call in columns["calls"])
    except (KeyError, TypeError) as error:
        wanted = 'objects with "tool" and "arguments"'
        raise DataError(row.where, f"calls {columns['calls']!r:.60}", wanted, "repair the row") from error
    level = {} if columns.get("level") is None else {"level": columns["level"]}
    answer = columns.get("answer")  # 0 is an answer too
    return ToolTask(
        id=columns["id"],
        prompt=columns["instruction"],
        answer="" if answer is None else str(answer),
        split=split,
        meta={"world": columns["world"], "difficulty": columns.get("difficulty", 0), "calls": len(calls), **level},
        world=columns["world"],
        state=columns["database"],
        goal=_goal(row),
        reference=calls,
    )


def _goal(row: Row) -> Goal:
    """Read a goal: table -> record id -> changed fields, all fields of a new record, or None for a removed one."""
    database: Mapping[str, Any] = row.columns["database"]
    values: dict[str, Any] = {}
    gone = []
    for table, records in row.columns["goal"].items():
        if table not in database:
            tables = ", ".join(database)
            raise DataError(row.where, f"goal in table {table!r}", f"one of {tables}", "repair the row")
        if not isinstance(records, dict):
            raise DataError(row.where, f"goal {records!r:.60} in {table!r}", "fields by record id", "repair the row")
        for id, fields in records.items():
            if fields is None:
                gone.append(path_of(table, id))
            elif id not in database[table]:
                values[path_of(table, id)] = fields
            elif isinstance(fields, dict):
                values |= {path_of(table, id, field): value for field, value in fields.items()}
            else:
                found = f"goal {fields!r:.60} for record {id!r} of {table!r}"
                raise DataError(row.where, found, "its changed fields, or null", "repair the row")
    forbidden = row.columns.get("forbidden") or []
    if not isinstance(forbidden, list) or not all(isinstance(pattern, str) for pattern in forbidden):
        raise DataError(row.where, f"forbidden {forbidden!r:.60}", "a list of patterns as text", "repair the row")
    return Goal(values, tuple(gone), forbidden=tuple(forbidden))


def row_of(task: ToolTask) -> dict[str, Any]:
    """Return a task as a row that `load_tasks` reads; the inverse of reading it.

    Raises:
        ValueError: The task has private notes or free patterns, which rows do not hold.
    """
    if task.notes or task.goal.free:
        raise ValueError(f"task {task.id!r} has notes or free patterns, which a row of a data file cannot hold")
    goal: dict[str, dict[str, Any]] = {}
    for path, value in task.goal.values.items():
        table, record, *field = (key.replace("~1", "/").replace("~0", "~") for key in path.split("/"))
        records = goal.setdefault(table, {})
        if field:
            records.setdefault(record, {})[field[0]] = value
        else:
            records[record] = value
    for path in task.goal.gone:
        table, record = (key.replace("~1", "/").replace("~0", "~") for key in path.split("/"))
        goal.setdefault(table, {})[record] = None
    return {
        "id": task.id,
        "world": task.world,
        "instruction": task.prompt,
        "database": dict(task.state),
        "goal": goal,
        "calls": [{"tool": call.name, "arguments": dict(call.arguments)} for call in task.reference],
        "forbidden": list(task.goal.forbidden),
        "answer": task.answer,
        "difficulty": task.meta.get("difficulty", 0),
        **({"level": task.meta["level"]} if "level" in task.meta else {}),
    }
