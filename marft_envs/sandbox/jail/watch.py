"""Watch of a running program: its CPU, wall, thread and memory limits, and the processes that it leaves behind."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from .plan import Isolation
from .wire import CPU_LIMIT, OOM, THREAD_LIMIT, WALL_LIMIT

CHILDREN = "/proc/thread-self/children"  # a file of newer kernels, without which there is no zygote
MOST_THREADS = 256  # if the kernel cannot count a program's own ones; checked every _TICK_S
_TICK_S = 0.02
_SHORT_S = 0.001
_CHILD = {signal.SIGCHLD}
_PATIENCE_S = 30.0  # a killed process that held much memory takes seconds to end on a busy machine
_PAGES_IN_TABLE = 512
# the kernel's counts of out-of-memory kills: of this container (cgroup v2, v1), of the machine
_OOM_COUNTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat")
_DENSE_KB = 1024  # page tables of an ordinary program: of its libraries, its stacks


class ProgramExit(NamedTuple):
    """End of a program: flags and figures as in `wire.RunResult`, `status` as in os.waitstatus_to_exitcode."""

    flags: int
    status: int
    cpu_us: int
    wall_us: int
    peak_kb: int


class Watch:
    """Watch that waits for programs and kills them at their limits.

    SIGCHLD must be blocked in this process, as we wait for it.

    Args:
        host: Descriptor of the host's pipe. When the host closes it, the program is killed: nobody waits for it.
        on_long: Callback at each tick while a program runs.
        container: True if this is a container, so that memory of its neighbours does not count.
    """

    def __init__(self, host: int, on_long: Callable[[], None] = lambda: None, container: bool = False) -> None:
        self._on_long = on_long
        self._container = container
        self._cores = len(os.sched_getaffinity(0))
        self._kills = _oom_kills(container)
        self._host = select.poll()
        self._host.register(host, 0)  # no events: poll reports a closed pipe anyway

    def over(
        self, pid: int, cpu_s: float, wall_s: float, start_s: float, count_threads: bool, memory_kb: int = 0
    ) -> ProgramExit:
        """Wait for a program, kill it at its limits, and reap it.

        Args:
            pid: Process id of our child.
            cpu_s: CPU limit of all threads, seconds.
            wall_s: Wall time limit, seconds.
            start_s: Time of its start, seconds of time.monotonic().
            count_threads: Also kill it beyond `MOST_THREADS`.
            memory_kb: Also kill it if its pages and page tables exceed this many KiB; 0 is no limit.
        """
        clock = (~pid << 3) | 2  # its CPU clock, see clock_getcpuclockid(3): exact, and needs no /proc
        flags, held_kb, wall_left, cpu_left = 0, 0, wall_s, cpu_s
        while True:
            # At its fastest it uses all cores, so we are never late by more than _SHORT_S.
            wait_s = min(wall_left, max(cpu_left / self._cores, _SHORT_S), _TICK_S)
            signalled = signal.sigtimedwait(_CHILD, wait_s)
            ended, raw, used = os.wait4(pid, os.WNOHANG)
            if ended:
                break
            if signalled is None:  # a tick has passed; a program that ends at once costs no look at /proc
                held_kb = _held_kb(pid)
            wall_left = start_s + wall_s - time.monotonic()
            cpu_left = cpu_s - time.clock_gettime(clock)
            if cpu_left <= 0:
                flags = CPU_LIMIT
            elif wall_left <= 0 or self._host.poll(0):
                flags = WALL_LIMIT
            if count_threads and _threads(pid) > MOST_THREADS:
                flags |= THREAD_LIMIT
            if memory_kb and held_kb > memory_kb:
                flags |= OOM
            if flags:
                os.kill(pid, signal.SIGKILL)
                _, raw, used = os.wait4(pid, 0)
                break
            self._on_long()
        wall_used, cpu_used = time.monotonic() - start_s, used.ru_utime + used.ru_stime
        peak_kb = max(used.ru_maxrss, held_kb if flags & OOM else 0)
        status = os.waitstatus_to_exitcode(raw)
        if cpu_used >= cpu_s:
            flags = flags & ~WALL_LIMIT | CPU_LIMIT  # also if it ended by itself, or by RLIMIT_CPU
        if status == -signal.SIGKILL and not flags and self._kernel_killed():
            flags |= OOM
        return ProgramExit(flags, status, round(cpu_used * 1e6), round(wall_used * 1e6), peak_kb)

    def _kernel_killed(self) -> bool:
        """True if the kernel has killed for memory since the last call, or does not count that."""
        before, self._kills = self._kills, _oom_kills(self._container)
        return before is None or self._kills is None or self._kills > before


def _threads(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0


def _held_kb(pid: int) -> int:
    """Return KiB of the pages of a program and of its sparse page tables; 0 if /proc does not tell.

    No limit of the kernel counts the tables: a page of 4 KiB, far from any other, takes two of them. The tables of
    dense pages are left out, so that a program may use up its memory limit.
    """
    with contextlib.suppress(OSError):
        for task in (pid, *map(int, os.listdir(f"/proc/{pid}/task"))):  # its first thread may have ended
            with open(f"/proc/{pid}/task/{task}/status", "rb") as file:
                fields = dict(line.split(b":", 1) for line in file)
            if b"VmPTE" in fields:
                pages, tables = (int(fields[name].split()[0]) for name in (b"VmRSS", b"VmPTE"))
                return pages + max(0, tables - _DENSE_KB - pages // _PAGES_IN_TABLE)
    return 0


def _oom_kills(container: bool) -> int | None:
    """Return the number of out-of-memory kills in this container or on the machine; None if it is not counted."""
    for path in _OOM_COUNTS if container else _OOM_COUNTS[-1:]:
        with contextlib.suppress(OSError), open(path, "rb") as lines:
            for line in lines:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    return None


def end_leftovers(isolation: Isolation, zygote: int = 0) -> bool:
    """Kill all processes that programs have left running; return True if there were any.

    An orphan becomes our child (we are process 1, or the subreaper), so having no child is the proof.

    Args:
        isolation: Isolation mode of this jail.
        zygote: Process id of a child that is none of a program; it may be killed with others. 0 if there is none.

    Raises:
        OSError: A process cannot be killed: this jail cannot be used again.
    """
    if not _children(zygote):
        return False
    deadline = time.monotonic() + _PATIENCE_S
    while _children(zygote):
        if time.monotonic() > deadline:
            raise OSError(f"processes are left {_PATIENCE_S} s after SIGKILL")
        _kill_all(isolation.uids_in_use())
        signal.sigtimedwait({signal.SIGCHLD}, _SHORT_S)
    return True


def _children(zygote: int) -> bool:
    """Reap the children that have ended; return True if others than the zygote are running."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            return False
    if not zygote:
        return True
    with open(CHILDREN, "rb", buffering=0) as file:
        return file.read(64).split() != [b"%d" % zygote]


def _kill_all(uids: tuple[int, ...]) -> None:
    """Send SIGKILL to all processes except the runner, by one call if possible, so that no fork can outrun it."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    elif uids:
        for uid in uids:
            _kill_uid(uid)
    else:
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _kill_uid(uid: int) -> None:
    """Kill all processes of a user id and no others, from a child process with that id."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.kill(-1, signal.SIGKILL)
    finally:
        os._exit(0)


def _descendants(root: int) -> list[int]:
    """Return the process ids of all descendants of a process."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found
