"""Landlock rules: restrict a process's file access, TCP, outside signals and abstract sockets.

Needs no privilege: Linux 5.13 (files), 6.2 (truncation), 6.7 (TCP), 6.12 (signals, abstract sockets). On older kernels
the seccomp filter covers the missing parts (no O_TRUNC, no socket, no signal). Source: userspace-api/landlock.rst of
the kernel.
"""

import ctypes
import os
from collections.abc import Iterable

from .syscalls import calls, syscall

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # the rest is about folders
LIST = _READ_DIR
READ = _EXECUTE | _READ_FILE | _READ_DIR
DEVICE = _READ_FILE | _WRITE_FILE
ALL = (1 << 16) - 1
TRUNCATES = 3  # the first version that can deny O_TRUNC
_VERSION, _PATH_BENEATH = 1, 1


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _number(name: str) -> int:
    return calls(os.uname().machine).own[f"landlock_{name}"]


def abi() -> int:
    """Return the version of the kernel's Landlock interface; 0 if it has none."""
    try:
        return syscall(_number("create_ruleset"), None, 0, _VERSION)
    except OSError:
        return 0


def ruleset(rules: Iterable[tuple[str, int]]) -> int:
    """Create a ruleset; return its descriptor for `restrict`, which the caller closes.

    Args:
        rules: Paths, each with the rights beneath it (LIST, READ, DEVICE, ALL). Missing paths are left out.

    Raises:
        OSError: The kernel has no Landlock.
    """
    version = abi()
    if not version:
        raise OSError("Landlock: found none in this kernel, wanted Linux 5.13 with landlock among its `lsm=`")
    num_rights = 13  # of version 1; then came moving files (2), truncation (3) and ioctl of devices (5)
    num_rights += (version >= 2) + (version >= 3) + (version >= 5)
    handled = (1 << num_rights) - 1
    attributes = _Ruleset(handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    descriptor = syscall(_number("create_ruleset"), attributes, size, 0)
    for path, rights in rules:
        _allow(descriptor, path, rights & handled)
    return descriptor


def _allow(descriptor: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        allowed = rights if os.path.isdir(path) else rights & _OF_FILES
        syscall(_number("add_rule"), descriptor, _PATH_BENEATH, _Beneath(allowed, parent), 0)
    finally:
        os.close(parent)


def restrict(descriptor: int) -> None:
    """Restrict this process and its descendants by a ruleset, irrevocably; needs PR_SET_NO_NEW_PRIVS.

    Raises:
        OSError: The kernel refused.
    """
    syscall(_number("restrict_self"), descriptor, 0)
