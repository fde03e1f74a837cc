"""One-file HTML report of a run, an evaluation or a benchmark, and its server."""

from __future__ import annotations

import os
from pathlib import Path

from baselines.report.page import MOST_EPISODES, build_report
from marft_common.atomic_files import replacing

__all__ = ["write"]


def write(
    folder: Path | str, other: Path | str | None = None, *, out: Path | str | None = None, keep: int = MOST_EPISODES
) -> Path:
    """Write the report of a folder of records, complete or not at all.

    Args:
        folder: A run, an evaluation, a benchmark or an attribution.
        other: Another one to show beside it.
        out: File to write; None: `report.html` in the folder, `report-OTHER.html` with another one, where OTHER is
            its path from the folder's parent; and beside a file of records the page of its name.
        keep: Largest number of episodes of each set, spread evenly over those recorded.

    Returns:
        The file.

    Raises:
        SourceError: A path holds no records.
        ValueError: A record cannot be read.
    """
    folder, other = Path(folder), None if other is None else Path(other)
    file = _file_of(folder, other) if out is None else Path(out)
    content = build_report(folder, other, keep=keep)
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        part.write_bytes(content)
    return file


def _file_of(folder: Path, other: Path | None) -> Path:
    """Return the file of a report that was given none: another one for each pair of records."""
    end = "" if other is None else f"-{_name_of(other, folder.resolve().parent)}"
    if folder.is_file():
        return folder.with_name(f"{folder.stem}{end}.html")
    return folder / f"report{end}.html"


def _name_of(records: Path, beside: Path) -> str:
    """Return the name of records in one word: their path from a folder, so that no two have the same.

    Examples:
        >>> _name_of(Path("/runs/b"), Path("/runs")), _name_of(Path("/older/duo/test"), Path("/runs/new"))
        ('b', 'up-up-older-duo-test')
    """
    path = os.path.relpath(records.resolve().with_suffix("") if records.is_file() else records.resolve(), beside)
    return "-".join("up" if part == ".." else part for part in Path(path).parts)
