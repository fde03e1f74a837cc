"""A Python test that is a fork of a zygote sees and does what it does in an interpreter that was started for it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from marft_envs.sandbox import Test
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.languages import LANGUAGES
from tests.marft_envs.sandbox.jail_client import CARRIERS, SYSTEM_PYTHON, JailClient, needs_root

PYTHON = LANGUAGES["python"]
COMMAND = [os.fsdecode(word) for word in PYTHON.command(PYTHON.run, {"python": os.path.realpath(SYSTEM_PYTHON)})]
ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")


@pytest.fixture(scope="module", params=[*CARRIERS, "none"])
def jails(request) -> Iterator[tuple[JailClient, JailClient]]:
    """A runner without the library, which executes each test, and one that has it."""
    with JailClient(request.param) as executing, JailClient(request.param, native=True) as forking:
        assert (executing.hello()[1], forking.hello()[1]) == (0, 1)
        yield executing, forking


@pytest.fixture
def jail(jails) -> JailClient:
    jails[1].reset()
    return jails[1]


@cache
def built(program: str) -> bytes:
    """Return what the build of a program leaves; the interpreter of the tests may have another byte code."""
    code = f"import marshal, sys; sys.stdout.buffer.write(marshal.dumps(compile({program!r}, 'main.py', 'exec')))"
    return subprocess.run([SYSTEM_PYTHON, "-I", "-S", "-c", code], capture_output=True, check=True).stdout


def put(jail: JailClient, program: str) -> None:
    assert jail.put("main.bin", built(program)) == b"\0"


def run(jail: JailClient, program: str, stdin: bytes = b"", **limits: int) -> wire.RunResult:
    put(jail, program)
    return jail.run(*COMMAND, stdin=stdin, **limits)


def zygotes(jail: JailClient) -> list[int]:
    """Return the children of the runner between two tests."""
    pid = jail.process.pid
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


SEEN = {
    "main": "print({name: value for name, value in globals().items()})",
    "modules": "import sys; print(list(sys.modules))",
    "builtins": "import builtins; print(sorted(vars(builtins)), exit, quit)",
    "arguments": "import sys; print(sys.argv, sys.orig_argv, sys.executable, sys.flags, sys.path, sys.prefix)",
    "path caches": "import sys; print(list(sys.path_importer_cache), sys.meta_path, len(sys.path_hooks))",
    "whole of sys": """
import sys
def show(x): return x if isinstance(x, (str, int, float, bytes, tuple, list, type(None))) else type(x).__name__
print({name: show(value) for name, value in vars(sys).items()})
""",
    "streams": """
import sys
for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__):
    print(stream.name, stream.mode, stream.encoding, stream.errors, stream.newlines, stream.line_buffering,
        stream.write_through, stream.isatty(), stream.fileno(), stream.seekable(), stream.buffer, stream.buffer.raw,
        stream.buffer.raw._blksize)
""",
    "frames": """
import sys
frame = sys._getframe()
while frame:
    code = frame.f_code
    print(code.co_name, code.co_filename, frame.f_lineno, code.co_names, len(code.co_code), list(frame.f_locals))
    frame = frame.f_back
""",
    "hashes and sets": "import sys; print(hash('a'), hash(b'b'), list({'x', 'y', 'z', 'word'}), sys.hash_info)",
    "classes": "print([c.__module__ + c.__qualname__ for c in object.__subclasses__()])",
    "collector": "import gc; print(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.garbage)",
    "references": "import gc; print([type(x).__name__ for x in gc.get_objects() if 'zygote' in repr(x)[:2000]])",
    "environment": "import os; print(os.environ, os.getcwd() == os.environ['HOME'] or os.listdir('.'))",
    "recursion": """
import sys
print(sys.getrecursionlimit())
def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
print(depth(900))
try: depth(1000)
except RecursionError as error: print(error)
sys.setrecursionlimit(200_000)
print(depth(150_000))
""",
    "depth of C": """
import sys
sys.setrecursionlimit(10**6)
x = []
for _ in range(20_000): x = [x]
print(len(repr(x)))
""",
    "signals": """
import signal
print([(number, signal.getsignal(number)) for number in signal.valid_signals()])
print(signal.pthread_sigmask(0, []), signal.sigpending(), signal.set_wakeup_fd(-1))
""",
    "timers": "import signal; print([signal.getitimer(n) for n in (0, 1, 2)])",
    "limits": "import resource as r; print([(n, r.getrlimit(getattr(r, n))) for n in dir(r) if n[:4] == 'RLIM'][1:])",
    "process": """
