"""`--trust-config`: act on what the records of somebody else name."""

from __future__ import annotations

import argparse

from baselines.experiment.config_trust import VARIABLE


def add_trust_flag(parser: argparse.ArgumentParser) -> None:
    """Add --trust-config."""
    parser.add_argument(
        "--trust-config",
        action="store_true",
        default=None,
        help="act on what the records name (commands, modules, servers, paths, variables), though you did not write "
        f"them on this machine; {VARIABLE}=DIR says so for all records below DIR",
    )
