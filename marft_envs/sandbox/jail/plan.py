"""Limits, user id and filters of a program as data: `Plan` starts one program, `Isolation` makes plans for a mode.

Both ways to start a program (spawn.py, spawn.c) carry out a plan in the order of its fields.
"""

import contextlib
import math
import os
import resource
import sys
from typing import NamedTuple

from . import landlock
from .python_start import PYTHON_START
from .runtime_files import read_before
from .seccomp import Filter, filter_for
from .syscalls import MACHINES
from .wire import KIND_BUILD, RunRequest

MODES = ("uid", "namespace", "landlock", "none")
ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")
ZEROS = "/dev/zero"  # a program that may write there can map it: shared memory that no limit counts
PATH = "/usr/local/bin:/usr/bin:/bin"
THREADS = 64  # of a solution, enforced as the process limit of its own uid

_FORKS = tuple(map(os.fsencode, PYTHON_START))
_OTHERS = 256  # processes of the same user that may start meanwhile
_BUILD_STACK = 64 * 2**20  # as g++ sets it for itself
_UNLIMITED = resource.RLIM_INFINITY


class Plan(NamedTuple):
    """Start of a program as data.

    Attributes:
        folder: Descriptor of the working directory.
        stdio: Descriptors that become 0, 1 and 2.
        channel: Descriptor that becomes 3, or None; all others are closed.
        limits: (resource, soft and hard limit).
        root: Folder that becomes the program's root; None keeps ours.
        memory: Address space in bytes; set last, since the set-up itself may need more.
        uid: User and group, without further groups; None keeps ours.
        ruleset: Landlock ruleset's descriptor, or None.
        filter: Seccomp filter, or None.
        path: Path of the program.
        argv: Arguments of the program.
        environment: NAME=VALUE of each environment variable.
        forks: True if a zygote of this program may carry out the plan.
    """

    folder: int
    stdio: tuple[int, int, int]
    channel: int | None
    limits: tuple[tuple[int, int], ...]
    root: bytes | None
    memory: int
    uid: int | None
    ruleset: int | None
    filter: Filter | None
    path: bytes
    argv: tuple[bytes, ...]
    environment: tuple[bytes, ...]
    forks: bool


