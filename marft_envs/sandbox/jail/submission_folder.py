"""Folder with the files of a submission, the box: PUT, FETCH and RESET, safe against links and modes left by builds."""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .wire import MAX_FRAME, Slice, write_all

_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-")
_MOST_LETTERS = 100
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_RDONLY | os.O_CLOEXEC


class Content(NamedTuple):
    """Open file of the box; the caller closes it."""

    slice: Slice

    def close(self) -> None:
        """Close the file."""
        os.close(self.slice.descriptor)


class Box:
    """Folder with the files of a submission; only a build may write there, and only into its subfolder `build`.

    Args:
        path: Path of an existing folder.
        owner: User id of builds; None if it is our own.
    """

    def __init__(self, path: str, owner: int | None) -> None:
        self.path, self._owner = path, owner
        self.build = os.path.join(path, "build")
        self.descriptor = os.open(path, _FOLDER)
        if owner is not None:
            os.chmod(path, 0o755)  # programs run under other uids must read it

    def put(self, name: bytes, pieces: Iterable[bytes], mode: int) -> None:
        """Write a file that nobody else may write to, replacing an existing one.

        Raises:
            OSError: The name is refused, or writing failed.
        """
        with self._folder(name) as (folder, leaf):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(leaf, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(leaf, flags, 0o600, dir_fd=folder)
            try:
                for piece in pieces:
                    write_all(descriptor, piece)
                os.fchmod(descriptor, mode & 0o755)
                os.utime(descriptor, (0, 0))  # `__TIMESTAMP__` is in messages
            finally:
                os.close(descriptor)

    def fetch(self, name: bytes) -> Content:
        """Open a file for reading.

        Raises:
            OSError: The file is missing, not a regular file, or too large for a frame.
        """
        with self._folder(name) as (folder, leaf):
            descriptor = os.open(leaf, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        found = os.fstat(descriptor)
        content = Content(Slice(descriptor, 0, found.st_size))
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FRAME - 64:
            content.close()
            raise OSError(f"{name!r}: found mode {found.st_mode:o} and {found.st_size} bytes, wanted a smaller file")
        return content

    def open_for_build(self) -> None:
        """Create the folder `build`, writable for builds."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.build, 0o755)
        if self._owner is None:
            return
        try:
            os.chown(self.build, self._owner, -1)
        except PermissionError:  # in a container without CAP_CHOWN
            os.chmod(self.build, 0o777)

    def close_for_build(self) -> None:
        """Revoke write access to `build`, except for the builder's own uid, which no solution has."""
        if self._owner is not None:
            with contextlib.suppress(PermissionError):
                os.chmod(self.build, 0o755)

    def empty(self) -> None:
        """Delete the content of the box.

        Raises:
            OSError: Something cannot be deleted: this box cannot be used again.
        """
        try:
            _empty(self.path)
        except PermissionError:
            if self._owner is None:
                raise
            os.chmod(self.build, 0o777)
            _empty_as(self._owner, self.build)
            _empty(self.path)

    @contextlib.contextmanager
    def _folder(self, name: bytes) -> Iterator[tuple[int, bytes]]:
        leaf = name.removeprefix(b"build/")
        if not (0 < len(leaf) <= _MOST_LETTERS and _LETTERS.issuperset(leaf) and leaf[:1] not in b".+-"):
            raise OSError(f"found the name {name[:100]!r}, wanted NAME or build/NAME of letters, digits and _.+-")
        if leaf == name:
            yield self.descriptor, leaf
            return
        folder = os.open("build", _FOLDER, dir_fd=self.descriptor)
        try:
            yield folder, leaf
        finally:
            os.close(folder)


def _empty(path: str) -> None:
    """Delete the content of a folder without following links."""

    def fail(error: OSError) -> None:
        raise error

    for _, folders, files, folder in os.fwalk(path, topdown=False, onerror=fail):
        for name in files:
            os.unlink(name, dir_fd=folder)
        for name in folders:
            try:
                os.rmdir(name, dir_fd=folder)
            except NotADirectoryError:  # a link to a folder
                os.unlink(name, dir_fd=folder)


def _empty_as(uid: int, path: str) -> None:
    """Delete leftovers of a build as the build's uid: root without CAP_DAC_OVERRIDE cannot enter its folders."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    with contextlib.suppress(BaseException):
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        for _, folders, _, folder in os.fwalk(path):
            for name in folders:
                with contextlib.suppress(OSError):
                    os.chmod(name, 0o700, dir_fd=folder)
        _empty(path)
    os._exit(0)
