"""Resident runner: one process per jail that starts programs for the judge and reports their results.

    python3 -I -S -c "import sys; sys.path.insert(0, PARENT); from jail.runner import main; main()"
        --isolation uid|namespace|landlock|none --box DIR [--uids FIRST:LAST] [--read PATH ...] [--list DIR ...]
        [--runtime PATH ...] [--root DIR] [--native FILE]

Requests come on descriptor 0, answers go to 1 (see `wire`), messages for people go to 2. The runner trusts the host. It
trusts no program: it only copies their output. A malformed request ends the runner, and the judge takes a new jail.
Programs cannot reach it: it has another uid or is not dumpable, and they inherit no descriptor.
"""

import contextlib
import errno
import itertools
import os
import signal
import struct
import sys
import time

from . import landlock, wire
from .plan import Isolation, Plan
from .runtime_files import fill, find_runtime, put_library
from .spawn import LIBRARY, ForkSpawner, NativeSpawner, load_spawner
from .submission_folder import Box
from .syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_THP_DISABLE, calls, prctl, syscall
from .watch import ProgramExit, Watch, end_leftovers
from .wire import Frame, HostChannel, Slice, write_all
from .zygote import Zygote

_OPTIONS = ("--isolation", "--box", "--uids", "--read", "--list", "--runtime", "--root", "--native")
_NO_RUN = wire.RunRequest(wire.KIND_RUN, 0, 0, 0, 0, 0, 0, (), b"")
_DEFAULT_ACTION = bytes(32)  # struct sigaction of the kernel: SIG_DFL, no flags, no mask
_BUSY_TRIES = 100  # every 2 ms: a fork elsewhere may hold a program open for an instant that was just written
_ZYGOTES = 3  # that may fail in a jail, until it does without
PIDS_PER_SUBMISSION = 256  # process ids of its tests and their threads


class PidLeveller:
    """Counter of process ids, levelled between submissions to close it as a covert channel.

    The next id tells how many processes and threads there were before. After each submission the counter is advanced to
    the same distance, so it tells how many submissions there were, and nothing about them.

    Args:
        spawner: Spawner that uses up the next id.
    """

    def __init__(self, spawner: ForkSpawner) -> None:
        self._spawner = spawner
        self._start = spawner.take_pid()

    def level(self) -> None:
        """Advance the counter to the start of the next submission.

        Raises:
            OSError: A submission used more ids, or the counter has wrapped around: this jail cannot be used again.
        """
        goal = self._start + PIDS_PER_SUBMISSION
        pid = self._spawner.take_pid()
        while self._start < pid < goal:
            pid = self._spawner.take_pid()
        if pid != goal:
            raise OSError(f"process ids: found {pid}, wanted {goal} at the most: another jail is needed")
        self._start = goal


