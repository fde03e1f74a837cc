"""The seccomp filters, assembled as classic BPF bytes for this machine: no library, no compiler.

A solution gets threads but no other process, no socket but a connected pair, no call that changes a file by name,
its owner, mode or time, and no way to send a signal to anybody but itself (kill, tgkill, fcntl F_SETOWN, ioctl
FIOSETOWN, PDEATHSIG). It may neither change what the machine caches nor ask what it caches, and it may ask about no
process but itself: what a program that saw hidden tests leaves there, a later one would find. It gets no memory that no
limit counts: no larger buffers (setsockopt, F_SETPIPE_SZ), no sockets in flight (sendmsg), no pages that a byte pins
(sendfile), and no file without a name, as shared memory is (mmap). A compiler gets processes and files on top. See
`syscalls` for the lists.
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
_ERRNO = 0x00050000
_EPERM, _ENOSYS, _ENOTTY, _EINVAL = (_ERRNO | code for code in (errno.EPERM, errno.ENOSYS, errno.ENOTTY, errno.EINVAL))
_NOTHING = _ERRNO  # the call does nothing and succeeds
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
_MADVISE = (4, 8, 14, 102, 103)  # DONTNEED, FREE, HUGEPAGE, GUARD_INSTALL, GUARD_REMOVE; the rest is advice not taken
_SHARED, _PRIVATE, _SHARED_VALIDATE, _DROPPABLE, _ANONYMOUS = 1, 2, 3, 8, 0x20
_MMAP = (_SHARED, _SHARED_VALIDATE, _PRIVATE, _PRIVATE | _ANONYMOUS, _DROPPABLE | _ANONYMOUS)
_PRCTL = (2, 3, 15, 16, 21, 23, 30, 38, 39, 42, 0x53564D41)  # gets, SET_NAME, SET_NO_NEW_PRIVS, SET_VMA


class Check(NamedTuple):
    """Allows a call if for each (argument, mask, values) argument & mask is one of values, else gives `otherwise`."""

    arguments: tuple[tuple[int, int, tuple[int, ...]], ...]
    otherwise: int = _EPERM


def _checks(build: bool) -> dict[str, Check]:
    own_pid = Check(((0, _WORD, (_PID,)),))
    clock = (0, 0xFFFFFFF0, (0,))  # a negative one is the CPU time of some process
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
        "madvise": Check(((2, _WORD, _MADVISE),), _NOTHING),
        **dict.fromkeys(("clock_gettime", "clock_getres", "clock_nanosleep", "timer_create"), Check((clock,), _EINVAL)),
        # glibc asks about the cores of its threads too, and takes this for an answer
        **dict.fromkeys(("getpgid", "getsid", "sched_getaffinity"), Check(((0, _WORD, (0, _PID)),), _ENOSYS)),
        "mmap": Check(((3, 0xF | _ANONYMOUS, _MMAP),)),
    }


_NO_TRUNCATION = {"open": Check(((1, os.O_TRUNC, (0,)),)), "openat": Check(((2, os.O_TRUNC, (0,)),))}

_Action = int | Check
_NEAR = 250  # a conditional jump skips at most 255 steps, and a jump that it needs may still come between
_MOST_SINGLES = 2  # compared one after the other in a leaf of the tree


class _Group(NamedTuple):
    """Numbers from `first` on that get one action, but for single ones."""

    first: int
    action: _Action
    singles: tuple[tuple[int, _Action], ...] = ()


class _Assembler:
    """Assembles a filter from its end to its start: the targets of jumps are known then, and equal ends are shared.

    The kernel translates a filter to machine code at each start of a program: half as many steps, half of that time.
    A label is how many steps follow the one that it names.
    """

    def __init__(self) -> None:
        self._steps: list[bytes] = []
        self._ends: dict[_Action, int] = {}

    def program(self) -> bytes:
        """Return struct sock_filter[]."""
        return b"".join(reversed(self._steps))

    def step(self, code: int, operand: int, if_true: int = 0, if_false: int = 0) -> int:
        """Put a step before all others; return its label."""
        self._steps.append(struct.pack("<HBBI", code, if_true, if_false, operand))
        return len(self._steps) - 1

    def branch(self, code: int, operand: int, if_true: int, if_false: int) -> int:
        """Put a comparison before all others that goes on at one of two labels."""
        if_true, if_false = self._near(if_true), self._near(if_false)
        last = len(self._steps) - 1
        return self.step(code, operand, last - if_true, last - if_false)

    def end(self, action: _Action) -> int:
        """Return the label of what decides a call."""
        label = self._ends.get(action)
        if label is None or (len(self._steps) - label > _NEAR and isinstance(action, int)):
            label = self.step(_RETURN, action) if isinstance(action, int) else self._check(action)
        self._ends[action] = self._near(label)
        return self._ends[action]

    def tree(self, groups: list[_Group]) -> int:
        """Return the label of what finds the group of a number, by halving."""
        if len(groups) > 1:
            half = len(groups) // 2
            above = self.tree(groups[half:])
            return self.branch(_AT_LEAST, groups[half].first, above, self.tree(groups[:half]))
        label = self.end(groups[0].action)
        for number, action in groups[0].singles:
            label = self.branch(_EQUAL, number, self.end(action), label)
        return label

    def _check(self, check: Check) -> int:
        good = self.end(_ALLOW)
        for argument, mask, values in reversed(check.arguments):
            following = self.end(check.otherwise)
            for value in values:
                following = self.branch(_EQUAL, value, good, following)
            if mask != _WORD:
                self.step(_AND, mask)
            good = self.step(_LOAD, 16 + 8 * argument)  # the low word; the kernel too looks at no more of these
        return good

    def _near(self, label: int) -> int:
        """Return a label that a branch reaches: the label itself, or that of a jump to it."""
        distance = len(self._steps) - 1 - label
        return label if distance < _NEAR else self.step(_JUMP, distance)


def _groups(ranges: list[tuple[int, _Action]]) -> list[_Group]:
    """Put single numbers between two ranges of one action into one group with these."""
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
        code: Array of struct sock_filter; holds a mark where the program's own pid belongs.
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
    actions |= _numbered(tables.links.values(), _ALLOW if build else _EINVAL)
    if build:
        actions |= _numbered(tables.build.values(), _ALLOW)
    actions |= {tables.checked[name]: check for name, check in _checks(build).items()}
    actions |= _numbered(tables.nothing.values(), _NOTHING) | _numbered(tables.absent.values(), _ENOSYS)
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
