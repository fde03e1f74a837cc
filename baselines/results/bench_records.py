"""Records of a benchmark's cells: read from folders and exported files, written as an export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from baselines.experiment import record_shapes
from marft_common.atomic_files import replacing

CELL_SCHEMA = "marft.bench.cell/1"
RECORDS_SCHEMA = "marft.bench.records/1"
Record = Mapping[str, Any]


class RecordsError(ValueError):
    """Records that cannot be in one table; names the file, the value found and the value wanted."""


def read_records(places: Iterable[Path]) -> list[Record]:
    """Read the cells of result folders and of exported files.

    Raises:
        RecordsError: A place holds none, a file is no record, or two records are of one cell.
    """
    found: dict[tuple[str, str], Record] = {}
    for place in places:
        records = _read_export(place) if place.is_file() else _read_folder(place)
        if not records:
            raise RecordsError(f"{place} holds no records: wanted a folder of marft bench with cells/, or an export")
        for where, record in records:
            if isinstance(record, dict) and record.get("schema") != CELL_SCHEMA:
                raise RecordsError(f"{where}: found the schema {record.get('schema')!r}, wanted {CELL_SCHEMA!r}")
            if (wrong := record_shapes.mismatch(record, record_shapes.cell)) is not None:
                raise RecordsError(f"{where}: {wrong}")
            key = record["plan_checksum"], record["cell"]
            if key in found:
                raise RecordsError(f"{place}: the cell {record['cell']!r} of plan {record['plan']!r} is there twice")
            found[key] = record
    return list(found.values())


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordsError(f"{file} is no record: {error}") from error


def _read_folder(folder: Path) -> list[tuple[str, Any]]:
    """Return the place and the record of each cell; older cells get their learning curve from their training."""
    found = []
    for file in sorted(folder.glob("cells/*.json")):
        record = _read_json(file)
        if isinstance(record, dict) and "curve" not in record:
            training = folder / "trainings" / f"{record.get('training')}.json"
            if training.parent == folder / "trainings" and training.is_file():
                record["curve"] = _older_curve(training)
        found.append((str(file), record))
    return found


def _older_curve(file: Path) -> dict[str, Any] | None:
    """Return the learning curve of a training whose cells do not have it."""
    training = _read_json(file)
    if (wrong := record_shapes.mismatch(training, record_shapes.TRAINING)) is not None:
        raise RecordsError(f"{file}: {wrong}")
    return curve_of(training)


def curve_of(training: Record) -> dict[str, Any] | None:
    """Return the learning curve for the record of a cell, from the record of its training.

    The episodes of an update are sampled before its step. So their success stands at the tokens that were generated
    before them: 0 for the first update. A validation stands at the tokens that were generated until then.

    Returns:
        By source, `training` and where there is one `validation`: `tokens`, ascending, and `success`, in [0, 1]. None
        where the training has recorded no success.
    """
    success, after = training.get("success") or [], training.get("tokens_by_update") or []
    points = [(count, value) for count, value in zip((0, *after), success, strict=False) if value is not None]
    if not points:
        return None
    tokens, successes = zip(*points, strict=True)
    found: dict[str, Any] = {"training": {"tokens": list(tokens), "success": list(successes)}}
    if training.get("validation"):
        found["validation"] = training["validation"]
    return found


def _read_export(file: Path) -> list[tuple[str, Record]]:
    """Return the place and the record of each cell."""
    content = _read_json(file)
    if not isinstance(content, Mapping) or content.get("schema") != RECORDS_SCHEMA:
        raise RecordsError(f"{file} is no export of records: wanted the schema {RECORDS_SCHEMA!r}")
    if (wrong := record_shapes.mismatch(content, record_shapes.EXPORT)) is not None:
        raise RecordsError(f"{file}: {wrong}")
    found = []
    for number, record in enumerate(content["cells"]):
        played = record.get("scenarios")
        checksum = played.get("checksum") if isinstance(played, dict) else None
        cohorts = content["cohorts"].get(checksum) if isinstance(checksum, str) else None
        found.append((f"{file}: cells[{number}]", record | {"cohorts": cohorts}))
    return found


def export(records: Sequence[Record], file: Path) -> None:
    """Write records as one small file, with the cohorts of each list of scenarios once and a cell a line."""
    cohorts, cells = {}, []
    for record in records:
        if record["failure"] is None:
            cohorts[record["scenarios"]["checksum"]] = record["cohorts"]
        cell = {name: value for name, value in record.items() if name != "cohorts"}
        cells.append(json.dumps(cell, separators=(",", ":")))
    head = f'{{"schema": {json.dumps(RECORDS_SCHEMA)},\n"cohorts": {json.dumps(cohorts)},\n"cells": [\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        part.write_text(head + ",\n".join(cells) + "\n]}\n", encoding="utf-8")
