"""CPU profile of one update, by our functions and by torch kernels."""

from __future__ import annotations

import cProfile
import io
import pstats
from pathlib import Path

LINES = 25


def breakdown(path: Path, threads: int, contender: str = "ours") -> str:
    """Profile two updates after a warm-up, one with cProfile and one with torch's profiler; return the report.

    Args:
        path: File of the workload.
        threads: Number of torch threads.
        contender: Name of the contender, "ours" (GRPO) or "ours-marft".
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    from benchmarks.training import marft_grpo
    from benchmarks.training.workload import Workload

    torch.set_num_threads(threads)
    update = marft_grpo.load(Workload.load(path), "grpo" if contender == "ours" else "marft-a")["update"]
    update()
    functions = cProfile.Profile()
    functions.runcall(update)
    with profile(activities=[ProfilerActivity.CPU]) as kernels:
        update()
    text = io.StringIO()
    pstats.Stats(functions, stream=text).sort_stats("cumulative").print_stats("marft_agents|run_backward", LINES)
    table: str = kernels.key_averages().table(sort_by="self_cpu_time_total", row_limit=LINES, max_name_column_width=40)
    return f"{text.getvalue()}\n{table}"
