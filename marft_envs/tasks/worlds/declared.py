"""Worlds that a data file declares: tools as data, which read or set fields of the tables of a task.

    {"world": "home", "tools": [{"name": "heat", "description": "Heat a room.",
        "parameters": {"type": "object", "required": ["room", "degrees"], "additionalProperties": false,
                       "properties": {"room": {"type": "string"}, "degrees": {"type": "integer"}}},
        "sets": {"rooms/{room}/degrees": "{degrees}"}}]}

A tool may have `sets`, values by path, and `returns`, the path of the field that it reads. A path is
TABLE/RECORD/FIELD, and `{name}` stands for an argument. Nothing in a declaration runs: it can reach the database of
its own task alone. Calls for records that do not exist are errors that the agent sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs_data import DataError
from marft_envs.data.files import Row
from marft_envs.tasks.tools.definition import Tool, ToolDefinitionError, ToolError, check_schema
from marft_envs.tasks.tools.world import Toolbox, World, WorldKind

_ARGUMENT = re.compile(r"\{(\w+)\}")
_KEYS = {"name", "description", "parameters", "sets", "returns"}


def declared_world(row: Row, taken: Sequence[str] = ()) -> Toolbox:
    """Return the world that a row declares.

    Args:
        row: A row with the columns `world` and `tools`.
        taken: Names that other worlds have.

    Raises:
        DataError: A declaration that makes no world; the message has its place.
    """
    name, entries = row.columns.get("world"), row.columns["tools"]
    if not isinstance(name, str) or not name or name in taken:
        wanted = f"a name other than {', '.join(taken)}" if name in taken else "its name"
        raise DataError(row.where, f"tools of the world {name!r}", wanted, "name the world")
    if not isinstance(entries, list):
        raise DataError(row.where, f"tools {entries!r:.60}", "a list of objects", "repair the row")
    tools: dict[str, Tool] = {}
    for entry in entries:
        try:
            tool = _tool(entry)
        except (TypeError, ValueError, ToolDefinitionError) as error:
            raise DataError(
                row.where, f"in a tool of {name!r}: {error}", "a tool as in docs/data.md", "repair it"
            ) from error
        if tools.setdefault(tool.name, tool) is not tool:
            raise DataError(row.where, f"two tools {tool.name!r}", "each name once", "rename one of them")
    return Toolbox(name, tools)


def declaration_of(world: WorldKind) -> list[dict[str, Any]] | None:
    """Return the column `tools` of a row that declares a world, or None for a world that no row declared.

    The inverse of `declared_world`.
    """
    entries = []
    for tool in world.tools().values():
        effect = tool.function
        if not isinstance(effect, _Effect):
            return None
        entry: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        if effect.sets:
            entry["sets"] = effect.sets
        if effect.returns:
            entry["returns"] = effect.returns
        entries.append(entry)
    return entries


@dataclass(frozen=True)
class _Effect:
    """Effect of a declared tool; it is called with the world and the arguments by name.

    Attributes:
        sets: Value by path.
        returns: Path of the field that is returned; empty: "done".
    """

    sets: Mapping[str, Any]
    returns: str

    def __call__(self, world: World, **arguments: Any) -> Any:
        """Set the fields, and return one.

        Raises:
            ToolError: A table, a record or a field does not exist.
        """
        for path, value in self.sets.items():
            record, field = _place(world, path, arguments)
            named = _ARGUMENT.fullmatch(value) if isinstance(value, str) else None
            record[field] = arguments[named[1]] if named else value
        if not self.returns:
            return "done"
        record, field = _place(world, self.returns, arguments)
        return record[field]


def _place(world: World, path: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the record of a path and the name of its field."""
    table, key, field = (_ARGUMENT.sub(lambda found: str(arguments[found[1]]), part) for part in path.split("/"))
    if table not in world.state:
        raise ToolError(f"there is no table {table!r}")
    record: dict[str, Any] = world.find(table, key)
    if field not in record:
        raise ToolError(f"{key!r} of {table} has no {field!r}")
    return record, field


def _tool(entry: Any) -> Tool:
    """Read a tool.

    Raises:
        TypeError, ValueError, ToolDefinitionError: It is none; the message says why.
    """
    if not isinstance(entry, Mapping) or not {"name", "description", "parameters"} <= set(entry) <= _KEYS:
        raise ValueError(f"{entry!r:.80} is no object with name, description, parameters, sets, returns")
    texts, sets, returns = (entry["name"], entry["description"]), entry.get("sets", {}), entry.get("returns", "")
    if not all(isinstance(text, str) for text in (*texts, returns)) or not isinstance(sets, Mapping):
        raise ValueError(f"{entry!r:.80} has other than texts as name, description and returns, or no object as sets")
    check_schema(entry["parameters"], entry["name"])
    for path in (*sets, *([returns] if returns else ())):
        if path.count("/") != 2:
            raise ValueError(f"the path {path!r} of {entry['name']} is not TABLE/RECORD/FIELD")
    given = set(entry["parameters"].get("required", ()))
    named = " ".join([*sets, returns, *(value for value in sets.values() if isinstance(value, str))])
    if unknown := sorted(set(_ARGUMENT.findall(named)) - given):
        raise ValueError(f"{{{unknown[0]}}} is no required parameter of {entry['name']}")
    return Tool(*texts, entry["parameters"], _Effect(dict(sets), returns), takes_world=True)
