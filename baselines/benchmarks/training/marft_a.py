"""Contender: this package's MARFT-A (critic, advantages along the chain), as in the reference code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baselines.benchmarks.training import marft_grpo
from baselines.benchmarks.training.workload import Workload


def load(workload: Workload) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the update phase. Generation is the same for every algorithm."""
    return {"update": marft_grpo.load(workload, "marft-a")["update"]}
