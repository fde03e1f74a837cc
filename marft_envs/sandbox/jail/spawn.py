"""Start of a program after its plan: by fork (`ForkSpawner`), or faster by spawn.c (`NativeSpawner`).

Both do the same steps in the same order; a test compares the results.
"""

import contextlib
import ctypes
import mmap
import os
import resource
import signal

from . import landlock
from .plan import Plan
from .syscalls import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    calls,
    prctl,
    syscall,
)

LIBRARY = "libspawn.so"  # of spawn.c; not spawn.so: Python would take that for this module
COMPILE = ("cc", "-O2", "-shared", "-fPIC", "-o", LIBRARY, "spawn.c")  # to be run in this folder
CHANNEL = 3  # descriptor of a zygote
NOT_STARTED = 127  # exit status of a child that could not become the program
_VERSION = 3  # of struct plan in spawn.c
_SET_MODE_FILTER = 1
_TEXT = 200
_DESCRIPTORS = 1024  # more than the runner ever has


class ForkSpawner:
    """Spawner that works everywhere, by fork.

    The child shares a page of memory with us, where it reports a failure before it executes the program.

    Attributes:
        native: True if programs are started by spawn.c.
    """

    native = False

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def start(self, plan: Plan) -> int:
        """Start a program as a child process; return its process id."""
        self._page[: 4 + _TEXT] = bytes(4 + _TEXT)
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            self._become(plan, parent)
        return pid

    def take_pid(self) -> int:
        """Use up the next process id and return it; no process has it afterwards."""
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)
        return pid

    def failure(self) -> tuple[int, str]:
        """Return errno and text of the last start; (0, "") if it succeeded. Final once the child has ended."""
        code = int.from_bytes(self._page[:4], "little")
        return code, self._page[4 : 4 + _TEXT].rstrip(b"\0").decode(errors="replace")

    def _become(self, plan: Plan, parent: int) -> None:
        """Turn this child into the program of a plan; never returns."""
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
    if plan.channel is not None:
        os.dup2(plan.channel, CHANNEL)


def _offer(plan: Plan, parent: int) -> None:
    """Let the kernel kill the program before the runner if memory runs out; root may ask for that."""
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
    """Give up privileges that execve would keep, and die with the runner.

    A change of the user id would undo this, so it comes after `_drop`.
    """
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise OSError("the runner has ended")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


class _FilterProgram(ctypes.Structure):
    """struct sock_fprog of the kernel."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def _confine(plan: Plan, parent: int) -> None:
    if plan.ruleset is not None:
        landlock.restrict(plan.ruleset)
    os.closerange(CHANNEL + (plan.channel is not None), _DESCRIPTORS)
    if plan.filter is not None:
        code = plan.filter.bound(os.getpid())
        program = _FilterProgram(len(code) // 8, code)
        syscall(calls(os.uname().machine).own["seccomp"], _SET_MODE_FILTER, 0, program)


def _execute(plan: Plan, parent: int) -> None:
    environment = dict(word.split(b"=", 1) for word in plan.environment)
    resource.setrlimit(resource.RLIMIT_AS, (plan.memory, plan.memory))
    os.execve(plan.path, plan.argv, environment)


class _Limit(ctypes.Structure):
    _fields_ = (("resource", ctypes.c_uint64), ("most", ctypes.c_uint64))


class _Plan(ctypes.Structure):
    """struct plan of spawn.c."""

    kept: object = None  # the objects at its addresses
    _fields_ = (
        ("folder", ctypes.c_int32),
        ("stdio", ctypes.c_int32 * 3),
        ("channel", ctypes.c_int32),
        ("uid", ctypes.c_int32),
        ("ruleset", ctypes.c_int32),
        ("limits", ctypes.c_uint32),
        ("steps", ctypes.c_uint32),
        ("places", ctypes.c_uint32),
        ("error", ctypes.c_uint32),
        ("failed", ctypes.c_char_p),
        ("limit", ctypes.c_void_p),
        ("root", ctypes.c_char_p),
        ("memory", ctypes.c_uint64),
        ("filter", ctypes.c_void_p),
        ("place", ctypes.c_void_p),
        ("path", ctypes.c_char_p),
        ("argv", ctypes.c_void_p),
        ("environment", ctypes.c_void_p),
    )


class NativeSpawner(ForkSpawner):
    """Spawner by spawn.c, a millisecond faster: the child borrows our memory instead of copying it.

    Args:
        library: Loaded library of spawn.c.

    Attributes:
        library: Loaded library of spawn.c, for a zygote.
    """

    native = True

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self._plan: Plan | None = None
        self._data = _Plan()

    def start(self, plan: Plan) -> int:
        """Start a program; see `ForkSpawner.start`."""
        return self._started(self.library.jail_start(ctypes.byref(self._prepared(plan))))

    def take_pid(self) -> int:
        """Return the next process id; see `ForkSpawner.take_pid`."""
        return self._started(self.library.jail_take_pid())

    def failure(self) -> tuple[int, str]:
        """Return errno and text; see `ForkSpawner.failure`."""
        code, what = self._data.error, (self._data.failed or b"").decode()
        return (code, f"{what}: {os.strerror(code)}") if code else (0, "")

    def _prepared(self, plan: Plan) -> _Plan:
        """Return the structure of a plan, without the failure of its last start."""
        if plan is not self._plan:  # the tests of a submission share one
            self._plan, self._data = plan, _packed(plan)
        self._data.error, self._data.failed = 0, None
        return self._data

    @staticmethod
    def _started(pid: int) -> int:
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return pid


def _packed(plan: Plan) -> _Plan:
    """Convert a plan to the structure of spawn.c."""
    limits = (_Limit * len(plan.limits))(*(_Limit(*limit) for limit in plan.limits))
    code = ctypes.create_string_buffer(plan.filter.code, len(plan.filter.code)) if plan.filter else None
    pid_places = plan.filter.pid_places if plan.filter else ()
    places = (ctypes.c_uint32 * len(pid_places))(*pid_places)
    argv = (ctypes.c_char_p * (len(plan.argv) + 1))(*plan.argv, None)
    environment = (ctypes.c_char_p * (len(plan.environment) + 1))(*plan.environment, None)
    data = _Plan(
        folder=plan.folder,
        stdio=plan.stdio,
        channel=-1 if plan.channel is None else plan.channel,
        uid=-1 if plan.uid is None else plan.uid,
        ruleset=-1 if plan.ruleset is None else plan.ruleset,
        limits=len(limits),
        steps=len(plan.filter.code) // 8 if plan.filter else 0,
        places=len(places),
        limit=ctypes.addressof(limits),
        root=plan.root,
        memory=plan.memory % 2**64,  # RLIM_INFINITY is -1
        filter=ctypes.addressof(code) if code else None,
        place=ctypes.addressof(places),
        path=plan.path,
        argv=ctypes.addressof(argv),
        environment=ctypes.addressof(environment),
    )
    data.kept = limits, code, places, argv, environment
    return data


def load_spawner(path: str | None = None) -> ForkSpawner:
    """Return the fastest spawner that this machine has.

    Args:
        path: Path of the library of spawn.c; None looks for it in this folder.
    """
    try:
        library = ctypes.CDLL(path or os.path.join(os.path.dirname(__file__), LIBRARY))
        if library.jail_version() == _VERSION:
            return NativeSpawner(library)
    except (OSError, AttributeError):
        pass
    return ForkSpawner()
