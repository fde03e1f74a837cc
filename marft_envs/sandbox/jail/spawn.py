"""Starts a program as its plan says: the way that works everywhere, by fork.

Nothing may be added here that spawn.c doesn't do too, and in the same order; a test compares what comes out.
"""

import contextlib
import ctypes
import mmap
import os
import resource
import signal

from . import landlock
from .plan import Plan
from .seccomp import Filter
from .syscalls import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    calls,
    prctl,
    syscall,
)

NOT_STARTED = 127  # exit status of a child that could not become the program
_SET_MODE_FILTER = 1
_TEXT = 200
_DESCRIPTORS = 1024  # more than the runner ever has


class Forked:
    """Starts programs by fork.

    Until it is another program, the child shares a page with us and says there what went wrong.
    """

    native = False

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def start(self, plan: Plan) -> int:
        """Start a program.

        Returns:
            Its pid, a child of ours.
        """
        self._page[: 4 + _TEXT] = bytes(4 + _TEXT)
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            self._become(plan, parent)
        return pid

    def take_pid(self) -> int:
        """Return the next process id, which nobody has then."""
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
        return pid

    def failure(self) -> tuple[int, str]:
        """Return errno and text; (0, "") where the program was started. Final once the child has ended."""
        code = int.from_bytes(self._page[:4], "little")
        return code, self._page[4 : 4 + _TEXT].rstrip(b"\0").decode(errors="replace")

    def _become(self, plan: Plan, parent: int) -> None:
        """Do as the plan says and never return."""
        step = "fork"
        try:
            for part in (_attach, _offer, _limit, _enter, _drop, _tie, _confine, _execute):
                step = part.__name__.strip("_")
                part(plan, parent)
        except BaseException as error:
            code = (error.errno if isinstance(error, OSError) else None) or 255
            text = f"{step}: {error}".encode()[:_TEXT]
            self._page[4 : 4 + len(text)] = text
            self._page[:4] = code.to_bytes(4, "little")
        finally:
            os._exit(NOT_STARTED)


def _attach(plan: Plan, parent: int) -> None:
    os.setsid()  # also a group of the scheduler of its own: the runner gets its share beside a fork bomb
    os.fchdir(plan.folder)
    for number, descriptor in enumerate(plan.stdio):
        os.dup2(descriptor, number)


def _offer(plan: Plan, parent: int) -> None:
    """Where memory runs out, the kernel is to end the program and not the runner; while it is root it may say so."""
    with contextlib.suppress(OSError):
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(file, b"1000")


def _limit(plan: Plan, parent: int) -> None:
    for number, most in plan.limits:
        resource.setrlimit(number, (most, most))


def _enter(plan: Plan, parent: int) -> None:
    if plan.root is not None:
        os.chroot(plan.root)


def _drop(plan: Plan, parent: int) -> None:
    if plan.uid is not None:
        os.setgroups([])
        os.setresgid(plan.uid, plan.uid, plan.uid)
        os.setresuid(plan.uid, plan.uid, plan.uid)


def _tie(plan: Plan, parent: int) -> None:
    """Give up what execve would keep, and die with the runner; a change of uid would undo this, so it comes after."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise OSError("the runner has ended")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _confine(plan: Plan, parent: int) -> None:
    if plan.ruleset is not None:
        landlock.restrict(plan.ruleset)
    os.closerange(3, _DESCRIPTORS)
    if plan.filter is not None:
        _install(plan.filter)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _install(program: Filter) -> None:
    code = program.bound(os.getpid())
    syscall(calls(os.uname().machine).own["seccomp"], _SET_MODE_FILTER, 0, _Program(len(code) // 8, code))


def _execute(plan: Plan, parent: int) -> None:
    variables = [word.partition(b"=") for word in plan.environment]
    environment = {name: value for name, _, value in variables}
    resource.setrlimit(resource.RLIMIT_AS, (plan.memory, plan.memory))
    os.execve(plan.path, plan.argv, environment)
