"""`marft sandbox build`, `check` and `agree`: build the judge's image, attack its backends, compare verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.table import Table

from baselines.cli import judge_agreement
from baselines.cli.terminal import say
from baselines.results.visible_console import console
from marft_envs.sandbox import Judge, SandboxError
from marft_envs.sandbox.image import DEFAULT_BASE, DEFAULT_IMAGE, build_image, import_rootfs
from marft_envs.sandbox.judge import ISOLATING
from marft_envs.sandbox.selftest import Row, run_selftest


def add_actions(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `marft sandbox`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="build the image of the Docker backend")
    build.add_argument("--image", default=DEFAULT_IMAGE, help="name to give (default: %(default)s)")
    origin = build.add_mutually_exclusive_group()
    origin.add_argument("--base", default=DEFAULT_BASE, help="image to start from (default: %(default)s)")
    origin.add_argument(
        "--rootfs",
        type=Path,
        metavar="DIR",
        help="start from a root file system instead; made by debootstrap if missing",
    )
    build.add_argument("--suite", default="bookworm", help="of Debian, for debootstrap (default: %(default)s)")
    build.set_defaults(run=build_sandbox)

    check = actions.add_parser("check", help="attack the sandbox and print what held")
    check.add_argument("--backend", default="all", choices=("all", "auto", *ISOLATING), help="(default: %(default)s)")
    check.add_argument("--image", default=DEFAULT_IMAGE, help="of the Docker backend (default: %(default)s)")
    check.add_argument(
        "--full",
        action="store_true",
        help="run the whole attack suite, in a checkout of the repository: a minute for each backend",
    )
    check.set_defaults(run=check_sandbox)

    judge_agreement.add_action(actions)


def build_sandbox(arguments: argparse.Namespace) -> int:
    """Run `marft sandbox build`."""
    base = arguments.base
    if arguments.rootfs is not None:
        base = f"{arguments.image}-base"
        import_rootfs(arguments.rootfs, base, arguments.suite)
    build_image(arguments.image, base)
    say(f"built {arguments.image}; `marft sandbox check` attacks it")
    return 0


def check_sandbox(arguments: argparse.Namespace) -> int:
    """Run `marft sandbox check`; return 0 if all available backends stopped every attack, else 1.

    Raises:
        SandboxError: No backend is available on this machine, or `--full` is asked of an installed package.
    """
    if arguments.full and find_spec("marft_envs.sandbox.attacks") is None:
        raise SandboxError(
            "--full: found an installed package, which has no attack suite, wanted a checkout of the repository; "
            "run it in one, or leave --full out for the handful of attacks that the judge starts with"
        )
    num_checked = num_broken = 0
    for name in ISOLATING if arguments.backend == "all" else (arguments.backend,):
        try:
            rows = _attack(name, arguments.image, arguments.full)
        except (SandboxError, ImportError) as error:
            if arguments.backend != "all":
                raise
            say(f"{name}: not here: {error}")
            continue
        held = sum(row.held for row in rows)
        title = f"{name}: {held} of {len(rows)} held"
        table = Table("attack", "verdict", "held", "note", title=title, title_justify="left")
        for row in rows:
            table.add_row(row.name, row.verdict, "yes" if row.held else "NO", row.note)
        console().print(table)
        num_checked += 1
        num_broken += held < len(rows)
    if not num_checked:
        raise SandboxError("no backend works here: each line above says what is missing")
    return 1 if num_broken else 0


def _attack(backend: str, image: str, full: bool) -> Sequence[Row]:
    """Attack a backend: with the whole suite, or the handful of attacks that the judge starts with."""
    with Judge(backend=backend, image=image, self_test=False) as judge:
        say(judge.report)
        if full:
            from marft_envs.sandbox.attacks import run_attacks

            rows = []
            for found in run_attacks(judge):
                rows.append(Row(f"{found.klass}: {found.goal}", found.verdict, found.held, found.reason))
            return rows
        return run_selftest(judge)
