"""Commands that install extras of marft, as they work for this installation.

Where marft runs from a checkout, no package index need have it: the extras are those of the folder.
"""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def pip_install(extra: str) -> str:
    """Return the command that installs an extra, like "agents", or several, like "a2a,serve"."""
    return here(f"pip install 'marft[{extra}]'")


def here(command: str) -> str:
    """Return a command that names extras of marft with the folder of the checkout, where marft runs from one.

    Args:
        command: Shell command with parts like `'marft[agents]'`.
    """
    if not (CHECKOUT / "pyproject.toml").is_file():
        return command
    folder = "." if Path.cwd() == CHECKOUT else CHECKOUT
    return command.replace("'marft[", f"-e '{folder}[")
