"""The seccomp filters, assembled as classic BPF bytes for this machine: no library, no compiler.

A solution gets threads but no other process, no socket but a connected pair, no call that changes a file by name,
its owner, mode or time, and no way to send a signal to anybody but itself (kill, tgkill, fcntl F_SETOWN, ioctl
FIOSETOWN, PDEATHSIG). A compiler gets processes and files on top. See `syscalls` for the lists.
"""

import errno
import functools
import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

from .syscalls import FIRST_NEW, calls
from .wire import KIND_BUILD

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _AND, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_EPERM, _ENOSYS, _ENOTTY = (0x00050000 | code for code in (errno.EPERM, errno.ENOSYS, errno.ENOTTY))
_WORD = 0xFFFFFFFF
_PID = 0x7E57A91D  # stands for the program's own pid until `Filter.bound`

_THREAD = 0x00010000
_NAMESPACES = 0x7E020000
_FCNTL = (
    0,
    1,
    2,
    3,
    4,
    5,
    1030,
    1032,
    1034,
)  # DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, DUPFD_CLOEXEC, GETPIPE_SZ, GET_SEALS
_FCNTL_LOCKS = (6, 7, 37, 38)  # SETLK, SETLKW and the OFD ones: linkers lock
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_PRCTL = (2, 3, 15, 16, 21, 23, 30, 38, 39, 42, 0x53564D41)  # gets, SET_NAME, SET_NO_NEW_PRIVS, SET_VMA


class Check(NamedTuple):
    """Allows a call if for each (argument, mask, values) argument & mask is one of values, else gives `otherwise`."""

    arguments: tuple[tuple[int, int, tuple[int, ...]], ...]
    otherwise: int = _EPERM


def _checks(build: bool) -> dict[str, Check]:
    own_pid = Check(((0, _WORD, (_PID,)),))
    clone = ((0, _NAMESPACES, (0,)),) if build else ((0, _NAMESPACES | _THREAD, (_THREAD,)),)
    return {
        "kill": own_pid,
        "tgkill": own_pid,
        "clone": Check(clone),
        "ioctl": Check(((1, _WORD, _IOCTL),), _ENOTTY),
        "fcntl": Check(((1, _WORD, _FCNTL + _FCNTL_LOCKS * build),)),
        "socketpair": Check(((0, _WORD, (1,)), (1, 0xF, (1,)))),  # AF_UNIX; a datagram socket could be sent elsewhere
        "prlimit64": Check(((0, _WORD, (0,)),)),
        "prctl": Check(((0, _WORD, _PRCTL),)),
    }


_NO_TRUNCATION = {"open": Check(((1, os.O_TRUNC, (0,)),)), "openat": Check(((2, os.O_TRUNC, (0,)),))}

_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
_Action = int | Check


def _leaf(action: _Action) -> list[_Instruction]:
    """Return the code that decides one call."""
    if isinstance(action, int):
        return [(_RETURN, 0, 0, action)]
    code: list[_Instruction] = []
    for argument, mask, values in action.arguments:
        code.append((_LOAD, 0, 0, 16 + 8 * argument))  # the low word; the kernel too looks at no more of these
        if mask != _WORD:
            code.append((_AND, 0, 0, mask))
        code += [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
        code.append((_RETURN, 0, 0, action.otherwise))
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _tree(ranges: list[tuple[int, _Action]]) -> list[_Instruction]:
    """Return code that finds the range a number is in: (first number, action), ascending, by halving."""
    if len(ranges) == 1:
        return _leaf(ranges[0][1])
    half = len(ranges) // 2
    below, above = _tree(ranges[:half]), _tree(ranges[half:])
    if len(below) < 256:
        return [(_AT_LEAST, len(below), 0, ranges[half][0]), *below, *above]
    return [(_AT_LEAST, 0, 1, ranges[half][0]), (_JUMP, 0, 0, len(below)), *below, *above]


def _ranges(actions: dict[int, _Action]) -> list[tuple[int, _Action]]:
    """Return the ranges of numbers of one action each, defaults filled in."""
    result: list[tuple[int, _Action]] = []
    for number in range(max(FIRST_NEW, *actions) + 2):
        action = actions.get(number, _EPERM if number < FIRST_NEW else _ENOSYS)
        if not result or result[-1][1] != action:
            result.append((number, action))
    return result


def _numbered(names: Iterable[int], action: _Action) -> dict[int, _Action]:
    return dict.fromkeys(names, action)


class Filter(NamedTuple):
    """A filter program.

    Attributes:
        code: struct sock_filter[]; holds a mark where the program's own pid belongs.
        pid_places: Byte offsets of those marks.
    """

    code: bytes
    pid_places: tuple[int, ...]

    def bound(self, pid: int) -> bytes:
        """Return the code for the process `pid`."""
        code = bytearray(self.code)
        for place in self.pid_places:
            struct.pack_into("<I", code, place, pid)
        return bytes(code)


@functools.cache
def filter_for(kind: int, machine: str = os.uname().machine, truncates: bool = True) -> Filter:
    """Return the filter of a run or a build.

    Args:
        kind: KIND_RUN or KIND_BUILD.
        machine: As `os.uname` names it.
        truncates: Whether a run may open with O_TRUNC: not under Landlock before Linux 6.2, which would let it empty
            any file that it may read.

    Raises:
        OSError: We have no system call table for the machine.
    """
    tables, build = calls(machine), kind == KIND_BUILD
    actions = _numbered(tables.run.values(), _ALLOW) | _numbered(tables.attack.values(), _KILL)
    if build:
        actions |= _numbered(tables.build.values(), _ALLOW)
    actions |= {tables.checked[name]: check for name, check in _checks(build).items()}
    if not (truncates or build):
        actions[tables.run["openat2"]] = _ENOSYS  # its flags are in memory, where no filter sees them
        actions |= {tables.run[name]: check for name, check in _NO_TRUNCATION.items() if name in tables.run}
    code = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch; another one is the 32-bit entry of the kernel
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr; the x32 ones have bit 30 set, so they are beyond the table
        *_tree(_ranges(actions)),
    ]
    places = tuple(8 * line + 4 for line, step in enumerate(code) if step[0] == _EQUAL and step[3] == _PID)
    return Filter(b"".join(struct.pack("<HBBI", *step) for step in code), places)
