"""Tables of a benchmark from its records alone: `python -m baselines.cli.bench_table DIR...`.

One table per task, worst row first, with 95 % intervals and adjusted p-values, see `baselines.results.tables`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from baselines.cli.main import guarded
from baselines.cli.terminal import say
from baselines.results.bench_records import RecordsError, export, read_records
from baselines.results.table_text import fill_page, markdown, save_curves, terminal, to_json
from baselines.results.tables import REFERENCE, tables_of, tasks_as_arms
from baselines.results.token_slope import needed_by_game, slope_table
from marft_common.close_names import close_or_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Print tables from records; write them into a page or export the records where asked."""
    about = str(__doc__).split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m baselines.cli.bench_table", description=about)
    parser.add_argument("places", nargs="+", type=Path, metavar="DIR", help="folders of marft bench, or exported files")
    parser.add_argument("--reference", default=REFERENCE, metavar="ARM", help=f"to compare with (default: {REFERENCE})")
    parser.add_argument(
        "--tasks-as-arms", action="store_true", help="one table whose rows are the tasks; --reference names one of them"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables between the marks of a page")
    parser.add_argument(
        "--curve",
        type=Path,
        metavar="FILE.png",
        help="draw success against generated tokens; FILE.json has the numbers",
    )
    parser.add_argument(
        "--slope",
        type=float,
        metavar="SUCCESS",
        help="first a table: how the tokens until a success grow with the number at the end of the tasks' names",
    )
    parser.add_argument("--export", type=Path, metavar="FILE", help="write all records as one small JSON file")
    given = parser.parse_args(arguments)
    records = read_records(given.places)
    compared = tasks_as_arms(records) if given.tasks_as_arms else records
    arms = list(dict.fromkeys(record["arm"] for record in compared))
    if given.reference not in (REFERENCE, *arms):
        raise RecordsError(
            f"--reference {given.reference}: the records have no such arm{close_or_all(given.reference, arms)}"
        )
    tables = tables_of(compared, given.reference)
    if given.export:
        export(records, given.export)
    if given.curve:
        save_curves(tables, given.curve)
    growth = (
        "" if given.slope is None else slope_table(needed_by_game(records, given.slope), given.reference, given.slope)
    )
    if given.page:  # a page keeps its prose: tables go between two marks
        text = fill_page(given.page.read_text(encoding="utf-8"), growth + markdown(tables))
        given.page.write_text(text, encoding="utf-8")
    form = to_json if given.json else markdown if given.markdown else terminal
    say(("" if given.json else growth) + form(tables), end="")
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main))
