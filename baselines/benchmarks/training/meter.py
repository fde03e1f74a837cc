"""Wall and CPU seconds and the peak of resident memory of a piece of work in this process."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_CLEAR_PEAK = "5"  # written to clear_refs, this sets the peak to what is resident now (proc_pid_clear_refs(5))


@dataclass(frozen=True)
class Figures:
    """What a piece of work cost.

    Attributes:
        wall_s: Seconds by the clock.
        cpu_s: Seconds of all threads of this process.
        peak_mb: Highest resident memory in 10^6 bytes above what the loaded model held at rest; None where the system
            does not tell.
        extra: What the work itself reports.
    """

    wall_s: float
    cpu_s: float
    peak_mb: float | None
    extra: Mapping[str, float] = field(default_factory=dict)


def measure(work: Callable[[], Mapping[str, float] | None], resting_mb: float | None) -> Figures:
    """Do some work.

    Args:
        work: May return figures of its own.
        resting_mb: Resident memory after loading; None is unknown.
    """
    settle()
    can_reset = _reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    extra = work() or {}
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resident_mb("VmHWM") if can_reset else None
    above = None if peak is None or resting_mb is None else peak - resting_mb
    return Figures(wall, cpu, above, dict(extra))


def settle() -> None:
    """Free what is garbage, and give freed memory back to the system where its C library can."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_mb(field: str = "VmRSS") -> float | None:
    """Return a memory figure of /proc/self/status in 10^6 bytes; None where there is none."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(field + ":")), None)


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text(_CLEAR_PEAK, encoding="ascii")
    except OSError:
        return False
    return True
