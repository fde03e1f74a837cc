"""Contenders of the training benchmark: name, module, settings and the phases that are measured."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.training.workload import Workload

Phase = Callable[[], Mapping[str, float] | None]  # runs the whole workload once; may return further values by name

HALF = {"dtype": "bfloat16"}


@dataclass(frozen=True)
class Recipe:
    """How a contender is loaded.

    Attributes:
        module: Module of this package whose `load` returns the phases.
        settings: Keyword arguments of `load`.
        phases: Phases to measure; those of `load` that are left out cost the same as another contender's.
        foreign: True if it needs the virtual environment of the third-party trainers.
    """

    module: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    phases: tuple[str, ...] = ("update", "rollout")
    foreign: bool = False

    def load(self, workload: Workload) -> dict[str, Phase]:
        """Load the model; return the phases by name."""
        module = importlib.import_module(f"benchmarks.training.{self.module}")
        found: Mapping[str, Phase] = module.load(workload, **self.settings)
        return {name: phase for name, phase in found.items() if name in self.phases}


CONTENDERS: Mapping[str, Recipe] = {
    "ours": Recipe("marft_grpo"),
    "ours-lean": Recipe("marft_grpo", {"gradient_checkpointing": True}, ("update",)),
    "ours-plain": Recipe("marft_grpo", {"gradient_checkpointing": False}, ("update",)),
    "ours-marft": Recipe("marft_grpo", {"algorithm": "marft-a"}, ("update",)),
    "ours-sft": Recipe("marft_grpo", {"supervised": True}, ("update",)),
    "ours-bf16": Recipe("marft_grpo", HALF),
    "ours-marft-bf16": Recipe("marft_grpo", {"algorithm": "marft-a", **HALF}, ("update",)),
    "hf": Recipe("hf_generate"),
    "hf-bf16": Recipe("hf_generate", HALF),
    "reference": Recipe("marft_reference", phases=("score", "update")),
    "trl": Recipe("trl_grpo", foreign=True),
    "trl-plain": Recipe("trl_grpo", {"checkpointing": False}, ("update",), foreign=True),
    "trl-bf16": Recipe("trl_grpo", HALF, foreign=True),
    "comlrl": Recipe("comlrl_magrpo", foreign=True),
    "comlrl-bf16": Recipe("comlrl_magrpo", HALF, foreign=True),
}
