"""Limits of the runner: time, memory, output, and what it reports of a program that keeps or breaks them."""

from __future__ import annotations

import os
import signal
import time

import pytest

from marft_envs.sandbox.jail import watch, wire
from tests.marft_envs.sandbox.jail_client import CARRIERS, compile_cpp, open_client


@pytest.fixture(scope="module", params=[*CARRIERS, "none"])
def jail(request):
    yield from open_client(request.param)


def test_figures_of_an_honest_program(jail):
    result = jail.python("print(sum(map(int, input().split())))", b"1 2 3")
    assert (result.status, result.flags, result.exit_status) == (wire.RAN, 0, 0)
    assert (result.stdout, result.stdout_total, result.stderr) == (b"6\n", 2, b"")
    assert 1000 < result.cpu_us < 500_000
    assert result.wall_us > 1000
    assert 5_000 < result.peak_kb < 60_000


def test_cpu_limit_cuts(jail):
    result = jail.python("while True: pass", cpu_ms=300)
    assert result.flags == wire.CPU_LIMIT
    assert result.exit_status == -9
    assert 300_000 <= result.cpu_us < 1_000_000  # late by what a busy machine makes the runner wait


def test_cpu_of_all_threads_counts(jail):
    burn = "import hashlib, threading\ndef f():\n    b = bytes(10**7)\n    while True: hashlib.sha256(b)\n"
    result = jail.python(burn + "for _ in range(4): threading.Thread(target=f).start()", cpu_ms=400)
    assert result.flags == wire.CPU_LIMIT
    assert 400_000 <= result.cpu_us < 2_000_000  # several cores are used while the runner waits for one


def test_a_caught_sigxcpu_changes_nothing(jail):
    result = jail.python("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", cpu_ms=200)
    assert result.flags == wire.CPU_LIMIT


@pytest.mark.parametrize(
    "body",
    [
        "import time; time.sleep(60)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import os; r, w = os.pipe(); os.read(r, 1)",
        "from signal import *\nfor n in valid_signals() - {9, 19}: signal(n, SIG_IGN)\npause()",
    ],
    ids=["sleep", "stop", "blocked", "ignores signals"],
)
def test_wall_limit_ends_the_idle(jail, body):
    result = jail.python(body, wall_ms=300)
    assert result.flags == wire.WALL_LIMIT
    assert result.exit_status == -9
    assert 300_000 <= result.wall_us < 20_000_000


def test_memory_limit_is_the_address_space(jail):
    assert jail.python("print(len(bytearray(100 << 20)))", memory_kb=256 << 10).stdout == b"104857600\n"
    result = jail.python("print(len(bytearray(300 << 20)))", memory_kb=256 << 10)
    assert result.exit_status == 1
    assert b"MemoryError" in result.stderr


SPARSE = """
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
void *work(void *) {
    for (long k = 0; k < 9000; k++) {  // a page in every gibibyte: two tables of a page each, 70 MiB
        void *page = mmap((void *)((k + 8) << 30), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (page != MAP_FAILED) (void)*(volatile char *)page;
    }
    pause();
    return nullptr;
}
int main(int count, char **words) {
    pthread_t thread;
    pthread_create(&thread, nullptr, work, nullptr);
    if (count > 1) pthread_exit(nullptr);
    pause();
}"""


@pytest.mark.parametrize("words", [(), ("leave",)], ids=["all threads", "the first thread has ended"])
def test_page_tables_count_as_memory(jail, tmp_path, words):
    program = compile_cpp(SPARSE, tmp_path / "a", "-static", "-pthread")
    result = jail.program(program, *words, memory_kb=64 << 10, wall_ms=20_000)
    assert (result.flags, result.exit_status) == (wire.OOM, -9)
    assert result.peak_kb > 64 << 10


def test_the_memory_limit_may_be_used_up(jail, tmp_path):
    source = """
#include <unistd.h>
static char room[250 << 20];
int main() {
    for (long i = 0; i < (long)sizeof room; i += 4096) room[i] = 1;
    usleep(60000);
    return room[1];
}"""
    result = jail.program(compile_cpp(source, tmp_path / "a", "-static"), memory_kb=256 << 10)
    assert (result.flags, result.exit_status) == (0, 0)
    assert result.peak_kb > 250 << 10


def test_peak_memory_is_measured_and_not_inherited_from_a_large_input(jail):
    large = jail.python("import sys; print(len(sys.stdin.buffer.read()))", bytes(50 << 20))
    small = jail.python("pass")
    assert large.stdout == b"52428800\n"
    assert large.peak_kb > 50 << 10
    assert small.peak_kb < 25 << 10


