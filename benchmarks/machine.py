"""Description of the machine that a benchmark ran on, so that figures of two machines can be told apart."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baselines.experiment.source_commit import source_commit

FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "sve", "bf16")  # of a processor, as Linux names them
SIZE = 1024  # rows and columns of the matrices whose product is timed


def machine(*, products: bool = False) -> dict[str, Any]:
    """Return the system, the cores, the processor with its vector extensions, the memory and its allocator.

    Args:
        products: True measures the rate of matrix products of one thread too, in 10^9 operations a second by dtype.
            It takes a second.
    """
    found: dict[str, Any] = {"system": f"{platform.system()} {platform.release()}", "cores": os.cpu_count()}
    found |= {"processor": _first("/proc/cpuinfo", "model name"), "memory": _first("/proc/meminfo", "MemTotal")}
    present = (_first("/proc/cpuinfo", "flags") or _first("/proc/cpuinfo", "Features") or "").split()
    found["flags"] = [flag for flag in FLAGS if flag in present]
    found["allocator"] = _allocator()
    if products:
        found["gflops"] = {name: product_rate(name) for name in ("float32", "bfloat16")}
    return found


def write_record(path: Path, benchmark: str, figures: Mapping[str, Any]) -> None:
    """Write the figures of a benchmark as JSON, with the command that made them, commit and machine."""
    command = shlex.join(["python", "-m", f"benchmarks.{benchmark}", *sys.argv[1:]])
    facts = {"command": command, "commit": source_commit(), "machine": machine(products=True), **figures}
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def product_rate(dtype: str) -> float:
    """Return the rate of a square matrix product on one thread, in 10^9 operations a second: the best of five.

    Where a product takes long, as emulated ones do, there are fewer.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        a = torch.randn(SIZE, SIZE).to(getattr(torch, dtype))
        seconds: list[float] = []
        while len(seconds) < 6 and sum(seconds) < 1.0:
            start = time.process_time()
            a @ a
            seconds.append(time.process_time() - start)
    finally:
        torch.set_num_threads(before)
    # the first product fills the caches
    return round(2 * SIZE**3 / min(seconds[1:] or seconds) / 1e9, 1)


def described(found: Mapping[str, Any]) -> str:
    """Return a machine as a line of text."""
    parts = [found.get("processor") or "unknown processor", f"{found['cores']} cores"]
    parts += [" ".join(found["flags"])] if found.get("flags") else []
    parts += [found["allocator"]] if found.get("allocator") else []
    parts += [f"{name} products {rate:g} GFLOP/s a thread" for name, rate in found.get("gflops", {}).items()]
    return ", ".join([*parts, found["system"]])


def _allocator() -> str:
    """Return what the environment sets for the allocation of memory; empty for the C library's own."""
    loaded = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    names = [Path(path).name.partition(".so")[0] for path in loaded if "malloc" in path]
    return " ".join(names + ["huge pages"] * (os.environ.get("THP_MEM_ALLOC_ENABLE") == "1"))


def _first(file: str, field: str) -> str | None:
    """Return the value of the first line `field : value` of a file; None if there is none."""
    if not Path(file).is_file():
        return None
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), None)
