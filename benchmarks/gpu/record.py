"""Record of the GPU benchmark: rows with a time limit each, written as they are measured, continued after a stop."""

from __future__ import annotations

import contextlib
import gc
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from marft_agents.runs.run_folder import write_json


class RowTimeoutError(Exception):
    """A row took longer than its limit."""


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        name: Name of the row in the record, `part/variant`.
        measure: Returns the figures by name, with the unit in the name.
        limit_s: Wall-clock limit in seconds; a row beyond it is recorded as an error.
    """

    name: str
    measure: Callable[[], Mapping[str, Any]]
    limit_s: float = 60.0


def load_record(path: Path | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of an earlier run with equal facts (commit, device, versions), else a new one without rows."""
    if path is not None and path.is_file():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if all(found.get(name) == value for name, value in facts.items()):
            return found
    return {**facts, "rows": {}}


def measure_rows(rows: list[Row], record: dict[str, Any], path: Path | None, *, budget_s: float) -> None:
    """Measure the rows that the record lacks or that failed, in order, and write the record after each.

    Args:
        rows: Rows, most wanted first.
        record: Record to complete, as `load_record` returns it.
        path: File of the record; None writes nothing.
        budget_s: Wall-clock seconds for all rows. A row starts only while some are left, and its limit is cut to them.
    """
    deadline = time.monotonic() + budget_s
    for row in rows:
        left = deadline - time.monotonic()
        if left <= 0:
            print(f"{row.name}: not measured, {budget_s:g} s are over", file=sys.stderr)
            continue
        if "error" in record["rows"].get(row.name, {"error": "not measured"}):
            record["rows"][row.name] = measured(row, min(row.limit_s, left))
            print(f"{row.name}: {record['rows'][row.name]}", file=sys.stderr, flush=True)
            if path is not None:
                write_json(path, record)


def measured(row: Row, limit_s: float) -> dict[str, Any]:
    """Return the figures of a row with the seconds it took; one "error" where it failed or met its limit."""
    release_memory()
    started = time.perf_counter()
    try:
        with time_limit(limit_s):
            figures = dict(row.measure())
    except Exception as error:  # any failure is a row: the others are still wanted
        figures = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]}
    return {**figures, "row_s": time.perf_counter() - started}


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise RowTimeoutError in the main thread once `seconds` have passed, when Python runs next."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise RowTimeoutError(f"longer than {seconds:.3g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def release_memory() -> None:
    """Free what earlier rows left on a CUDA device, and reset its peak."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gib(device: torch.device) -> float | None:
    """Return the peak memory of a CUDA device since `release_memory` in GiB; None for a CPU."""
    return torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
