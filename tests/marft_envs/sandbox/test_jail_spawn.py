"""Both ways to start a program, by fork and by spawn.c, leave it in the same state; and neither costs much."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from marft_envs.sandbox.jail import spawn, wire
from marft_envs.sandbox.jail.syscalls import calls, syscall
from tests.marft_envs.sandbox.jail_client import CARRIERS, SYSTEM_PYTHON, JailClient, needs_root, run_request

PROBE = """
import ctypes, json, os, resource, signal, sys
libc = ctypes.CDLL(None)
limits = {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith('RLIMIT_')}
fds = [n for n in range(1024) if libc.fcntl(n, 1) >= 0]
status = {}
try:
    with open('/proc/self/status') as lines: status = dict(line.split(':', 1) for line in lines)
except OSError: pass
kept = 'NoNewPrivs Seccomp Seccomp_filters SigBlk SigIgn SigCgt SigPnd CapEff CapPrm CapInh CapAmb Groups'.split()
death = ctypes.c_int(); libc.prctl(2, ctypes.byref(death))
try: os.listdir('/'); root = True
except OSError: root = False
print(json.dumps({
    'limits': limits, 'fds': fds, 'status': {n: status[n].split() for n in kept if status},
    'uids': os.getresuid(), 'gids': os.getresgid(), 'groups': os.getgroups(),
    'session': os.getsid(0) == os.getpid(), 'group': os.getpgid(0) == os.getpid(),
    'environment': sorted(os.environ.items()), 'argv': sys.argv[1:], 'cwd': os.getcwd() if root else '',
    'blocked': sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), 'death signal': death.value,
    'no new privileges': libc.prctl(39, 0, 0, 0, 0), 'seccomp': libc.prctl(21, 0, 0, 0, 0),
    'dispositions': {int(n): str(signal.getsignal(n)) for n in signal.valid_signals()},
    'umask': os.umask(0), 'root': root,
    'stdin': os.read(0, 9).decode(), 'folder': os.listdir('.'),
}))
"""


def state(carrier: str, use_native: bool, kind: int) -> dict[str, object]:
    with JailClient(carrier, native=use_native) as jail:
        assert jail.hello() == (wire.VERSION, int(use_native))
        jail.put("probe.py", PROBE.encode())
        words = (SYSTEM_PYTHON, "-I", "-S", "probe.py", "one", "zwei ä", "")
        result = jail.run(*words, kind=kind, stdin=b"input", processes=40)
        assert result.exit_status == 0, result.stderr
        text = result.stdout.decode().replace(str(jail.folder), "FOLDER")
    return json.loads(text)


@pytest.mark.parametrize("kind", [wire.KIND_RUN, wire.KIND_BUILD], ids=["run", "build"])
@pytest.mark.parametrize("carrier", [*CARRIERS, "none"])
def test_both_ways_leave_the_same_state(carrier, kind):
    forked, by_c = state(carrier, False, kind), state(carrier, True, kind)
    if carrier in ("landlock-same-uid", "none") and kind == wire.KIND_BUILD:
        for found in (forked, by_c):  # on top of what this user runs at the moment
            assert found["limits"].pop("RLIMIT_NPROC")[0] > 40
    assert forked == by_c
    assert forked["fds"] == [0, 1, 2]
    assert forked["blocked"] == []
    assert forked["death signal"] == 9
    assert (forked["no new privileges"], forked["seccomp"]) == (1, 2)
    assert (forked["session"], forked["group"]) == (True, True)
    assert forked["umask"] == 0o022
    assert forked["argv"] == ["one", "zwei ä", ""]
    assert forked["root"] == ("landlock" not in carrier)
    ignored = {number for number, what in forked["dispositions"].items() if what == "1" or "IGN" in what}
    assert ignored <= {"13", "25"}  # the interpreter's own doing: SIGPIPE, SIGXFSZ


@contextlib.contextmanager
def ignored_by_all_children(number: int) -> Iterator[None]:
    """Ignore a signal, also one of libc's own, as a parent does that was started by posix_spawn."""
    action, before = calls(os.uname().machine).run["rt_sigaction"], ctypes.create_string_buffer(32)
    syscall(action, number, struct.pack("<4Q", signal.SIG_IGN, 0, 0, 0), ctypes.addressof(before), 8)
    try:
        yield
    finally:
        syscall(action, number, before.raw, None, 8)


