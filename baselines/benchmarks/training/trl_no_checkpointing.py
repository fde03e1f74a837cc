"""Contender: TRL's GRPOTrainer with gradient checkpointing (a default of TRL) switched off."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baselines.benchmarks.training import trl_grpo
from baselines.benchmarks.training.workload import Workload


def load(workload: Workload) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the update phase. Generation is the same as in `trl_grpo`."""
    return {"update": trl_grpo.load(workload, checkpointing=False)["update"]}