import ctypes, os
libc = ctypes.CDLL(None)
death = ctypes.c_int(); libc.prctl(2, ctypes.byref(death))
gets = [libc.prctl(number, 0, 0, 0, 0) for number in (3, 21, 23, 30, 39, 42)]
fds = [n for n in range(1024) if libc.fcntl(n, 1) >= 0]
print(os.getsid(0) == os.getpid() == os.getpgid(0), os.getresuid(), os.getresgid(), os.getgroups(), os.umask(0o22),
    death.value, gets, fds, [libc.fcntl(n, 3) for n in fds], [libc.fcntl(n, 1) for n in fds])
""",
    "status": """
try:
    with open('/proc/self/status') as lines: status = dict(line.split(':', 1) for line in lines)
except OSError: status = {}
kept = 'Name State Uid Gid Groups Threads SigQ SigPnd ShdPnd SigBlk SigIgn SigCgt CapInh CapPrm CapEff CapBnd CapAmb'
kept += ' NoNewPrivs Seccomp Seccomp_filters THP_enabled CoreDumping'
print([(name, status[name].split()) for name in kept.split() if name in status and name != 'SigQ'])
""",
    "mutexes of glibc": """
import ctypes, threading
libc = ctypes.CDLL(None)
libc.pthread_self.restype = ctypes.c_ulong
own = libc.pthread_self()
tid = threading.get_native_id()
print([place for place in range(0, 1024, 4) if ctypes.c_int.from_address(own + place).value == tid])
attribute, mutex = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
libc.pthread_mutexattr_init(attribute); libc.pthread_mutexattr_settype(attribute, 2)
libc.pthread_mutex_init(mutex, attribute)
print(libc.pthread_mutex_lock(mutex), libc.pthread_mutex_lock(mutex), libc.pthread_mutex_unlock(mutex))
""",
    "threads": """
import os, threading
got = []
threads = [threading.Thread(target=got.append, args=(n,)) for n in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(got), threading.main_thread().native_id == os.getpid(), threading.active_count())
""",
    "imports": "import json, random, decimal, re; print(json.dumps({'a': [1]}), random.Random(1).random())",
    "imports of a name that is not there": "import main",
    "clocks": "import time; print(time.process_time() < 0.5, time.thread_time() < 0.5, time.perf_counter() > 0)",
    "input": "import sys; print(input(), sys.stdin.readline(), sys.stdin.read(), sys.stdin.tell())",
    "input as bytes": "import os, sys; print(os.read(0, 3), os.lseek(0, 0, 1), sys.stdin.buffer.read())",
    "output without an end": "import sys; sys.stdout.write('no end'); sys.stderr.write('also')",
    "output that mixes": "import os; print('one'); os.write(1, b'two'); print('three')",
    "output to a file": "open(1, 'w', closefd=False).write('x'); print('y', file=open(2, 'w', closefd=False))",
    "closed output": "import sys; print('x'); sys.stdout.close()",
    "detached output": "import sys; sys.stdout.buffer.write(b'x'); sys.stdout.detach()",
    "all went": "import atexit; atexit.register(print, 'at the end'); print('before')",
    "at exit fails": "import atexit; atexit.register(lambda: 1 / 0)",
    "finalisers": "class A:\n    def __del__(self): print('gone')\na = A(); b = [a]; b.append(b)",
    "uncaught": "def f(): raise ValueError('x')\nprint('before')\nf()",
    "uncaught in a chain": "try: 1 / 0\nexcept Exception as e: raise KeyError('y') from e",
    "uncaught with all lines": """
import traceback
try: 1 / 0
except Exception: traceback.print_exc(); traceback.print_stack()
""",
    "own hook": "import sys; sys.excepthook = lambda *found: print(found[:2], found[2].tb_lineno); 1 / 0",
    "exit": "exit(3)",
    "sys.exit": "import sys; print('x'); sys.exit(7)",
    "sys.exit with words": "import sys; sys.exit('words')",
    "os._exit": "import os; print('lost'); os._exit(5)",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted by itself": "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('after')",
    "abort": "import os; os.abort()",
    "fault": "import ctypes; ctypes.string_at(0)",
    "no fork": "import os; os.fork()",
    "no signal to others": "import os; os.kill(os.getppid(), 0)",
    "forbidden call": "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0); print('allowed')",
    "memory": "x = bytearray(1 << 30)",
    "thread at the end": """
