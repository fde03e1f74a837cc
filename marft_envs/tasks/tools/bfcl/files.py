"""Reader for the files of the Berkeley Function Calling Leaderboard (BFCL v4) in the installed package `bfcl-eval`.

Install it without its dependencies, of which none is needed: see `INSTALL`. It takes 14 MB (Apache-2.0). Its declared
dependencies would bring model SDKs, sentence-transformers and an older numpy, so no extra of marft can name it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

SINGLE_TURN = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
)
MULTI_TURN = ("multi_turn_base",)
NO_ANSWER = frozenset(
    {"live_simple_106-63-0", "live_simple_112-68-0", "live_multiple_862-181-3", "live_multiple_964-207-0"}
)
"""Entries whose possible answers no call can meet, under the original checker either; they are left out."""

INSTALL = "pip install --no-deps bfcl-eval==2026.3.23"

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}
_KEPT = ("description", "enum", "default", "required")


class Entry(NamedTuple):
    """One entry of a category.

    Attributes:
        id: Id as in the file.
        turns: Messages to the model (role, content), by turn.
        functions: Descriptions as in the file; none for a multi-turn entry.
        truth: Its possible answers; empty for irrelevance.
        row: The whole entry of the file.
    """

    id: str
    turns: tuple[tuple[tuple[str, str], ...], ...]
    functions: tuple[Mapping[str, Any], ...]
    truth: tuple[Any, ...]
    row: Mapping[str, Any]


def folder() -> Path:
    """Return the folder of the package, without importing it.

    Raises:
        ImportError: It is not installed; the message says how.
    """
    found = importlib.util.find_spec("bfcl_eval")
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            f"BFCL needs the optional package bfcl-eval, for its files: {INSTALL} (without its dependencies, of which "
            "marft needs none)"
        )
    return Path(found.submodule_search_locations[0])


@lru_cache(maxsize=16)
def read(category: str) -> tuple[Entry, ...]:
    """Read the entries of a category, in order.

    Raises:
        ImportError: The package is not installed.
        ValueError: No such category.
    """
    if category not in SINGLE_TURN + MULTI_TURN:
        raise ValueError(f"bfcl: found the category {category!r}, wanted one of {', '.join(SINGLE_TURN + MULTI_TURN)}")
    data = folder() / "data"
    name = f"BFCL_v4_{category}.json"
    answers = data / "possible_answer" / name
    truth = {row["id"]: row["ground_truth"] for row in _lines(answers)} if answers.exists() else {}
    entries = []
    for row in _lines(data / name):
        if row["id"] not in NO_ANSWER:
            turns = [tuple((message["role"], message["content"]) for message in turn) for turn in row["question"]]
            functions, possible = tuple(row.get("function", ())), tuple(truth.get(row["id"], ()))
            entries.append(Entry(row["id"], tuple(turns), functions, possible, row))
    return tuple(entries)


@lru_cache(maxsize=16)
def function_docs(file: str) -> tuple[Mapping[str, Any], ...]:
    """Read the descriptions of the methods of a stateful class."""
    return tuple(_lines(folder() / "data" / "multi_turn_func_doc" / file))


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a BFCL schema, which has Python types, to JSON Schema."""
    kept: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    kind = _TYPES.get(schema.get("type", "any"), schema.get("type"))
    if kind:
        kept = {"type": kind, **kept}
    if "properties" in schema:
        kept["properties"] = {name: json_schema(entry) for name, entry in schema["properties"].items()}
    if "items" in schema:
        kept["items"] = json_schema(schema["items"])
    return kept


def _lines(path: Path) -> list[Any]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]