class Runner:
    """Server of the host's requests, one after the other.

    Args:
        channel: Connection to the host.
        isolation: Isolation mode of this jail.
        box: Folder with the files of the submission.
        spawner: Spawner that starts programs.
    """

    def __init__(self, channel: HostChannel, isolation: Isolation, box: Box, spawner: ForkSpawner) -> None:
        self._channel, self._isolation, self._box, self._spawner = channel, isolation, box, spawner
        self._watch = Watch(channel.source, channel.flush, container=isolation.mode == "uid")
        # Request and plan of the last program: the tests of a submission differ only in their input.
        self._head, self._last = b"", _NO_RUN
        self._plan: Plan | None = None
        self._zygote: Zygote | None = None
        self._zygotes_left = _ZYGOTES
        # In other modes the ids are the whole machine's, or the jail lives for one submission.
        self._pids = PidLeveller(spawner) if isolation.mode == "uid" and os.getpid() == 1 else None
        self._answers = {
            wire.HELLO: self._hello,
            wire.PUT: self._put,
            wire.FETCH: self._fetch,
            wire.RUN: self._run,
            wire.RESET: self._reset,
        }

    def serve(self) -> None:
        """Answer requests until the host closes its end.

        Raises:
            WireError: A request is malformed.
            OSError: This jail cannot go on.
        """
        try:
            while (request := self._channel.receive()) is not None:
                self._answers[request.op](request)
        finally:
            self._end_zygote()
            end_leftovers(self._isolation)

    def _hello(self, request: Frame) -> None:
        (version,) = struct.unpack("<I", request.head)
        if version != wire.VERSION:
            raise wire.WireError(f"the host speaks version {version}, the runner {wire.VERSION}: install both anew")
        self._channel.answer(request, struct.pack("<II", wire.VERSION, int(self._spawner.native)))

    def _put(self, request: Frame) -> None:
        name, content, mode = wire.unpack_put(request.head)
        pieces = itertools.chain([content], self._channel.rest())
        try:
            self._box.put(name, pieces, mode)
        except OSError as error:
            for _ in pieces:
                pass
            self._refuse(request, error)
        else:
            self._channel.answer(request, bytes([wire.OK]))

    def _fetch(self, request: Frame) -> None:
        (length,) = struct.unpack_from("<H", request.head)
        try:
            content = self._box.fetch(request.head[2 : 2 + length])
        except OSError as error:
            self._refuse(request, error)
        else:
            with contextlib.closing(content):
                self._channel.answer(request, bytes([wire.OK]), content.slice)

    def _reset(self, request: Frame) -> None:
        self._end_zygote()
        end_leftovers(self._isolation)
        self._isolation.next_submission()
        self._plan = None
        try:
            if self._pids:
                self._pids.level()
            if self._isolation.mode != "namespace":  # there it is bound read-only, and the jail ends with it
                self._box.empty()
        except OSError as error:
            self._refuse(request, error)
        else:
            self._channel.answer(request, bytes([wire.OK]))

    def _refuse(self, request: Frame, error: OSError) -> None:
        self._channel.answer(request, bytes([wire.FAILED]) + str(error)[:1000].encode(errors="replace"))

    def _run(self, request: Frame) -> None:
        run, start_of_input = self._read(request.head)
        stdio = []
        try:
            for name in ("stdin", "stdout", "stderr"):
                stdio.append(os.memfd_create(name))
            stdin, stdout, stderr = stdio
            for piece in itertools.chain([start_of_input], self._channel.rest()):
                write_all(stdin, piece)
            os.lseek(stdin, 0, os.SEEK_SET)
            ended, failure = self._execute(run, (stdin, stdout, stderr))
            if failure and not self._is_the_programs_own(run, failure):
                reason = failure[: run.stderr_bytes]
                result = wire.RunResult(wire.NOT_STARTED, 0, 0, 0, 0, 0, 0, b"", reason)
                self._channel.answer(request, wire.pack_result(result))
            else:
                if failure:
                    os.write(stderr, failure)  # its exit status is 127, as in a shell
                self._report(request, run, ended, stdout, stderr)
        finally:
            for descriptor in stdio:
                os.close(descriptor)

    def _read(self, head: bytes) -> tuple[wire.RunRequest, bytes]:
        """Split a payload into the run request without its input, and the start of the input."""
        # The start of a payload holds its own length, so equal starts are equal requests.
        if not self._head or not head.startswith(self._head):
            run = wire.unpack_run(head)
            _check(run)
            self._head, self._last, self._plan = head[: len(head) - len(run.stdin)], run._replace(stdin=b""), None
        return self._last, head[len(self._head) :]

    def _is_the_programs_own(self, run: wire.RunRequest, failure: bytes) -> bool:
        """True if the program that cannot be executed was built from the submission (a bad header, too large)."""
        ours = any(os.strerror(code).encode() in failure for code in (errno.ETXTBSY, errno.EAGAIN, errno.ENFILE))
        box = os.fsencode(self._isolation.box) + b"/"
        return not ours and run.argv[0].startswith(box) and b": execute: " in failure

    def _execute(self, run: wire.RunRequest, stdio: tuple[int, int, int]) -> tuple[ProgramExit, bytes]:
        """Run a program; return its end, and the reason if it could not be started."""
        build = run.kind == wire.KIND_BUILD
        if build:
            self._end_zygote()
            self._box.open_for_build()
        # A huge page stays whole while a byte of it is mapped, so most of it would count against no limit.
        with contextlib.suppress(OSError):  # a kernel that has none
            prctl(PR_SET_THP_DISABLE, int(not build))
        plan = self._planned(run, stdio)
        try:
            for _ in range(_BUSY_TRIES):
                spawner, pid = self._start(plan)
                start = time.monotonic()  # after that of a zygote, which is not the program's time
                count = self._isolation.counts_threads(run.kind)
                memory_kb = 0 if build else run.memory_kb
                ended = self._watch.over(pid, run.cpu_ms / 1000, run.wall_ms / 1000, start, count, memory_kb)
                if end_leftovers(self._isolation, self._zygote.pid if self._zygote else 0) and not ended.flags:
                    ended = ended._replace(flags=wire.LEFTOVERS)
                code, text = spawner.failure()
                if code and spawner is self._zygote:
                    self._give_up_zygote()
                elif code != errno.ETXTBSY:
                    break
                else:
                    time.sleep(0.002)
        finally:
            if build:
                self._box.close_for_build()
                if plan.ruleset is not None:
                    os.close(plan.ruleset)
        return ended, f"{plan.path.decode(errors='replace')}: {text}".encode() if code else b""

    def _start(self, plan: Plan) -> tuple[ForkSpawner, int]:
        """Start a program, as a fork of the zygote if it can; return its spawner and process id."""
        if plan.forks and self._zygotes_left and isinstance(self._spawner, NativeSpawner):
            if self._zygote and not self._zygote.fits(plan):
                self._end_zygote()
            try:
                self._zygote = self._zygote or Zygote(plan, self._spawner)
                return self._zygote, self._zygote.start(plan)
            except OSError:
                self._give_up_zygote()
        return self._spawner, self._spawner.start(plan)

    def _give_up_zygote(self) -> None:
        """End a zygote that has failed, and what it may have started."""
        self._zygotes_left -= 1
        self._end_zygote()
        end_leftovers(self._isolation)

    def _end_zygote(self) -> None:
        if self._zygote:
            self._zygote.close()
        self._zygote = None

    def _planned(self, run: wire.RunRequest, stdio: tuple[int, int, int]) -> Plan:
        """Return the plan of a program: the last one if it fits. Each build gets a new one, for its process limit."""
        if self._plan is None or self._plan.stdio != stdio or run.kind == wire.KIND_BUILD:
            self._plan = self._isolation.plan(run, self._box.descriptor, stdio)
        return self._plan

    def _report(self, request: Frame, run: wire.RunRequest, ended: ProgramExit, stdout: int, stderr: int) -> None:
        written, said = (os.lseek(file, 0, os.SEEK_END) for file in (stdout, stderr))
        flags = ended.flags
        if ended.status == -signal.SIGXFSZ or max(written, said) > run.output_bytes:
            flags |= wire.OUTPUT_LIMIT
        kept, tail = min(written, run.output_bytes), min(said, run.stderr_bytes)
        figures = (ended.cpu_us, ended.wall_us, ended.peak_kb, written)
        result = wire.RunResult(wire.RAN, flags, ended.status, *figures, b"", b"")
        slices = Slice(stdout, 0, kept), Slice(stderr, said - tail, tail)
        self._channel.answer(request, wire.pack_result_head(result, kept), *slices)


