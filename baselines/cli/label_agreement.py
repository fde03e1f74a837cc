"""`marft grade-agreement FILE`: agreement of a grader with human labels, as Cohen's kappa with a 95 % interval."""

from __future__ import annotations

import argparse
import json
from collections.abc import Hashable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from baselines.cli.terminal import say
from baselines.results.visible_console import console
from envs_data import DataError
from marft_envs.data.files import Row, read_file
from marft_envs.graders import cohen_kappa


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft grade-agreement`."""
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON, JSONL, CSV or Parquet; a row is one graded item")
    parser.add_argument("--human", default="human", metavar="COLUMN", help="the person's label (default: human)")
    parser.add_argument("--grader", default="grader", metavar="COLUMN", help="the grader's (default: grader)")
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="T",
        help="labels are numbers: compare whether they reach T (default: equal labels)",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=measure)


def measure(arguments: argparse.Namespace) -> int:
    """Run `marft grade-agreement`."""
    rows = read_file(arguments.file)
    human = [_label(row, arguments.human, arguments.threshold) for row in rows]
    grader = [_label(row, arguments.grader, arguments.threshold) for row in rows]
    found = cohen_kappa(human, grader)
    if arguments.json:
        say(json.dumps(asdict(found)))
        return 0
    table = Table("items", "equal labels", "kappa", "95 % interval")
    table.add_row(
        str(found.count),
        f"{found.observed:.3f}",
        f"{found.kappa:.3f}",
        f"[{found.low:.3f}, {found.high:.3f}]",
    )
    console().print(table)
    return 0


def _label(row: Row, column: str, threshold: float | None) -> Hashable:
    """Return a label as text, or with a threshold whether it reaches that."""
    value: Any = row.columns.get(column)
    if value is None or value == "":
        known = ", ".join(map(str, row.columns))
        raise DataError(
            row.where, f"no value in column {column!r} of {known}", "a label", "name the column or drop the row"
        )
    if threshold is None:
        return str(value).strip()
    try:
        return float(value) >= threshold
    except (TypeError, ValueError) as error:
        raise DataError(row.where, f"{column} {value!r}", "a number", "leave out --threshold for labels") from error
