"""Settings of base models and their adapters. They need no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from marft_agents.setting_fields import check_knobs, knob

Dtype = Literal["auto", "float32", "bfloat16"]  # of the frozen weights
Sharing = Literal["separate", "shared"]  # one adapter per agent, or one for all agents of a base
AUTO = ("auto",)  # the model's own LoRA targets


@dataclass(frozen=True)
class LoraSettings:
    """Rank, scale and target layers of the adapters (LoRA, arXiv 2106.09685)."""

    rank: int = knob(8, "r of the low-rank update", lambda value: value >= 1, ">= 1")
    alpha: int = knob(16, "the update is scaled by alpha / rank", lambda value: value > 0, "> 0")
    targets: tuple[str, ...] = knob(
        AUTO,
        "linear layers that get an adapter; auto: q_proj and v_proj, all if a model has no such layers, of `tiny` all "
        "and the head, of `tiny-words` all",
        lambda value: len(value) > 0,
        "at least one name",
    )

    def __post_init__(self) -> None:
        check_knobs(self)
