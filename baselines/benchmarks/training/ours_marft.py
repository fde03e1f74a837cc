"""Our own trainer with MARFT at action level: chained advantages of a critic, as the reference code trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baselines.benchmarks.training import ours
from baselines.benchmarks.training.workload import Workload


def load(workload: Workload) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the update (what is generated is the same for every algorithm)."""
    return {"update": ours.load(workload, "marft-a")["update"]}
