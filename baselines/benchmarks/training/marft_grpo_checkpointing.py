"""Contender: this package's GRPO with gradient checkpointing, as in TRL's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baselines.benchmarks.training import marft_grpo
from baselines.benchmarks.training.workload import Workload


def load(workload: Workload) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the update phase. Generation is the same as in `ours`."""
    return {"update": marft_grpo.load(workload, gradient_checkpointing=True)["update"]}
