"""Commit of the running code, for records of measurements."""

from __future__ import annotations

import subprocess
from pathlib import Path


def source_commit() -> str:
    """Return the commit of the code, with "-dirty" where files differ; empty outside of a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git
        return ""
    return done.stdout.strip()
