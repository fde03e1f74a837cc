"""Pre-read files that programs may read, to close the page cache and access times as covert channels."""

import contextlib
import os
from collections.abc import Iterable, Iterator

_CHUNK = 1 << 20


def warm(paths: Iterable[str]) -> None:
    """Read all files of some paths, and list the folders; what cannot be read is left out."""
    room = bytearray(_CHUNK)
    for path in paths:
        for name in _files(path):
            with contextlib.suppress(OSError), open(name, "rb", buffering=0) as file:
                while file.readinto(room):
                    pass


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
    for folder, _, names in os.walk(path):
        for name in names:
            if not os.path.islink(found := os.path.join(folder, name)):
                yield found
