"""`marft new`: make a package with an environment of your own."""

from __future__ import annotations

import argparse
from pathlib import Path

from baselines import scaffold
from baselines.cli.terminal import say


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft new`."""
    parser.add_argument("name", metavar="NAME", help="of the package and of its task: a-z, 0-9 and _, like word_games")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where the folder NAME is made (default: here)",
    )
    parser.add_argument(
        "--namespace", default="my", help="of the ids, NAMESPACE/NAME_solo-v0 and NAMESPACE/NAME_duo-v0 (default: my)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft new`."""
    made = scaffold.create(arguments.name, arguments.dir, arguments.namespace)
    duo = f"{arguments.namespace}/{arguments.name}_duo-v0"
    say(
        f"{made}: a package with {duo.replace('duo', 'solo')} and {duo}; its README says more. Try it:\n\n"
        f"  pip install -e '{made}[test]'\n"
        f"  marft check {duo}\n"
        f"  python -m pytest {made}\n"
        f"  marft train --env {duo} --model tiny --updates 2 --out runs/{arguments.name}"
    )
    return 0
