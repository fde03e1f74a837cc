"""The faster way to start programs: spawn.c as a shared library. Without it `spawn.Forked` does the same."""

import ctypes
import os

from .plan import Plan
from .spawn import Forked

LIBRARY = "libspawn.so"  # not spawn.so: Python would take that for the module spawn
COMPILE = ("cc", "-O2", "-shared", "-fPIC", "-o", LIBRARY, "spawn.c")  # to be run in this folder
_VERSION = 2


class _Limit(ctypes.Structure):
    _fields_ = (("resource", ctypes.c_uint64), ("most", ctypes.c_uint64))


class _Plan(ctypes.Structure):
    """struct plan of spawn.c."""

    kept: object = None  # what its addresses lead to
    _fields_ = (
        ("folder", ctypes.c_int32),
        ("stdio", ctypes.c_int32 * 3),
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


class Native(Forked):
    """Starts programs by spawn.c.

    Args:
        library: The loaded library.
    """

    native = True

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._failure = (0, "")
        self._plan: Plan | None = None
        self._data = _Plan()

    def start(self, plan: Plan) -> int:
        """Start a program; see `Forked.start`."""
        if plan is not self._plan:  # the tests of a submission share one
            self._plan, self._data = plan, _packed(plan)
        data = self._data
        data.error, data.failed = 0, None
        pid: int = self._library.jail_start(ctypes.byref(data))
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        what = (data.failed or b"").decode()
        self._failure = (data.error, f"{what}: {os.strerror(data.error)}") if data.error else (0, "")
        return pid

    def take_pid(self) -> int:
        """Return the next process id; see `Forked.take_pid`."""
        pid: int = self._library.jail_take_pid()
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return pid

    def failure(self) -> tuple[int, str]:
        """Return errno and text; see `Forked.failure`."""
        return self._failure


def _packed(plan: Plan) -> _Plan:
    """Return the plan for spawn.c."""
    limits = (_Limit * len(plan.limits))(*(_Limit(*limit) for limit in plan.limits))
    code = ctypes.create_string_buffer(plan.filter.code, len(plan.filter.code)) if plan.filter else None
    pid_places = plan.filter.pid_places if plan.filter else ()
    places = (ctypes.c_uint32 * len(pid_places))(*pid_places)
    argv = (ctypes.c_char_p * (len(plan.argv) + 1))(*plan.argv, None)
    environment = (ctypes.c_char_p * (len(plan.environment) + 1))(*plan.environment, None)
    data = _Plan(
        folder=plan.folder,
        stdio=plan.stdio,
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


def load(path: str | None = None) -> Forked:
    """Return the fastest way to start programs that this machine has.

    Args:
        path: The library; None looks for it in this folder.
    """
    try:
        library = ctypes.CDLL(path or os.path.join(os.path.dirname(__file__), LIBRARY))
        if library.jail_version() == _VERSION:
            return Native(library)
    except (OSError, AttributeError):
        pass
    return Forked()
