"""Rules from the result of a run to its verdict; the first match counts."""

from __future__ import annotations

import math
import signal

from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.wire import KIND_BUILD, KIND_RUN, RunRequest, RunResult
from marft_envs.sandbox.languages import Language
from marft_envs.sandbox.verdict import Limits, Verdict

BUILD_CPU_S, BUILD_WALL_S, BUILD_MEMORY_MB, BUILD_FILE_MB, BUILD_PROCESSES = 20, 90, 2048, 32, 32
_MIB = 1 << 20
_OUT_OF_MEMORY = (b"MemoryError", b"bad_alloc")
_FLOOR_KB = 16 << 10  # smaller peaks are the runner's own, from which the program was forked
_NEARLY_ALL = 0.95  # share of the memory limit at which a refused allocation explains a crash


def build_request(argv: tuple[bytes, ...]) -> RunRequest:
    """Return the run request of a build."""
    output = BUILD_FILE_MB * _MIB
    cpu_ms, wall_ms = BUILD_CPU_S * 1000, BUILD_WALL_S * 1000
    return RunRequest(KIND_BUILD, cpu_ms, wall_ms, BUILD_MEMORY_MB * 1024, output, 1 << 16, BUILD_PROCESSES, argv, b"")


def run_request(argv: tuple[bytes, ...], stdin: bytes, limits: Limits, language: Language) -> RunRequest:
    """Return the run request of one test; its output limit is one byte more, so that the full length passes."""
    return RunRequest(
        kind=KIND_RUN,
        cpu_ms=math.ceil(limits.cpu_s * language.cpu_factor * 1000),
        wall_ms=math.ceil(limits.wall_limit_s * language.cpu_factor * 1000),
        memory_kb=math.ceil((limits.memory_mb + language.extra_memory_mb) * 1024),
        output_bytes=int(limits.output_mb * _MIB) + 1,
        stderr_bytes=math.ceil(limits.stderr_kb * 1024),
        processes=0,
        argv=argv,
        stdin=stdin,
    )


def rule(request: RunRequest, result: RunResult) -> tuple[Verdict, str]:
    """Return verdict and reason of a run; OK means that the output may be compared."""
    found = rule_time(request, result) or _rule_space(request, result)
    if found is not None:
        return found
    if result.exit_status == -signal.SIGSYS:
        return Verdict.SV, "a forbidden system call"
    if result.exit_status:
        return Verdict.RE, describe_exit(result.exit_status)
    return Verdict.OK, ""


def rule_time(request: RunRequest, result: RunResult) -> tuple[Verdict, str] | None:
    """Return TLE or ILE if the program used up its time, else None."""
    cpu_ms = result.cpu_us / 1000
    if is_out_of_cpu(request, result):
        return Verdict.TLE, f"CPU time over {request.cpu_ms / 1000:g} s"
    if result.flags & wire.WALL_LIMIT:
        busy = cpu_ms >= request.cpu_ms / 2
        return (Verdict.TLE if busy else Verdict.ILE), f"{cpu_ms / 1000:.2f} s of CPU in {request.wall_ms / 1000:g} s"
    return None


def is_out_of_cpu(request: RunRequest, result: RunResult) -> bool:
    """True if the program used up its CPU time."""
    over = result.flags & wire.CPU_LIMIT or result.cpu_us / 1000 > request.cpu_ms
    return bool(over) or result.exit_status == -signal.SIGXCPU


def _rule_space(request: RunRequest, result: RunResult) -> tuple[Verdict, str] | None:
    too_long = result.stdout_total >= request.output_bytes or result.exit_status == -signal.SIGXFSZ
    if too_long or result.flags & wire.OUTPUT_LIMIT:
        return Verdict.OLE, f"output over {(request.output_bytes - 1) / _MIB:g} MiB"
    if result.flags & wire.THREAD_LIMIT:
        return Verdict.RE, "too many threads"
    used_kb = result.peak_kb if result.peak_kb > _FLOOR_KB else 0
    too_large = result.flags & wire.OOM or used_kb > request.memory_kb
    if not too_large and result.exit_status not in (0, -signal.SIGSYS):
        refused = any(word in result.stderr[-1024:] for word in _OUT_OF_MEMORY)
        too_large = refused or used_kb >= _NEARLY_ALL * request.memory_kb
    return (Verdict.MLE, f"{result.peak_kb / 1024:.0f} of {request.memory_kb / 1024:.0f} MiB") if too_large else None


def describe_exit(exit_status: int) -> str:
    """Describe an exit status in words: "exit status 3", "signal SIGSEGV"."""
    if exit_status >= 0:
        return f"exit status {exit_status}"
    try:
        return f"signal {signal.Signals(-exit_status).name}"
    except ValueError:
        return f"signal {-exit_status}"