import threading, time
threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()
""",
}


@pytest.mark.parametrize("what", SEEN)
def test_a_fork_sees_and_does_what_a_new_interpreter_does(jails, what):
    executing, forking = jails
    options = {"stdin": b"first\nsecond\nthird", "memory_kb": 256 << 10}
    executed, *forked = [run(each, SEEN[what], **options) for each in (executing, forking, forking)]
    assert len(zygotes(forking)) == 1
    assert zygotes(executing) == []
    assert executed.stdout or executed.stderr or executed.exit_status, "the program shows nothing to compare"
    for result in forked:
        assert shown(result, forking) == shown(executed, executing)
    assert executing.reset() == forking.reset() == b"\0"  # so that both have the same user id again
    assert zygotes(forking) == []


def shown(result: wire.RunResult, jail: JailClient) -> tuple[object, ...]:
    texts = (text.replace(os.fsencode(jail.folder), b"FOLDER") for text in (result.stdout, result.stderr))
    return result.status, result.flags, result.exit_status, *(ADDRESS.sub(b"ADDRESS", text) for text in texts)


def test_each_fork_has_its_own_random_numbers(jail):
    program = "import os, random, uuid; print(random.random(), uuid.uuid4(), os.urandom(9))"
    assert len({run(jail, program).stdout for _ in range(5)}) == 5


def test_a_fork_changes_nothing_for_the_next_one(jail):
    program = """
import builtins, decimal, gc, os, resource, signal, sys
print(hasattr(builtins, "left"), "decimal" in sys.modules.pop("left", {}), gc.isenabled(), sys.getrecursionlimit(),
    signal.getsignal(signal.SIGTERM), resource.getrlimit(resource.RLIMIT_NOFILE), os.umask(0o77), os.getcwd() and 1)
