"""Measure wall time, CPU time and peak resident memory of a function in this process."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_CLEAR_PEAK = "5"  # written to clear_refs, resets the peak to the current resident memory (proc_pid_clear_refs(5))


@dataclass(frozen=True)
class Figures:
    """Measured cost of a function call.

    Attributes:
        wall_s: Wall time in seconds.
        cpu_s: CPU time of all threads of this process in seconds.
        peak_mb: Peak memory above that at rest, in 10^6 bytes; None if the system does not report it.
        extra: Further values that the function returned.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float | None
    extra: Mapping[str, float] = field(default_factory=dict)


def measure(work: Callable[[], Mapping[str, float] | None], resting_mb: float | None) -> Figures:
    """Call `work` once and measure its cost.

    Args:
        work: Function to measure; it may return further values by name.
        resting_mb: Memory held after loading, see `held_mb`; None if unknown.
    """
    settle()
    try:
        Path("/proc/self/clear_refs").write_text(_CLEAR_PEAK, encoding="ascii")
        can_reset = True
    except OSError:
        can_reset = False
    wall, cpu = time.perf_counter(), time.process_time()
    extra = work() or {}
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = held_mb("VmHWM") if can_reset else None
    above = None if peak is None or resting_mb is None else peak - resting_mb
    settle()  # others wait their turn beside this process
    return Figures(wall, cpu, above, dict(extra))


def settle() -> None:
    """Collect garbage, and return freed memory to the system if the allocator (C library, tcmalloc) supports it."""
    gc.collect()
    process = ctypes.CDLL(None)
    for release, arguments in (("malloc_trim", (0,)), ("MallocExtension_ReleaseFreeMemory", ())):
        with contextlib.suppress(OSError, AttributeError):
            getattr(process, release)(*arguments)


def held_mb(field: str = "VmRSS") -> float | None:
    """Return a field of /proc/self/status, with what is swapped out now, in 10^6 bytes; None if it does not exist.

    Memory that is swapped out stays held. At a peak (VmHWM) it is what was swapped out by the time of this call.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kilobytes = {name: int(size.split()[0]) for name, size in (line.split(":") for line in lines) if name[:2] == "Vm"}
    return None if field not in kilobytes else (kilobytes[field] + kilobytes.get("VmSwap", 0)) * 1024 / 1e6