@pytest.mark.parametrize(
    ("surplus", "flags"), [(-1, 0), (0, 0), (1, wire.OUTPUT_LIMIT), (5_000_000, wire.OUTPUT_LIMIT)]
)
def test_output_limit_is_exact(jail, surplus, flags):
    limit = 200_000
    result = jail.python(f"print('x' * {limit + surplus}, end='')", output_bytes=limit)
    assert result.flags == flags
    assert len(result.stdout) == min(limit + surplus, limit)
    assert result.stdout_total == min(limit + surplus, limit + 1)


def test_output_flood_by_a_program_without_handlers_dies_of_sigxfsz(jail, tmp_path):
    flood = compile_cpp(
        "#include <unistd.h>\nint main() { char b[65536] = {}; for (;;) write(1, b, sizeof b); }", tmp_path / "a"
    )
    result = jail.program(flood, output_bytes=1 << 20)
    assert (result.flags, result.exit_status) == (wire.OUTPUT_LIMIT, -25)


def test_the_tail_of_stderr_is_kept(jail):
    result = jail.python("import sys\nfor i in range(20000): print(i, file=sys.stderr)", stderr_bytes=100)
    assert result.flags == 0
    assert len(result.stderr) == 100
    assert result.stderr.endswith(b"19998\n19999\n")


def test_a_flood_of_stderr_is_an_output_limit(jail):
    result = jail.python("import sys\nwhile True: sys.stderr.write('e' * 65536)", output_bytes=1 << 20)
    assert result.flags == wire.OUTPUT_LIMIT
    assert len(result.stderr) == 4096


@pytest.mark.parametrize(
    ("body", "status"),
    [("raise SystemExit(7)", 7), ("import os; os.abort()", -6), ("import os; os._exit(255)", 255), ("1/0", 1)],
)
def test_exit_status(jail, body, status):
    result = jail.python(body)
    assert (result.flags, result.exit_status) == (0, status)


def test_a_kill_of_oneself_is_no_memory_limit(jail):
    result = jail.python("import os; os.kill(os.getpid(), 9)")
    assert (result.flags, result.exit_status) == (0, -9)


@pytest.mark.parametrize(
    ("counts", "flags"),
    [((5, 5), 0), ((5, 6), wire.OOM), ((None, None), wire.OOM)],
    ids=["same", "one more", "unknown"],
)
def test_a_sigkill_is_for_memory_if_the_kernel_says_so_or_can_not_say(monkeypatch, counts, flags):
    told = iter(counts)
    monkeypatch.setattr(watch, "_oom_kills", lambda container: next(told))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    ours, theirs = os.pipe()
    try:
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "kill -9 $$"], {})
        outcome = watch.Watch(ours).over(pid, 10, 10, time.monotonic(), count_threads=False)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(ours)
        os.close(theirs)
    assert (outcome.flags, outcome.status) == (flags, -9)


def test_a_container_is_not_told_of_its_neighbours_out_of_memory(monkeypatch, tmp_path):
    own, machine = tmp_path / "memory.events", tmp_path / "vmstat"
    own.write_text("oom 4\noom_kill 2\noom_group_kill 7\n")
    machine.write_text("pgfault 1\noom_kill 9\n")
    monkeypatch.setattr(watch, "_OOM_COUNTS", (str(tmp_path / "absent"), str(own), str(machine)))
    assert (watch._oom_kills(container=True), watch._oom_kills(container=False)) == (2, 9)


def test_large_input_may_stay_unread(jail):
    result = jail.python("print('done')", bytes(64 << 20))
    assert (result.exit_status, result.stdout) == (0, b"done\n")


def test_any_bytes_come_back(jail):
    content = bytes(range(256)) * 100
    result = jail.python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", content)
    assert result.stdout == content


def test_closed_descriptors_harm_nobody(jail):
    result = jail.python("import os\nprint('a', flush=True)\nfor i in range(3): os.close(i)\nos._exit(0)")
    assert (result.exit_status, result.stdout) == (0, b"a\n")


def test_output_can_be_shortened_and_made_sparse(jail):
    result = jail.python(
        "import os\nos.write(1, b'abc')\nos.ftruncate(1, 0)\nos.lseek(1, 900_000, 0)\nos.write(1, b'z')"
    )
    assert (result.flags, result.stdout_total) == (0, 900_001)
    assert result.stdout == bytes(900_000) + b"z"


def test_a_program_that_cant_start_is_not_its_own_fault(jail):
    result = jail.run("/nonexistent/program")
    assert result.status == wire.NOT_STARTED
    assert b"/nonexistent/program" in result.stderr
    assert b"No such file" in result.stderr


def test_a_program_larger_than_its_memory(jail, tmp_path):
    huge = compile_cpp(
        "static volatile char room[1u << 30]; int main() { room[7] = 1; return room[12345]; }",
        tmp_path / "a",
        "-static",
    )
    result = jail.program(huge, memory_kb=256 << 10)
    assert result.status == wire.RAN  # its own fault, not ours
    assert result.exit_status in (-9, -11)
