"""Runtime files of programs: find them, copy them into an in-memory root, or pre-read them into the page cache.

All of this closes covert channels. Most file systems remember which names were looked up in vain, and answer faster the
next time, so a program could leave bits for a later one. A tmpfs remembers none. Files that were read before are in the
page cache, and their access times are fresh. Standard library only, and no other module of the package: as a script it
prints the paths.
"""

import contextlib
import ctypes
import glob
import os
import sys
from collections.abc import Iterable, Iterator

_LEFT_OUT = ("test", "idlelib", "lib2to3", "pydoc_data", "ensurepip", "site-packages", "dist-packages")
_PIECE = 1 << 20
LIBRARY = "/marft/libspawn.so"  # place of the library of spawn.c in a root of programs


def find_runtime() -> tuple[str, ...]:
    """Return the paths that Python or compiled programs read at run time, far fewer than for a compiler.

    Loads all modules of the standard library into this process to find out.

    Returns:
        The interpreter, its standard library, shared libraries of it and its modules, locales and time zones.
    """
    library = os.path.dirname(os.__file__)
    for path in glob.glob(f"{library}/lib-dynload/*.so"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(path)
    with open("/proc/self/maps") as lines:
        mapped = {line.split(None, 5)[5][:-1] for line in lines if "/" in line}
    inside = sorted(path for path in mapped if not path.startswith(f"{library}/") and os.path.exists(path))
    beside = {f"{os.path.dirname(path)}/{name}.so*" for path in inside for name in ("libgcc_s", "libstdc++")}
    named = {path.partition(".so")[0] + ".so*" for path in inside if ".so" in path}  # links, by which they are loaded
    libraries = [path for pattern in sorted(beside | named) for path in glob.glob(pattern)]
    others = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/locale", *glob.glob("/lib*/ld-*"))
    found = (sys.executable, library, *inside, *libraries, *others)
    return tuple(path for path in dict.fromkeys(found) if os.path.exists(path))


def fill(root: str, paths: Iterable[str]) -> None:
    """Copy paths with the links on their way, so that they lead to the same files beneath another root.

    Args:
        root: An existing folder.
        paths: Absolute paths; test suites, packages and such of a standard library are left out.

    Raises:
        OSError: No room, or a path cannot be read.
    """
    for link in filter(os.path.islink, glob.glob("/lib*")):  # by which the loader's cache names libraries
        os.symlink(os.readlink(link), root + link)
    for path in paths:
        real = _copy_way(root, path)
        copy = _copy_folder if os.path.isdir(real) else _copy_file
        copy(real, root + real)


def put_library(root: str, library: str) -> None:
    """Copy the library of spawn.c into a root of programs, where a zygote loads it; nothing if it was not compiled."""
    if os.path.exists(library):
        os.makedirs(os.path.dirname(root + LIBRARY), exist_ok=True)
        _copy_file(library, root + LIBRARY)


def _copy_way(root: str, path: str) -> str:
    """Create the folders and links that lead to a path; return the path that they lead to."""
    real = "/"
    words = path.split("/")[::-1]
    while words:
        word = words.pop()
        here = os.path.normpath(os.path.join(real, word))
        if os.path.islink(here):
            link = os.readlink(here)
            if not os.path.lexists(root + here):
                os.symlink(link, root + here)
            words += link.split("/")[::-1]
            real = "/" if link.startswith("/") else real
        else:
            real = here
            if words:
                os.makedirs(root + real, exist_ok=True)
    return real


def _copy_folder(source: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            place = f"{target}/{entry.name}"
            if entry.name in _LEFT_OUT or entry.name.startswith("config-") or ".opt-" in entry.name:
                continue
            if entry.is_symlink() and not os.path.lexists(place):
                os.symlink(os.readlink(entry.path), place)
            elif entry.is_dir(follow_symlinks=False):
                _copy_folder(entry.path, place)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(entry.path, place)


def _copy_file(source: str, target: str) -> None:
    """Copy a file in pieces: the kernel counts what this process held to the peak of later programs."""
    if os.path.lexists(target):
        return
    with open(source, "rb", buffering=0) as file, open(target, "xb", buffering=0) as copy:
        while os.sendfile(copy.fileno(), file.fileno(), None, _PIECE):
            pass
        found = os.fstat(file.fileno())
        os.fchmod(copy.fileno(), 0o755 if found.st_mode & 0o111 else 0o644)
        os.utime(copy.fileno(), ns=(found.st_mtime_ns, found.st_mtime_ns))  # caches of bytecode go by it


def read_before(paths: Iterable[str]) -> None:
    """Read all files of some paths into the page cache, and list the folders; unreadable ones are left out."""
    room = bytearray(_PIECE)
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
            found = os.path.join(folder, name)
            if not os.path.islink(found):
                yield found


if __name__ == "__main__":
    sys.stdout.write("\0".join(find_runtime()))
