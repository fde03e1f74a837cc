"""The symbolic tier: answers from any thread, survives the loss of its processes, leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from marft_envs.grading import equivalent, grade_math, symbolic

INTEGRAL = r"\int_0^1 x\,dx"


def test_undecided_answers_reach_it():
    grade = grade_math(rf"\boxed{{{INTEGRAL}}}", r"\frac{1}{2}")
    assert (grade.correct, grade.method) == (True, "symbolic")
    assert not equivalent(INTEGRAL, r"\frac{1}{3}")


def test_without_it_undecided_is_not_correct():
    grade = grade_math(rf"\boxed{{{INTEGRAL}}}", r"\frac{1}{2}", use_symbolic=False)
    assert (grade.correct, grade.method) == (False, "undecided")


def test_without_math_verify_undecided_is_not_correct(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    assert not symbolic.available()
    grade = grade_math(r"\boxed{\int_0^3 x\,dx}", r"\frac{9}{2}")
    assert (grade.correct, grade.method) == (False, "undecided")
    assert "math-verify" in grade.reason
    monkeypatch.undo()
    assert grade_math(r"\boxed{\int_0^3 x\,dx}", r"\frac{9}{2}").correct  # what was unavailable is not cached


def test_threads_share_it():
    texts = [rf"\int_0^{n} x\,dx" for n in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: symbolic.decide(texts[n], rf"\frac{{{(n + 1) ** 2}}}{{2}}"), range(8)))
    assert found == ["equal"] * 8


def test_server_is_replaced_when_it_dies():
    symbolic.decide("x", "y")
    server = symbolic._owner.server
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    assert symbolic.decide(INTEGRAL, r"\frac12") == "equal"
    assert symbolic._owner.server is not server


def test_without_descriptors_nothing_is_decided_and_nothing_raised():
    symbolic.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 16, hard))  # a few free ones, taken next
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        assert symbolic.decide("x", "y") == "unavailable"
        for _ in range(5):  # enough for the sockets of a job, not for a process
            os.close(held.pop())
            assert symbolic.decide("x", "y") == "unavailable"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
    assert symbolic.decide(INTEGRAL, r"\frac12") == "equal"


def test_an_interrupt_while_it_starts_leaves_nothing():
    script = (
        "import gc, os, signal; from marft_envs.grading import symbolic\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have us ignore it\n"
        "wait = symbolic._Server._await_ready\n"
        "symbolic._Server._await_ready = lambda self: (os.kill(os.getpid(), signal.SIGINT), wait(self))\n"
        "try: symbolic.decide('x', 'y')\n"
        "except KeyboardInterrupt: print('stopped')\n"
        "gc.collect(); print(symbolic._owner.server)\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout.split(), done.stderr) == (["stopped", "None"], "")


def test_close_leaves_no_process():
    symbolic.decide("x", "y")
    process = symbolic._owner.server.process
    symbolic.close()
    assert process.poll() is not None
    assert symbolic._owner.server is None


def test_too_long_input_is_not_sent():
    assert symbolic.decide("x+" * 600 + "x", "y") == "unavailable"


def test_program_ends_without_warnings_or_leftovers():
    script = (
        "import os; from marft_envs.grading import symbolic, equivalent;"
        rf"assert equivalent({INTEGRAL!r}, '0.5'); print(symbolic._owner.server.process.pid);"
        "pid = os.fork();"
        rf"child = pid == 0 and equivalent({INTEGRAL!r}, '1/2') and os._exit(7);"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
