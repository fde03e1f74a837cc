"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, renamed into place at the end; after an error the old file stays.

    An error about the temporary file names `path`, since nobody has asked for the other one.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.rename(path)
    except BaseException as error:
        with contextlib.suppress(OSError):  # it may lie in no folder at all
            part.unlink()
        if isinstance(error, OSError) and str(error.filename) == str(part):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