@pytest.mark.parametrize("number", [2, 32, 33, 64])
def test_a_signal_that_our_parent_ignores_ends_a_program(number):
    kill = calls(os.uname().machine).checked["kill"]
    code = f"import ctypes, os\nctypes.CDLL(None).syscall({kill}, os.getpid(), {number})"
    with ignored_by_all_children(number), JailClient("none") as jail:
        jail.hello()
        assert jail.python(code).exit_status == -number


@pytest.mark.parametrize("use_native", [False, True], ids=["forked", "native"])
@pytest.mark.parametrize("carrier", ["landlock", "uid"])
@needs_root
def test_where_memory_runs_out_the_program_goes_first(carrier, use_native):
    with JailClient(carrier, native=use_native) as jail:
        jail.put("main.py", b"import os, time\nwhile not os.path.exists('seen'): time.sleep(0.01)")
        asked = wire.pack_run(run_request(SYSTEM_PYTHON, "-I", "-S", "main.py"))
        nonce = jail.send(wire.RUN, asked)
        runner, scores, until = jail.process.pid, [], time.monotonic() + 20
        while scores != [900 if carrier == "landlock" else 0, 1000] and time.monotonic() < until:
            with contextlib.suppress(FileNotFoundError):  # a process that was listed has ended
                below = Path(f"/proc/{runner}/task/{runner}/children").read_text().split()
                scores = [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in (runner, *below)]
        (jail.box / "seen").touch()
        jail.receive(wire.RUN, nonce)
    assert scores == [900 if carrier == "landlock" else 0, 1000]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_both_ways_say_why_a_program_was_not_started(carrier):
    for use_native in (False, True):
        with JailClient(carrier, native=use_native) as jail:
            assert jail.put("text", b"no program", 0o555) == b"\0"
            assert jail.put("closed", b"#!/bin/sh\n", 0o444) == b"\0"
            for name, why in (
                ("text", b"Exec format error"),
                ("closed", b"Permission denied"),
                ("none", b"No such file"),
            ):
                result = jail.run(jail.box / name)
                assert (result.status, result.exit_status) == (wire.RAN, 127)
                assert b"execute: " in result.stderr
                assert why in result.stderr
            assert jail.run("/bin/no-such-interpreter").status == wire.NOT_STARTED  # ours, not the program's
            assert jail.put("busy", b"#!/bin/sh\n", 0o555) == b"\0"
            with open(jail.box / "busy", "ab"):
                assert jail.run(jail.box / "busy").status == wire.NOT_STARTED  # nor is what somebody else holds open
            assert jail.python("print(1)").stdout == b"1\n"


@pytest.mark.parametrize("carrier", CARRIERS)
def test_the_compiled_way_holds_against_the_same_attacks(carrier):
    with JailClient(carrier, native=True) as jail:
        assert b"REACHED" not in jail.python("import os\nos.fork()\nprint('REACHED')").stdout
        assert b"REACHED" not in jail.python("import os\nos.kill(os.getppid(), 0)\nprint('REACHED')").stdout
        assert jail.python("import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)").exit_status == -31
        assert jail.python("import os; os.kill(os.getpid(), 15)").exit_status == -15
        assert jail.python("while True: pass", cpu_ms=200).flags == wire.CPU_LIMIT
        for _ in range(50):
            assert jail.python("print(1)").stdout == b"1\n"


def test_a_library_of_another_version_is_not_used(tmp_path):
    (tmp_path / spawn.LIBRARY).write_bytes(b"no library")
    assert not spawn.load_spawner(str(tmp_path / spawn.LIBRARY)).native
    assert not spawn.load_spawner(str(tmp_path / "none.so")).native
