"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, renamed into place at the end; after an error the old file stays."""
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