builtins.left = builtins.print = None
sys.modules["left"] = sys.modules
sys.setrecursionlimit(77)
gc.disable()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_REAL, 100)
resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))
sys.stdout.flush()
os.close(0); os.close(1); os.close(2)
"""
    results = [run(jail, program) for _ in range(3)]
    assert len(zygotes(jail)) == 1
    assert results[0].stdout
    assert len({result.stdout for result in results}) == 1


def test_limits_are_those_of_each_test(jail):
    burn = "import time\nwhile time.process_time() < 0.15: pass\nprint(1)"
    for _ in range(4):  # more than the limit together
        result = run(jail, burn, cpu_ms=400)
        assert (result.stdout, result.flags) == (b"1\n", 0)
        assert 0.15e6 <= result.cpu_us < 0.4e6
    (zygote,) = zygotes(jail)
    result = run(jail, "while True: pass", cpu_ms=100)
    assert result.flags == wire.CPU_LIMIT
    result = run(jail, "import time; time.sleep(9)", wall_ms=300)
    assert result.flags == wire.WALL_LIMIT
    held = "x = b'x' * (50 << 20)\nprint(len(x))"
    assert run(jail, held, memory_kb=128 << 10).stdout == b"%d\n" % (50 << 20)
    assert b"MemoryError" in run(jail, held, memory_kb=48 << 10).stderr
    result = run(jail, held, memory_kb=128 << 10)
    assert 50 << 10 < result.peak_kb < 80 << 10
    assert run(jail, "print(1)", memory_kb=128 << 10).peak_kb < 20 << 10
    assert run(jail, "print('x' * 2000)", output_bytes=1000).flags == wire.OUTPUT_LIMIT
    assert zygotes(jail) == [zygote]


def test_the_start_of_the_interpreter_is_not_charged(jails):
    executing, forking = jails
    seconds = [min(run(each, "pass").cpu_us for _ in range(8)) for each in (executing, forking)]
    assert seconds[1] < 0.8 * seconds[0]


def test_a_zygote_serves_one_submission(jail):
    run(jail, "print(1)")
    (first,) = zygotes(jail)
    assert run(jail, "print(2)").stdout == b"2\n"
    assert zygotes(jail) == [first]
    jail.reset()
    assert zygotes(jail) == []
    assert run(jail, "print(3)").stdout == b"3\n"
    assert zygotes(jail) != [first]
    assert jail.build("/bin/sh", "-c", "exit 4").exit_status == 4
    assert zygotes(jail) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)])
def test_without_a_zygote_the_interpreter_is_executed(number):
    """One that was killed answers at once, one that hangs never; three of them, and the runner tries no more."""
    with JailClient("none", native=True) as jail:
        jail.hello()
        for turn in range(3 if number == signal.SIGKILL else 1):
            assert run(jail, "print(input())", stdin=b"before").stdout == b"before\n"
            (zygote,) = zygotes(jail)
            os.kill(zygote, number)
            assert run(jail, "print(input())", stdin=b"%d" % turn).stdout == b"%d\n" % turn
            assert zygotes(jail) == []
        result = run(jail, "import sys; print(input()); sys.exit(3)", stdin=b"after")
        assert (result.stdout, result.exit_status, result.flags) == (b"after\n", 3, 0)
        assert len(zygotes(jail)) == (number == signal.SIGSTOP)


def test_a_library_that_the_interpreter_cannot_load_is_no_failure():
    with JailClient("none", native=True) as jail:
        jail.hello()
        (jail.folder / "jail" / "libspawn.so").unlink()
        for _ in range(5):
            assert run(jail, "print(input())", stdin=b"x").stdout == b"x\n"
            assert zygotes(jail) == []


def test_an_interpreter_that_does_not_stop_never_gets_to_the_program(tmp_path):
    """The zygote itself stays outside of the box, whatever the library does."""
    (tmp_path / "main.bin").write_bytes(built("print('reached')"))
    (tmp_path / "none.c").write_text("void *PyInit_zygote(void) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "none.so", "none.c"], cwd=tmp_path, check=True)
    words = [*COMMAND, str(tmp_path / "none.so")]
    for folder, output in ((tmp_path, b"reached\n"), (Path("/"), b"")):
        found = subprocess.run(words, cwd=folder, capture_output=True, check=False)
        assert found.stdout == output
    assert b"No such file" in found.stderr


def test_only_the_start_code_of_our_own_is_given_to_a_zygote(jail):
    for words in (["-c", "print(len(__import__('sys').argv))"], [*COMMAND[1:], "more"]):
        put(jail, "print(1)")
        jail.run(COMMAND[0], *words)
        assert zygotes(jail) == []


def test_a_zygote_is_reachable_for_nobody_but_root(jail):
    run(jail, "print(1)")
    (zygote,) = zygotes(jail)
    status = dict(line.split(":", 1) for line in Path(f"/proc/{zygote}/status").read_text().splitlines())
    runner = dict(line.split(":", 1) for line in Path(f"/proc/{jail.process.pid}/status").read_text().splitlines())
    assert status["Uid"] == runner["Uid"]
    assert os.stat(f"/proc/{zygote}/mem").st_uid == 0  # it is not dumpable
    assert os.getsid(zygote) == os.getpgid(zygote) == zygote
    assert sorted(os.listdir(f"/proc/{zygote}/fd")) == ["0", "1", "2", "3"]
    assert os.readlink(f"/proc/{zygote}/cwd") == "/"


@needs_root
def test_a_zygote_works_in_the_root_of_programs():
    with JailClient("uid", native=True, root=True) as jail:
        jail.hello()
        program = "import os; print(input(), os.getcwd(), os.listdir('.'), os.listdir('/marft'))"
        for word in (b"one", b"two"):
            result = run(jail, program, stdin=word)
            assert result.stdout == word + b" /box ['main.bin'] ['libspawn.so']\n", result
        (zygote,) = zygotes(jail)
        assert os.readlink(f"/proc/{zygote}/root") == str(jail.folder)
        assert f"{jail.folder}/usr" in Path(f"/proc/{zygote}/maps").read_text()  # it shares no page with the machine


def test_the_tests_of_a_submission_are_forks_on_each_backend(judge):
    """New interpreters have other addresses each time."""
    judgement = judge.run("print(id(print), id(lambda: 0))", tests=[Test(b"", b"-")] * 4)
    assert len({test.output for test in judgement.tests}) == 1


def test_a_zygote_ends_with_its_runner():
    with JailClient("none", native=True) as jail:
        jail.hello()
        run(jail, "print(1)")
        (zygote,) = zygotes(jail)
        jail.process.kill()
        jail.process.wait()
        deadline = time.monotonic() + 20
        while Path(f"/proc/{zygote}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not Path(f"/proc/{zygote}").exists()
