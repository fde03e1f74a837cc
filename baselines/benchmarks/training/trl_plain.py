"""TRL's GRPOTrainer without its default of gradient checkpointing: faster, with more memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baselines.benchmarks.training import trl_grpo
from baselines.benchmarks.training.workload import Workload


def load(workload: Workload) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the update (generation is the same)."""
    return {"update": trl_grpo.load(workload, checkpointing=False)["update"]}
