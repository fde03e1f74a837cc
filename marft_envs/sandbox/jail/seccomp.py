"""Seccomp filters of programs and builds, assembled as classic BPF for this machine, without a library or compiler.

A solution gets threads but no other process, and no socket except a connected pair. It gets no call that changes a file
by name, its owner, mode or time. It can send signals only to itself (kill, tgkill, fcntl F_SETOWN, ioctl FIOSETOWN,
PDEATHSIG). It may neither change nor query the caches of the machine, and query no process but itself: a program that
saw hidden tests could leave bits there for a later one. It gets no memory outside of its limits: no larger buffers
(setsockopt, F_SETPIPE_SZ), no sockets in flight (sendmsg), no pages that a byte pins (sendfile), and no file without a
name, as shared memory is (mmap). A compiler gets processes and files on top. See `syscalls` for the lists.
"""

import errno
import functools
import os
import struct
from typing import NamedTuple

from .syscalls import FIRST_NEW, calls
from .wire import KIND_BUILD

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_LOAD, _AND, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_ERRNO = 0x00050000
_EPERM, _ENOSYS, _ENOTTY, _EINVAL = (_ERRNO | code for code in (errno.EPERM, errno.ENOSYS, errno.ENOTTY, errno.EINVAL))
_NOTHING = _ERRNO  # the call does nothing and succeeds
_WORD = 0xFFFFFFFF
_PID = 0x7E57A91D  # placeholder of the program's own pid until `Filter.bound`

_THREAD = 0x00010000
_NAMESPACES = 0x7E020000
# DUPFD, GETFD, SETFD, GETFL, SETFL, GETLK, DUPFD_CLOEXEC, GETPIPE_SZ, GET_SEALS
_FCNTL = (0, 1, 2, 3, 4, 5, 1030, 1032, 1034)
_FCNTL_LOCKS = (6, 7, 37, 38)  # SETLK, SETLKW and the OFD ones: linkers lock
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_MADVISE = (4, 8, 14, 102, 103)  # DONTNEED, FREE, HUGEPAGE, GUARD_INSTALL, GUARD_REMOVE; the rest is advice not taken
_SHARED, _PRIVATE, _SHARED_VALIDATE, _DROPPABLE, _ANONYMOUS = 1, 2, 3, 8, 0x20
_MMAP = (_SHARED, _SHARED_VALIDATE, _PRIVATE, _PRIVATE | _ANONYMOUS, _DROPPABLE | _ANONYMOUS)
_PRCTL = (2, 3, 15, 16, 21, 23, 30, 38, 39, 42, 0x53564D41)  # gets, SET_NAME, SET_NO_NEW_PRIVS, SET_VMA


class ArgumentCheck(NamedTuple):
    """Check of a call's arguments.

    Attributes:
        arguments: (index, mask, values) of each argument that is checked; the call is allowed if argument & mask is one
            of the values for all of them.
        otherwise: Action if it is not.
    """

    arguments: tuple[tuple[int, int, tuple[int, ...]], ...]
    otherwise: int = _EPERM


def _checks(build: bool) -> dict[str, ArgumentCheck]:
    own_pid = ArgumentCheck(((0, _WORD, (_PID,)),))
    own_process = ArgumentCheck(((0, _WORD, (0, _PID)),), _ENOSYS)
    own_clock = ArgumentCheck(((0, 0xFFFFFFF0, (0,)),), _EINVAL)  # a negative one is the CPU time of some process
    clone = ((0, _NAMESPACES, (0,)),) if build else ((0, _NAMESPACES | _THREAD, (_THREAD,)),)
    return {
        "kill": own_pid,
        "tgkill": own_pid,
        "clone": ArgumentCheck(clone),
        "ioctl": ArgumentCheck(((1, _WORD, _IOCTL),), _ENOTTY),
        "fcntl": ArgumentCheck(((1, _WORD, _FCNTL + _FCNTL_LOCKS if build else _FCNTL),)),
        # AF_UNIX and SOCK_STREAM: a datagram socket could send elsewhere.
        "socketpair": ArgumentCheck(((0, _WORD, (1,)), (1, 0xF, (1,)))),
        "prlimit64": ArgumentCheck(((0, _WORD, (0,)),)),
        "prctl": ArgumentCheck(((0, _WORD, _PRCTL),)),
        "madvise": ArgumentCheck(((2, _WORD, _MADVISE),), _NOTHING),
        **dict.fromkeys(("clock_gettime", "clock_getres", "clock_nanosleep", "timer_create"), own_clock),
        # glibc asks about the cores of its threads too, and accepts this answer.
        **dict.fromkeys(("getpgid", "getsid", "sched_getaffinity"), own_process),
        "mmap": ArgumentCheck(((3, 0xF | _ANONYMOUS, _MMAP),)),
    }


_NO_TRUNCATION = {"open": ArgumentCheck(((1, os.O_TRUNC, (0,)),)), "openat": ArgumentCheck(((2, os.O_TRUNC, (0,)),))}

_Action = int | ArgumentCheck
_NEAR = 250  # a conditional jump skips at most 255 steps, and a jump that it needs may still come between
_MOST_SINGLES = 2  # compared one after the other in a leaf of the tree


class _Group(NamedTuple):
    """Range of call numbers from `first` on with one action, except for single numbers with their own."""

    first: int
    action: _Action
    singles: tuple[tuple[int, _Action], ...] = ()