class Isolation:
    """Isolation mode of a jail; makes the plans of its programs.

    Args:
        mode: `uid`: own uids in a container. `namespace`: a bubblewrap jail. `landlock`: an ordinary process.
            `none`: limits, and the filter on machines that have one, so that at least no program forks without end
            or signals everybody; files and secrets are open to it.
        box: Folder of the submission.
        uids: First and last uid: builds get the first one, submissions take turns with the others; None keeps ours.
        read: Files and folders that may be read, in the mode `landlock`.
        listed: Folders whose names alone may be read, in the mode `landlock`.
        runtime: Paths that the interpreter and programs of the box may read at a run; empty allows `read`. A program
            could leave each of them cached, so they are few, and read before.
        root: Folder in memory that the interpreter and programs of the box have as their root at a run, with copies of
            the files that they read, the box, and /dev. None is our root.

    Raises:
        ValueError: The arguments contradict each other.
        OSError: This machine cannot isolate in this mode.
    """

    def __init__(
        self,
        mode: str,
        box: str,
        uids: tuple[int, int] | None = None,
        read: tuple[str, ...] = (),
        listed: tuple[str, ...] = (),
        runtime: tuple[str, ...] = (),
        root: str | None = None,
    ) -> None:
        _check(mode, uids)
        self.mode, self.box, self.uids, self._read, self._listed = mode, box, uids, read, listed
        self._root, self._real_box = root, os.path.realpath(box)
        # The interpreter is ours: programs run in the same one.
        self._programs = {os.path.realpath(path) for path in (*runtime, sys.executable)}
        self._run_uid = uids[0] + 1 if uids else None
        # `uid` and `namespace` hold without Landlock; if the kernel has it, it closes /proc to programs.
        self._landlocks = mode == "landlock" or (mode != "none" and landlock.abi() > 0)
        self._run_ruleset = landlock.ruleset(self._rules()) if self._landlocks else None
        few = [(path, landlock.READ) for path in ([root] if root else [*runtime, box])]
        few += self._common_rules(root or "")
        self._few_ruleset = landlock.ruleset(few) if self._landlocks and (root or runtime) else self._run_ruleset
        if mode != "namespace":  # there the jail is new for each submission, and the host has done it
            read_before(runtime)
        self._truncates = mode != "landlock" or landlock.abi() >= landlock.TRUNCATES
        self._filters = mode != "none" or os.uname().machine in MACHINES
        if self._filters:
            filter_for(KIND_BUILD)  # fails now on an unknown machine

    def next_submission(self) -> None:
        """Change the user id of the next programs."""
        if self.uids and self._run_uid:
            self._run_uid = self._run_uid + 1 if self._run_uid < self.uids[1] else self.uids[0] + 1

    def uids_in_use(self) -> tuple[int, ...]:
        """Return the user ids of this submission's build and programs."""
        return (self.uids[0], self._run_uid) if self.uids and self._run_uid else ()

    def plan(self, request: RunRequest, folder: int, stdio: tuple[int, int, int]) -> Plan:
        """Return the plan of a request; the Landlock ruleset of a build is new, and the caller closes it."""
        build = request.kind == KIND_BUILD
        uid = (self.uids[0] if build else self._run_uid) if self.uids else None
        reads_few = not build and self._reads_few(request.argv[0])
        return Plan(
            folder,
            stdio,
            None,
            self._limits(request, build),
            os.fsencode(self._root) if self._root and reads_few else None,
            _clamp(resource.RLIMIT_AS, request.memory_kb * 1024 if request.memory_kb else _UNLIMITED),
            uid,
            self._few_ruleset if reads_few else self._ruleset(build),
            filter_for(request.kind, truncates=self._truncates) if self._filters else None,
            _find_program(request.argv[0]),
            request.argv,
            self._environment(build),
            # Another command would run its program in the zygote itself. Without a filter, programs could reach it.
            reads_few and self._filters and request.argv[1:] == _FORKS,
        )

    def counts_threads(self, kind: int) -> bool:
        """True if a program's threads must be watched, as the kernel counts them together with those of others."""
        return self.uids is None and kind != KIND_BUILD

    def _reads_few(self, program: bytes) -> bool:
        """True for the interpreter and programs of the box; other programs may read as much as a build."""
        real = os.path.realpath(os.fsdecode(program))
        return real.startswith(f"{self._real_box}/") or real in self._programs

    def _ruleset(self, build: bool) -> int | None:
        """Return the Landlock ruleset of a build, which is new, or of a program that may read as much."""
        if build and self._landlocks:
            return landlock.ruleset([*self._rules(), (os.path.join(self.box, "build"), landlock.ALL)])
        return self._run_ruleset

    def _limits(self, request: RunRequest, build: bool) -> tuple[tuple[int, int], ...]:
        limits = {
            resource.RLIMIT_CPU: math.ceil(request.cpu_ms / 1000) + 1,  # the runner cuts first; each process of a build
            resource.RLIMIT_FSIZE: request.output_bytes + 1,  # so that exactly the limit is still allowed
            resource.RLIMIT_CORE: 1,  # 0 would still start a crash handler that reads from a pipe
            resource.RLIMIT_NOFILE: 256 if build else 64,
            resource.RLIMIT_MEMLOCK: 0,
            resource.RLIMIT_MSGQUEUE: 0,
            resource.RLIMIT_SIGPENDING: 1024,
            resource.RLIMIT_STACK: _BUILD_STACK if build else _UNLIMITED,
        }
        if build and request.processes:
            limits[resource.RLIMIT_NPROC] = request.processes + (0 if self.uids else _own_tasks() + _OTHERS)
        elif self.uids:
            limits[resource.RLIMIT_NPROC] = THREADS
        return tuple((number, _clamp(number, most)) for number, most in limits.items())

    def _rules(self) -> list[tuple[str, int]]:
        """Return the Landlock rules of programs: in the mode of that name, the paths that the jail shows.

        In other modes the jail itself hides the machine, so the rules allow all of it except /proc, /sys and most of
        /etc. A program could write to its own files in /proc (its peak memory would be forgotten), and would find paths
        of the host; an engine puts files of the host into /etc.
        """
        if self.mode == "landlock":
            rules = [(path, landlock.READ) for path in (*self._read, self.box)]
        else:
            shown = [f"/{name}" for name in os.listdir("/") if name not in ("proc", "sys", "etc")]
            rules = [(path, landlock.READ) for path in (*shown, *ETC)]
            rules.append(("/", landlock.LIST))
        return rules + self._common_rules()

    def _common_rules(self, root: str = "") -> list[tuple[str, int]]:
        listed = [(path, landlock.LIST) for path in self._listed]
        return [*listed, (root + ZEROS, landlock.READ), *((root + path, landlock.DEVICE) for path in DEVICES)]

    def _environment(self, build: bool) -> tuple[bytes, ...]:
        words = [f"PATH={PATH}", f"HOME={self.box}", "LANG=C.UTF-8", "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1"]
        # glibc gives each thread that overlaps another 64 MiB of address space, which the memory limit counts.
        words.append("MALLOC_ARENA_MAX=1")
        if build:
            # Compilers repeat both in their messages: the folder is relative, as the box has another name each time.
            words += ["TMPDIR=build", "SOURCE_DATE_EPOCH=0"]
        return tuple(os.fsencode(word) for word in words)


def _check(mode: str, uids: tuple[int, int] | None) -> None:
    root = os.geteuid() == 0
    if mode not in MODES:
        raise ValueError(f"--isolation: found {mode!r}, wanted one of {', '.join(MODES)}")
    if uids is None and (mode == "uid" or (mode == "landlock" and root)):
        raise ValueError(f"--isolation {mode}: found no --uids, wanted FIRST:LAST to drop to from root")
    if uids is not None and mode in ("namespace", "none"):
        raise ValueError(f"--isolation {mode}: found --uids, but this mode changes no uid")
    if uids is not None and not (root and 0 < uids[0] < uids[1] < 2**31):
        raise ValueError(f"--uids: found {uids} as uid {os.geteuid()}, wanted root and at least two uids from 1")


def _clamp(number: int, most: int) -> int:
    """Return a limit, lowered to our own hard limit if that is lower."""
    hard = resource.getrlimit(number)[1]
    if hard == _UNLIMITED:
        return most
    return hard if most == _UNLIMITED else min(most, hard)


def _find_program(program: bytes) -> bytes:
    """Return the path of a program, looked up in `PATH` if it has no slash."""
    places = [] if b"/" in program else [os.path.join(os.fsencode(folder), program) for folder in PATH.split(":")]
    return next((place for place in places if os.access(place, os.X_OK)), program)


def _own_tasks() -> int:
    """Count the threads of all processes of our uid, as the kernel does for RLIMIT_NPROC."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/status") as file:
            lines = dict(line.split(":", 1) for line in file)
            count += int(lines["Threads"]) if int(lines["Uid"].split()[0]) == os.getuid() else 0
    return count