def _check(run: wire.RunRequest) -> None:
    if not run.argv or any(b"\0" in word for word in run.argv):
        raise wire.WireError(f"found the arguments {run.argv!r}, wanted a program, and no NUL")
    if run.kind not in (wire.KIND_RUN, wire.KIND_BUILD) or not (run.cpu_ms and run.wall_ms):
        raise wire.WireError(f"found kind {run.kind}, {run.cpu_ms} and {run.wall_ms} ms, wanted limits above 0")


def _harden(mode: str) -> None:
    """Make this process unreachable for programs."""
    # Where memory runs out, the kernel ends programs first (see spawn.py), then us, before the user's own work. But not
    # where a program could lower its own score again: the kernel would end us then. In a container it is its memory.
    if mode == "landlock" or (mode == "namespace" and landlock.abi() > 0):
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("900")
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.umask(0o022)
    # Signals that are ignored here would be ignored in programs. Those of libc itself, 32 and 33, take a system call;
    # whoever starts us by posix_spawn, as make does, leaves them ignored.
    with contextlib.suppress(OSError):  # a machine without a system call table
        action = calls(os.uname().machine).run["rt_sigaction"]
        for number in range(1, signal.NSIG):
            with contextlib.suppress(OSError):  # SIGKILL, SIGSTOP
                syscall(action, number, _DEFAULT_ACTION, None, 8)
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD})


