"""Rows of a Parquet file, with a bound on the memory that they take.

A few kilobytes of Parquet can hold gigabytes: dictionaries and runs store a value once and repeat it a million times.
JSON and CSV take at most some tens of times the size of their file, so Parquet gets that bound too.

Plain columns of text stay encoded as dictionaries until they are measured. Text in lists cannot stay so, and one row
may hold any amount of it. Where that could pass the bound, another process with limited memory reads the file first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envs_data import DataError
from marft_common.installation import pip_install

SMALL = 2**28  # bytes that any file may take in memory
GROWTH = 40  # times the size of its file, for larger files; a JSON list of empty lists reaches 20
VALUE = 64  # bytes of a value as a Python object, without its text
BATCH = 256  # rows
PREFIXED = "DELTA_BYTE_ARRAY"  # an encoding in which each text repeats the one before
PROGRAM = 2**28  # bytes of the reading process without any row
FEW_THREADS = {"OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file.

    Raises:
        DataError: The package is missing, the file is broken, or its rows take more memory than `SMALL` and `GROWTH`
            times its size.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq  # only Parquet needs the extra
    except ImportError as error:
        raise DataError(str(path), "no package pyarrow", "it, to read Parquet", f"run {pip_install('data')}") from error
    try:
        limit = max(SMALL, GROWTH * path.stat().st_size)
        metadata = pq.read_metadata(path)
        _check(path, _declared_bytes(metadata), limit)
        if _lists_may_repeat_text(metadata, limit):
            _read_apart(path, limit)
        for batch in _batches(path, metadata, limit):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        message = str(error).splitlines()[0]
        raise DataError(str(path), f"a broken file ({message})", "a Parquet file", "fetch it again") from error


def _check(path: Path, needed: int, limit: int) -> None:
    if needed > limit:
        raise DataError(
            str(path),
            f"{path.stat().st_size:,} bytes whose rows take {needed:,} bytes of memory or more",
            f"at most {limit:,}",
            "if you trust the file, convert it to .jsonl, which shows its size",
        )


def _chunks(metadata: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the schema and the metadata of each column in each row group."""
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            yield metadata.schema.column(number), metadata.row_group(group).column(number)


def _declared_bytes(metadata: Any) -> int:
    """Return what the values take by the metadata, with every text counted once."""
    return sum(
        chunk.total_uncompressed_size + chunk.num_values * (VALUE + max(0, column.length))
        for column, chunk in _chunks(metadata)
    )


def _lists_may_repeat_text(metadata: Any, limit: int) -> bool:
    """Return True if texts in lists could pass the limit, each being as long as their column."""
    return any(
        column.path != column.name
        and chunk.physical_type == "BYTE_ARRAY"
        and chunk.num_values * chunk.total_uncompressed_size > limit
        for column, chunk in _chunks(metadata)
    )


def _batches(path: Path, metadata: Any, limit: int) -> Iterator[Any]:
    """Yield some rows at a time, and refuse the file once those so far take more than the limit."""
    import pyarrow.parquet as pq

    texts = {
        column.path: chunk
        for column, chunk in _chunks(metadata)
        if column.path == column.name and chunk.physical_type == "BYTE_ARRAY"
    }
    # Texts with shared prefixes cannot be read as dictionaries. Each may be as long as their column.
    prefixed = {column.path: chunk for column, chunk in _chunks(metadata) if PREFIXED in chunk.encodings}
    longest = max((chunk.total_uncompressed_size for chunk in prefixed.values()), default=0)
    rows = min(BATCH, max(1, limit // max(1, 8 * longest)))
    used = 0
    with pq.ParquetFile(path, read_dictionary=sorted(texts.keys() - prefixed.keys())) as file:
        for batch in file.iter_batches(rows, use_threads=False):
            used += sum(map(_bytes, batch.columns))
            _check(path, used, limit)
            yield batch


def _bytes(array: Any) -> int:
    """Return about how many bytes an array takes as Python objects."""
    import pyarrow as pa
    import pyarrow.compute as pc

    own, kind = len(array) * VALUE, array.type
    if pa.types.is_dictionary(kind):
        if pa.types.is_nested(kind.value_type) or pa.types.is_primitive(kind.value_type):
            return own + _bytes(array.dictionary_decode())
        return own + (pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0)
    if pa.types.is_map(kind):
        return own + _bytes(array.keys) + _bytes(array.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return own + _bytes(array.flatten())
    if pa.types.is_struct(kind):
        return own + sum(map(_bytes, array.flatten()))
    return own + int(array.nbytes)


# ------------------------------------------------------------------ in a process of its own


def _read_apart(path: Path, limit: int) -> None:
    """Read a file in a process that gets little more memory than the limit.

    Raises:
        DataError: It needs more.
    """
    code = f"from {__name__} import read_limited; read_limited()"
    command = [sys.executable, "-P", "-c", code, str(path.absolute()), str(limit)]
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | FEW_THREADS)
    if done.returncode:
        _check(path, limit + 1, limit)


def read_limited() -> None:
    """Read the file and obey the limit of the command line; whatever is raised says that it takes more."""
    path, limit = Path(sys.argv[1]), int(sys.argv[2])
    import pyarrow.parquet as pq

    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (PROGRAM + 2 * limit, PROGRAM + 2 * limit))
    for _ in _batches(path, pq.read_metadata(path), limit):
        pass
