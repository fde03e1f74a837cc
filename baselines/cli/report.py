"""`marft report`: the records of a run, an evaluation or a benchmark as one HTML file."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from baselines import report
from baselines.cli.settings_flags import count
from baselines.cli.terminal import say
from baselines.report.page import MOST_EPISODES


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft report`."""
    parser.add_argument(
        "path",
        type=Path,
        metavar="RUN|EVALUATION|BENCH",
        help="a run of `marft train`, a folder of `marft eval`, a folder or export of `marft bench`, or a result of "
        "`marft attribute`",
    )
    parser.add_argument(
        "--compare", type=Path, metavar="OTHER", help="show another one beside it; differences are B - A"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="file to write (default: report.html in the folder of the records, report-OTHER.html with --compare)",
    )
    parser.add_argument(
        "--episodes",
        type=count,
        default=MOST_EPISODES,
        metavar="N",
        help=f"keep at most N episodes of each set, spread evenly over those recorded (default: {MOST_EPISODES})",
    )
    parser.add_argument("--open", action="store_true", help="open the file in the browser")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft report`."""
    file = report.write(arguments.path, arguments.compare, out=arguments.out, keep=arguments.episodes)
    say_written(file)
    if arguments.open:
        webbrowser.open(file.resolve().as_uri())
    return 0


def say_written(file: Path) -> None:
    """Print the path and the size of a report."""
    say(f"{file}: {file.stat().st_size / 1e6:.2f} MB")
