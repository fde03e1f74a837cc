"""From runs to verdicts, line by line."""

import signal

import pytest

from marft_envs.sandbox import LANGUAGES, Limits
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.wire import RunResult
from marft_envs.sandbox.submission_run import describe_exit, rule, run_request

LIMITS = Limits(cpu_s=1, wall_s=4, memory_mb=92, output_mb=1)
REQUEST = run_request((b"main",), b"", LIMITS, LANGUAGES["c++17"])  # 8 MiB more: 100


def run(flags=0, exit_status=0, cpu_s=0.1, peak_mb=10.0, stdout_total=10, stderr=b""):
    return RunResult(
        wire.RAN, flags, exit_status, int(cpu_s * 1e6), 200_000, int(peak_mb * 1024), stdout_total, b"", stderr
    )


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (run(), "OK"),
        (run(wire.CPU_LIMIT, -signal.SIGKILL, 1.0), "TLE"),
        (run(exit_status=-signal.SIGXCPU), "TLE"),
        (run(cpu_s=1.01), "TLE"),
        (run(wire.WALL_LIMIT, -signal.SIGKILL, 0.5), "TLE"),
        (run(wire.WALL_LIMIT, -signal.SIGKILL, 0.49), "ILE"),
        (run(wire.OUTPUT_LIMIT, 1), "OLE"),
        (run(exit_status=-signal.SIGXFSZ), "OLE"),
        (run(stdout_total=1 << 20), "OK"),
        (run(stdout_total=(1 << 20) + 1), "OLE"),
        (run(peak_mb=100), "OK"),
        (run(peak_mb=100.1), "MLE"),
        (run(wire.OOM, -signal.SIGKILL), "MLE"),
        (run(wire.THREAD_LIMIT, -signal.SIGKILL), "RE"),
        (run(exit_status=-signal.SIGKILL), "RE"),  # by itself: memory that ran out is flagged
        (run(exit_status=-signal.SIGABRT, peak_mb=95), "MLE"),
        (run(exit_status=-signal.SIGABRT, peak_mb=94.9), "RE"),
        (run(exit_status=1, stderr=b"...\nMemoryError\n"), "MLE"),
        (run(exit_status=-signal.SIGABRT, stderr=b"  what():  std::bad_alloc\n"), "MLE"),
        (run(exit_status=0, stderr=b"MemoryError, I caught it"), "OK"),
        (run(exit_status=1, stderr=b"MemoryError" + b"x" * 2000), "RE"),
        (run(exit_status=-signal.SIGSYS, peak_mb=99), "SV"),
        (run(exit_status=-signal.SIGSEGV), "RE"),
        (run(exit_status=1), "RE"),
        (run(wire.LEFTOVERS), "OK"),
        (run(wire.CPU_LIMIT | wire.OUTPUT_LIMIT, -signal.SIGKILL, 1.0, 200), "TLE"),
    ],
)
def test_the_first_line_that_matches_counts(result, verdict):
    assert rule(REQUEST, result)[0] == verdict


def test_python_gets_its_interpreter_on_top_and_factors_multiply_time():
    python = run_request((), b"", LIMITS, LANGUAGES["python"])
    assert python.memory_kb == (92 + LANGUAGES["python"].extra_memory_mb) * 1024
    assert (python.cpu_ms, python.wall_ms) == (1000, 4000)


def test_an_exit_status_in_words():
    assert [describe_exit(status) for status in (3, -11, -99)] == ["exit status 3", "signal SIGSEGV", "signal 99"]
