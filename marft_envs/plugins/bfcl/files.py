"""Reader for the files of the Berkeley Function Calling Leaderboard (BFCL v4) in the installed package `bfcl-eval`.

Install it without its dependencies, of which none is needed: see `PACKAGE`. It takes 14 MB (Apache-2.0). Its declared
dependencies would bring model SDKs, sentence-transformers and an older numpy, so no extra of marft can name it.

The files of a category are checked by SHA-256 before they are read: scores on other data cannot be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from envs_data.packages import Package

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

PACKAGE = Package("bfcl-eval", "bfcl_eval", "2026.3.23", "pip install --no-deps bfcl-eval==2026.3.23")
SHA256 = {
    "simple_python": "68229fca792d5f2131045be8ad19a30f86ada603de9aaabc02d58f47033a22c8",
    "multiple": "061e513ef678618c19da11e99ce3c97de28f51954ecbe0f6c395819bd4f36148",
    "parallel": "75dd222c2644c6b0ca08f2343ba2d017edce1dcaab6792b6e11b3bfb0b8f1699",
    "parallel_multiple": "453c1133c93fd5b40495f275db7ef4fb578234d9e897d2ff183869e62de30e4f",
    "irrelevance": "e0f65858cb21a8ab940a93d1bcfda2e49de879dba518b8d4e208e795c095db1d",
    "live_simple": "f50cf845f236c152781cd1da02c37d88f38576da674db6320d6e50b251101c1e",
    "live_multiple": "aa1ead57fbfe5f143b60695cdd5437632b5c0a4e990f9ca6ef3f96764d085b4d",
    "live_parallel": "ec554917ae28016c8bbe400bcc04cdea7cf0aa92a8aa9a18c6bf43efff6e6587",
    "live_parallel_multiple": "8b26beb28b8ab1d911d95a7739073ee1c3ebde2055d9a05d3ff58e00a14ce673",
    "live_irrelevance": "945839e7f124a1d4113736bea0706e250c5cc31efe668f5b9f2f1d23dcbab483",
    "multi_turn_base": "14061ef202e6cfa9b3625bd7a7215af99e1e5b40cc754fc0c545d7bd787fb61e",
}
"""Hashes of the files of each category; those of a multi-turn one include the code of the stateful classes."""

_FILES = ("data/BFCL_v4_{category}.json", "data/possible_answer/BFCL_v4_{category}.json")
_CLASSES = ("data/multi_turn_func_doc/*.json", "eval_checker/multi_turn_eval/func_source_code/*.py")

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


def checked_data(category: str) -> Path:
    """Return the folder of the data, after a check of the files of a category.

    Raises:
        PackageError: The package is not installed, in another version, or with other files.
    """
    patterns = (*_FILES, *_CLASSES) if category in MULTI_TURN else _FILES
    files = [pattern.format(category=category) for pattern in patterns]
    return PACKAGE.checked_folder(files, SHA256[category]) / "data"


@lru_cache(maxsize=16)
def read(category: str) -> tuple[Entry, ...]:
    """Read the entries of a category, in order.

    Raises:
        PackageError: The package is not installed, in another version, or with other files.
        ValueError: No such category.
    """
    if category not in SINGLE_TURN + MULTI_TURN:
        raise ValueError(f"bfcl: found the category {category!r}, wanted one of {', '.join(SINGLE_TURN + MULTI_TURN)}")
    data = checked_data(category)
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
    return tuple(_lines(checked_data(MULTI_TURN[0]) / "multi_turn_func_doc" / file))


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