class _Assembler:
    """Assembler of a filter, from its end to its start: jump targets are known then, and equal ends are shared.

    The kernel translates a filter to machine code at each start of a program; half as many steps take half the time.
    A label is the number of steps after the one that it names.
    """

    def __init__(self) -> None:
        self._steps: list[bytes] = []
        self._ends: dict[_Action, int] = {}

    def program(self) -> bytes:
        """Return the filter as an array of struct sock_filter."""
        return b"".join(reversed(self._steps))

    def step(self, code: int, operand: int, if_true: int = 0, if_false: int = 0) -> int:
        """Prepend a step; return its label."""
        self._steps.append(struct.pack("<HBBI", code, if_true, if_false, operand))
        return len(self._steps) - 1

    def branch(self, code: int, operand: int, if_true: int, if_false: int) -> int:
        """Prepend a comparison that continues at one of two labels; return its label."""
        if_true, if_false = self._near(if_true), self._near(if_false)
        last = len(self._steps) - 1
        return self.step(code, operand, last - if_true, last - if_false)

    def end(self, action: _Action) -> int:
        """Return the label of the steps that decide a call."""
        label = self._ends.get(action)
        if label is None or (len(self._steps) - label > _NEAR and isinstance(action, int)):
            label = self.step(_RETURN, action) if isinstance(action, int) else self._check(action)
        self._ends[action] = self._near(label)
        return self._ends[action]

    def tree(self, groups: list[_Group]) -> int:
        """Return the label of a binary search for the group of a number."""
        if len(groups) > 1:
            half = len(groups) // 2
            above = self.tree(groups[half:])
            return self.branch(_AT_LEAST, groups[half].first, above, self.tree(groups[:half]))
        label = self.end(groups[0].action)
        for number, action in groups[0].singles:
            label = self.branch(_EQUAL, number, self.end(action), label)
        return label

    def _check(self, check: ArgumentCheck) -> int:
        good = self.end(_ALLOW)
        for argument, mask, values in reversed(check.arguments):
            following = self.end(check.otherwise)
            for value in values:
                following = self.branch(_EQUAL, value, good, following)
            if mask != _WORD:
                self.step(_AND, mask)
            good = self.step(_LOAD, 16 + 8 * argument)  # the low word; the kernel uses no more of these
        return good

    def _near(self, label: int) -> int:
        """Return a label within reach of a branch: the label itself, or that of a jump to it."""
        distance = len(self._steps) - 1 - label
        return label if distance < _NEAR else self.step(_JUMP, distance)


def _groups(ranges: list[tuple[int, _Action]]) -> list[_Group]:
    """Merge ranges of one action that are interrupted by single numbers into groups."""
    result = [_Group(*ranges[0])]
    for place, (first, action) in enumerate(ranges[1:], start=1):
        last = result[-1]
        ends = ranges[place + 1][0] if place + 1 < len(ranges) else None
        if action == last.action:
            continue
        if ends == first + 1 and len(last.singles) < _MOST_SINGLES:
            result[-1] = last._replace(singles=(*last.singles, (first, action)))
        else:
            result.append(_Group(first, action))
    return result


def _ranges(actions: dict[int, _Action]) -> list[tuple[int, _Action]]:
    """Return the first number and the action of each range, with the defaults of unlisted numbers."""
    result: list[tuple[int, _Action]] = []
    for number in range(max(FIRST_NEW, *actions) + 2):
        action = actions.get(number, _EPERM if number < FIRST_NEW else _ENOSYS)
        if not result or result[-1][1] != action:
            result.append((number, action))
    return result


class Filter(NamedTuple):
    """Seccomp filter program.

    Attributes:
        code: Array of struct sock_filter, with placeholders for the process id of the program.
        pid_places: Byte offsets of the placeholders.
    """

    code: bytes
    pid_places: tuple[int, ...]

    def bound(self, pid: int) -> bytes:
        """Return the code with a process id in the placeholders."""
        code = bytearray(self.code)
        for place in self.pid_places:
            struct.pack_into("<I", code, place, pid)
        return bytes(code)


@functools.cache
def filter_for(kind: int, machine: str = os.uname().machine, truncates: bool = True) -> Filter:
    """Return the filter of a run or a build.

    Args:
        kind: KIND_RUN or KIND_BUILD.
        machine: Name of the machine type, as in `os.uname`.
        truncates: True if a run may open files with O_TRUNC. Landlock before Linux 6.2 would let it empty any file that
            it may read.

    Raises:
        OSError: The machine has no system call table here.
    """
    tables, build = calls(machine), kind == KIND_BUILD
    actions: dict[int, _Action] = dict.fromkeys(tables.run.values(), _ALLOW)
    actions |= dict.fromkeys(tables.attack.values(), _KILL)
    actions |= dict.fromkeys(tables.links.values(), _ALLOW if build else _EINVAL)
    if build:
        actions |= dict.fromkeys(tables.build.values(), _ALLOW)
    actions |= {tables.checked[name]: check for name, check in _checks(build).items()}
    actions |= dict.fromkeys(tables.nothing.values(), _NOTHING)
    actions |= dict.fromkeys(tables.absent.values(), _ENOSYS)
    if not (truncates or build):
        actions[tables.run["openat2"]] = _ENOSYS  # its flags are in memory, where no filter sees them
        actions |= {tables.run[name]: check for name, check in _NO_TRUNCATION.items() if name in tables.run}
    code = _Assembler()
    wrong = code.end(_KILL)
    code.tree(_groups(_ranges(actions)))
    start = code.step(_LOAD, 0)  # seccomp_data.nr; the x32 ones have bit 30 set, so they are beyond the table
    code.branch(_EQUAL, _ARCHITECTURE[machine], start, wrong)
    code.step(_LOAD, 4)  # seccomp_data.arch; another one is the 32-bit entry of the kernel
    program = code.program()
    steps = enumerate(struct.iter_unpack("<HBBI", program))
    return Filter(program, tuple(8 * line + 4 for line, step in steps if step[0] == _EQUAL and step[3] == _PID))
