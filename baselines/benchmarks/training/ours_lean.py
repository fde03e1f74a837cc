"""Our own trainer computing layers again in the backward pass, as TRL's defaults do: less memory, more time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baselines.benchmarks.training import ours
from baselines.benchmarks.training.workload import Workload


def load(workload: Workload) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the update (generation is the same)."""
    return {"update": ours.load(workload, gradient_checkpointing=True)["update"]}
