"""Readers for rows of JSON, JSON Lines, CSV and Parquet files, each row with its file and line for errors.

The meaning of the columns is defined in `marft_envs.data.column_formats`.
"""

import csv
import io
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from envs_data import DataError
from marft_envs.data.parquet_rows import parquet_rows

_CSV_LIMIT = threading.Lock()


class Row(NamedTuple):
    """One row of a source.

    Attributes:
        where: Its place for messages: "file:line" or "file: row N" (from 1).
        columns: Column name -> value, as the source has it.
    """

    where: str
    columns: Mapping[str, Any]


def read_file(path: Path) -> list[Row]:
    """Return all rows of a file, read by its extension.

    Raises:
        DataError: Unknown extension, missing, empty, not UTF-8, or broken file.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(str(path), f"extension {path.suffix!r}", f"one of {', '.join(READERS)}", "convert the file")
    if not path.is_file():
        raise DataError(str(path), "no such file", "a data file", "check the path")
    rows = list(reader(path))
    if not rows:
        raise DataError(str(path), "no rows", "at least one", "check that the file was written completely")
    return rows


def find_split(folder: Path, split: str) -> Path:
    """Return the file `split.EXTENSION` of a folder.

    Raises:
        DataError: No such file, or several.
    """
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in READERS)
    found = [path for path in files if path.stem == split]
    if len(found) == 1:
        return found[0]
    if not found:
        stems = ", ".join(dict.fromkeys(path.stem for path in files)) or "no data files"
        raise DataError(
            str(folder),
            f"splits: {stems}",
            f"split {split!r}",
            f"name one that is there or add {split}.jsonl",
        )
    names = ", ".join(path.name for path in found)
    raise DataError(str(folder), names, f"one file of split {split!r}", "name the file itself or remove the others")


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(str(path), str(error), "a readable file", "check its permissions") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}", f"byte 0x{content[error.start]:02x}", "UTF-8 text", "save the file as UTF-8"
        ) from error


def _read_jsonl(path: Path) -> Iterator[Row]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            where = f"{path}:{number}"
            yield Row(where, _mapping(where, _parse(where, line)))


def _read_json(path: Path) -> Iterator[Row]:
    text = _text(path)
    if not text.strip():
        return
    content = _parse(str(path), text)
    if not isinstance(content, list):
        raise DataError(
            str(path), f"a JSON {type(content).__name__}", "a JSON list of objects",
            "rename the file to .jsonl if it holds one object a line, or put the rows into a list",
        )  # fmt: skip
    for number, item in enumerate(content, start=1):
        where = f"{path}: row {number}"
        yield Row(where, _mapping(where, item))


def _parse(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        place, message = where, "too deep nesting" if isinstance(error, RecursionError) else "a number too long"
        if isinstance(error, json.JSONDecodeError):
            message = f"{error.msg.removesuffix(' at').removesuffix(' starting')} at column {error.colno}"
            place = where if where[-1].isdigit() and ":" in where else f"{where}:{error.lineno}"
        raise DataError(place, f"broken JSON ({message})", "valid JSON", "fix or remove the line") from error


def _mapping(where: str, item: Any) -> Mapping[str, Any]:
    if not isinstance(item, dict):
        raise DataError(where, f"a JSON {type(item).__name__}", "an object with columns", "fix or remove the row")
    return item


def _read_csv(path: Path) -> Iterator[Row]:
    text = _text(path)
    with _long_fields(len(text)):
        rows = list(_rows_of_csv(path, text))
    yield from rows


def _rows_of_csv(path: Path, text: str) -> Iterator[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = Counter(name.strip().lower() for name in reader.fieldnames or ())
        if twice := next((name for name, count in names.items() if name and count > 1), ""):
            raise DataError(f"{path}:1", f"two columns {twice!r}", "each name once", "rename or remove one of them")
        for record in reader:
            where = f"{path}:{reader.line_num}"
            if None in record or None in record.values():
                wanted = f"{len(reader.fieldnames or ())} fields as in the header"
                raise DataError(where, "another number of fields", wanted, "quote fields that hold commas or newlines")
            yield Row(where, record)
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}", f"broken CSV ({error})", "valid CSV", "fix the line") from error


@contextmanager
def _long_fields(most: int) -> Iterator[None]:
    """Let fields of CSV have as many characters as the file; the limit of the module is one for all threads."""
    with _CSV_LIMIT:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, most))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _read_parquet(path: Path) -> Iterator[Row]:
    for number, record in enumerate(parquet_rows(path), start=1):
        yield Row(f"{path}: row {number}", record)


READERS = {".jsonl": _read_jsonl, ".json": _read_json, ".csv": _read_csv, ".parquet": _read_parquet}
