"""One writer per results folder: a lock that the kernel releases when its process ends, however it ends.

The owner holds `flock` on the file `.lock` of the folder, which names it for those that come later. No other process
keeps the lock alive: the descriptor is closed in programs that are started and in forks.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

LOCK_FILE = ".lock"
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}  # errors of file systems without locks


class RunFolderError(RuntimeError):
    """Error for a run folder that cannot be used or written; says what to do."""


@dataclass
class _Lock:
    """Lock of this process.

    Attributes:
        descriptor: Open lock file.
        owners: Number of `owned` blocks that are open; the last one releases the lock.
    """

    descriptor: int
    owners: int = 1


_held: dict[Path, _Lock] = {}  # by folder


def _forget_in_child() -> None:
    """Leave the locks to the parent: a fork that outlives it would hold them on."""
    for lock in _held.values():
        os.close(lock.descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)


@contextlib.contextmanager
def owned(path: Path) -> Iterator[None]:
    """Be the one process that writes to a folder of results, which is made if missing, and removed if left empty.

    The owner may own its folder once more, and folders inside of it. Others may own folders inside of it, too: an
    evaluation within a run that trains.

    Args:
        path: Folder of results.

    Raises:
        RunFolderError: Another process owns the folder, or it cannot be made or written.
    """
    made = [folder for folder in (path.absolute(), *path.absolute().parents) if not os.path.lexists(folder)]
    try:
        folder = _acquire(path)
        try:
            yield
        finally:
            _release(folder)
    finally:
        for one in made:
            with contextlib.suppress(OSError):
                one.rmdir()


def _acquire(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = path.resolve()
        if folder in _held:
            _held[folder].owners += 1
        else:
            _held[folder] = _Lock(_locked(path))
    except OSError as error:
        found = "it is a file" if path.is_file() else f"it cannot be made or written ({error.strerror})"
        raise RunFolderError(f"{path} cannot be the folder of results: {found}; give another --out") from error
    return folder


def _locked(path: Path) -> int:
    """Return the descriptor of the lock file with this process as its owner; without a lock where there are none."""
    while True:
        descriptor = open_lock(path / LOCK_FILE)
        try:
            try:
                if not flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    told = "its file system has no locks: see to it that no other process writes there"
                    warnings.warn(f"{path}: {told}", stacklevel=5)  # the caller of `owned`
            except BlockingIOError as error:
                raise RunFolderError(
                    f"{path} is written by {_owner(descriptor)}; wait until it ends or stop it, or give another --out"
                ) from error
            if os.fstat(descriptor).st_nlink:
                me = {"pid": os.getpid(), "machine": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(me).encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner removed the file meanwhile: a later one would make another


def open_lock(file: Path) -> int:
    """Open a lock file, which is made if missing. A link is refused: it may lead to a file of the user."""
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def flock(file: int | TextIO, operation: int) -> bool:
    """Do `fcntl.flock`; return False where the file system has no locks."""
    try:
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


def _owner(descriptor: int) -> str:
    """Describe the owner that a lock file names."""
    try:
        told = json.loads(os.pread(descriptor, 1000, 0))
        return f"process {told['pid']} on machine {told['machine']} since {told['since']}"
    except (ValueError, KeyError, TypeError):  # it has just begun
        return "another process"


def _release(folder: Path) -> None:
    lock = _held.get(folder)
    if lock is None:  # in a fork
        return
    lock.owners -= 1
    if not lock.owners:
        del _held[folder]
        with contextlib.suppress(OSError):
            (folder / LOCK_FILE).unlink()
        os.close(lock.descriptor)
