"""Hash of several files of another package, which tells one version of them from the next."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest_of(root: Path, patterns: Iterable[str]) -> str:
    """Return the SHA-256 of the names and contents of all files below a folder that match a pattern.

    Args:
        root: Folder; it does not enter the hash itself.
        patterns: Patterns of `Path.glob` below it.
    """
    paths = {path for pattern in patterns for path in root.glob(pattern)}
    found = hashlib.sha256()
    for name in sorted(path.relative_to(root).as_posix() for path in paths):
        found.update(f"{name}\0{hashlib.sha256((root / name).read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()