def _open_channel() -> HostChannel:
    """Move the pipes away from 0 and 1, so that nothing else can write there, and close all other descriptors."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    ends = tuple(os.dup(number) for number in (0, 1))
    for number in (0, 1):
        os.dup2(nothing, number)
    os.close(nothing)
    for end in ends:
        os.set_inheritable(end, False)
    return HostChannel(*ends)


def _make_runner(words: list[str]) -> Runner:
    pairs = list(zip(words[::2], words[1::2], strict=False))
    given = dict(pairs)
    if len(words) % 2 or not {"--isolation", "--box"} <= given.keys() <= set(_OPTIONS):
        raise ValueError(
            f"found {words}, wanted --isolation MODE --box DIR [--uids FIRST:LAST] [--read PATH ...] [--list DIR ...] "
            "[--runtime PATH ...] [--root DIR]"
        )
    uids = tuple(int(word) for word in given["--uids"].split(":")) if "--uids" in given else None
    if uids is not None and len(uids) != 2:
        raise ValueError(f"--uids: found {given['--uids']}, wanted FIRST:LAST")
    read, listed, runtime = (
        tuple(value for name, value in pairs if name == wanted) for wanted in ("--read", "--list", "--runtime")
    )
    mode, box, root = given["--isolation"], given["--box"], given.get("--root")
    real_box = os.path.realpath(box)  # the folder in which programs start: outside of their root it would lead out
    if root and not real_box.startswith(f"{root}/"):
        raise ValueError(f"--box: found {box}, wanted a folder in the root {root} of programs")
    channel = _open_channel()
    _harden(mode)
    if root and mode == "uid":  # elsewhere it is shared and the host has filled it
        _fill(root)
    isolation = Isolation(mode, box, uids, read, listed, runtime, root)
    return Runner(channel, isolation, Box(real_box, uids[0] if uids else None), load_spawner(given.get("--native")))


def _fill(root: str) -> None:
    """Fill the root of programs in a child: the kernel counts what we ever held to the peak of later programs."""
    pid = os.fork()
    if not pid:
        try:
            fill(root, find_runtime())
            put_library(root, os.path.join(os.path.dirname(__file__), LIBRARY))
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"runner: {root}: {error}\n")
            sys.stderr.flush()
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        raise OSError(f"the root {root} of programs could not be filled")


def main() -> None:
    """Serve until the host closes its end; on an error print a line to standard error and exit with status 2."""
    try:
        _make_runner(sys.argv[1:]).serve()
    except (OSError, ValueError, struct.error) as error:
        sys.stderr.write(f"runner: {type(error).__name__}: {error}"[:2000] + "\n")
        sys.exit(2)
