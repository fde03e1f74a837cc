"""Measured peak throughput of a device: matrix product and memory bandwidth.

The limits are measured in the same run as the training that is compared with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class PeakThroughput:
    """Measured limits of a device.

    Attributes:
        device: Name of the device.
        matmul_tflops: Throughput of a large bfloat16 matrix product, in TFLOP/s.
        copy_gb_s: Bandwidth of a large copy, reads plus writes, in GB/s.
        memory_gib: Memory of the device in GiB; None for the CPU.
    """

    device: str
    matmul_tflops: float
    copy_gb_s: float
    memory_gib: float | None


def measure_limits(device: torch.device) -> PeakThroughput:
    """Measure the limits of a device; takes a fraction of a second on a GPU."""
    on_cuda = device.type == "cuda"
    size, elements = (8192, 2**29) if on_cuda else (256, 2**20)
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.zeros(elements, device=device, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    properties = torch.cuda.get_device_properties(device) if on_cuda else None
    return PeakThroughput(
        device=properties.name if properties else "CPU",
        matmul_tflops=2 * size**3 / seconds_of(lambda: left @ right, device) / 1e12,
        copy_gb_s=2 * 2 * elements / seconds_of(lambda: target.copy_(source), device) / 1e9,
        memory_gib=properties.total_memory / 2**30 if properties else None,
    )


def seconds_of(work: Callable[[], object], device: torch.device, *, repeats: int = 10) -> float:
    """Return the median time of `work` in seconds, after two warm-up runs."""
    times = []
    for _ in range(2 + repeats):
        synchronise(device)
        started = time.perf_counter()
        work()
        synchronise(device)
        times.append(time.perf_counter() - started)
    return sorted(times[2:])[repeats // 2]


def synchronise(device: torch.device) -> None:
    """Wait until all queued work of a CUDA device is done; no effect on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
