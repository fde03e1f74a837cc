"""Episodes on disk: JSON Lines, and Parquet with one row an episode (extra `data`).

    write_episodes("runs/traces.parquet", episodes)
    episodes = read_episodes("runs/traces.parquet")

Both formats hold everything of a record and read back equal to it. In Parquet the turns are a list of structs, so that
`turns.agent` can be queried. Fields without a fixed form (settings, outcomes, terms) are JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from marft_common.atomic_files import replacing
from marft_common.installation import pip_install
from marft_envs.data.parquet_rows import parquet_rows
from marft_envs.game.episode import Episode

_AS_JSON = ("settings", "outcomes", "terms")
ROW_GROUP = 256


def write_episodes(path: str | Path, episodes: Iterable[Episode], form: str | None = None) -> int:
    """Write records to a temporary name and rename it into place; return their number.

    Records are written as they come: only a few are held in memory.

    Args:
        path: Path of the file.
        episodes: Records of the episodes.
        form: "jsonl" or "parquet"; None is that of the path's ending.

    Raises:
        ValueError: Another form or ending.
        ImportError: Parquet without the extra `data`.
    """
    path = Path(path)
    if form is None and path.suffix not in (".jsonl", ".parquet"):
        raise ValueError(f"{path}: found the ending {path.suffix!r}, wanted .jsonl or .parquet")
    form = path.suffix.removeprefix(".") if form is None else form
    if form not in ("jsonl", "parquet"):
        raise ValueError(f"found the form {form!r}, wanted jsonl or parquet")
    with replacing(path) as part:
        return _write_parquet(part, episodes) if form == "parquet" else _write_lines(part, episodes)


def _write_lines(path: Path, episodes: Iterable[Episode]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as stream:
        for episode in episodes:
            stream.write(episode.to_json() + "\n")
            count += 1
    return count


def read_episodes(path: str | Path) -> list[Episode]:
    """Read records.

    Raises:
        ValueError: Another ending, or a line that is no record; the message says which.
        ImportError: Parquet without the extra `data`.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        return [_from_row(row) for row in parquet_rows(path)]
    if path.suffix != ".jsonl":
        raise ValueError(f"{path}: found the ending {path.suffix!r}, wanted .jsonl or .parquet")
    episodes = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line:
            try:
                episodes.append(Episode.from_json(line))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
    return episodes


def _write_parquet(path: Path, episodes: Iterable[Episode]) -> int:
    arrow, parquet = _arrow()
    schema, rows, count = _schema(arrow), iter(map(_to_row, episodes)), 0
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(rows, ROW_GROUP)):
            writer.write_table(arrow.Table.from_pylist(group, schema))
            count += len(group)
    return count


def _schema(arrow: Any) -> Any:
    place = arrow.struct([("round", arrow.int32()), ("agent", arrow.string())])
    shortened = arrow.struct([("author", arrow.string()), ("round", arrow.int32()), ("removed", arrow.int32())])
    turn = arrow.struct(
        [
            ("agent", arrow.string()),
            ("round", arrow.int32()),
            ("layer", arrow.int32()),
            ("visible", arrow.list_(place)),
            ("observation", arrow.string()),
            ("action", arrow.string()),
            ("fault", arrow.string()),
            ("tokens", arrow.int32()),
            ("shortened", arrow.list_(shortened)),
        ]
    )
    return arrow.schema(
        [
            ("env_id", arrow.string()),
            ("settings", arrow.string()),
            ("seed", arrow.int64()),
            ("task_id", arrow.string()),
            ("team", arrow.string()),
            ("turns", arrow.list_(turn)),
            ("outcomes", arrow.string()),
            ("rewards", arrow.list_(arrow.float64())),
            ("terminated", arrow.bool_()),
            ("truncated", arrow.bool_()),
            ("terms", arrow.string()),
        ]
    )


def _to_row(episode: Episode) -> dict[str, Any]:
    row = episode.to_dict()
    for turn in row["turns"]:
        turn["visible"] = [{"round": round, "agent": agent} for round, agent in turn["visible"]]
    return row | {name: json.dumps(row[name], ensure_ascii=False) for name in _AS_JSON}


def _from_row(row: dict[str, Any]) -> Episode:
    for turn in row["turns"]:
        turn["visible"] = [(place["round"], place["agent"]) for place in turn["visible"]]
        turn["shortened"] = turn.get("shortened") or ()
    return Episode.from_dict(row | {name: json.loads(row[name]) for name in _AS_JSON})


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"Parquet needs: {pip_install('data')}") from error
    return pyarrow, pyarrow.parquet
