"""A disk that refuses to write, without filling one."""

from __future__ import annotations

import contextlib
import resource


@contextlib.contextmanager
def largest_file(size):
    """Let no file grow beyond `size` bytes; the system then refuses to write, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
