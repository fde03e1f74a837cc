"""Ledger of the records that this user's commands wrote on this machine.

A `config.json` names commands, modules, servers and paths, on which a later command acts. It does so without a question
where the ledger has the file: a line with the SHA-256 of its content and its real path. The ledger lies in the user's
state folder, `$XDG_STATE_HOME/marft` or `~/.local/state/marft`. Nothing in a run is proof, so a folder of somebody else
brings none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path


def ledger() -> Path:
    """Return the path of the ledger.

    Raises:
        RuntimeError: The user has no home.
    """
    given = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return folder / "marft" / "written_files"


def enter(file: Path, content: bytes) -> None:
    """Enter a file with its content; without a writable state folder nothing is entered.

    Call it before the file is written: a run that is killed in between is known too.
    """
    line = _line(file, content)
    with contextlib.suppress(OSError, RuntimeError):
        if line not in _lines():
            ledger().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(ledger(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, line + b"\n")  # one write, so that lines of two processes do not mix
            finally:
                os.close(handle)


def entered(file: Path, content: bytes) -> bool:
    """Return True if the ledger has a file with this content."""
    with contextlib.suppress(OSError, RuntimeError):
        return _line(file, content) in _lines()
    return False


def _line(file: Path, content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()} {json.dumps(os.fspath(file.resolve()))}".encode()


def _lines() -> set[bytes]:
    try:
        return set(ledger().read_bytes().split(b"\n"))
    except FileNotFoundError:
        return set()
