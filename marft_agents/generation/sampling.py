"""Sampling parameters: temperature, top-k, top-p and the token limit. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from marft_agents.setting_fields import check_knobs, knob


@dataclass(frozen=True)
class SamplingParams:
    """Sampling parameters: temperature, top-k, top-p and the token limit."""

    temperature: float = knob(
        1.0,
        "divides the logits; 0 is greedy (the recorded log-probs are then of temperature 1)",
        lambda value: value >= 0,
        ">= 0",
    )
    top_k: int = knob(0, "keep the k most likely tokens; 0 keeps all", lambda value: value >= 0, ">= 0")
    top_p: float = knob(
        1.0,
        "keep the smallest set of most likely tokens with at least this mass; 1 keeps all",
        lambda value: 0 < value <= 1,
        "in (0, 1]",
    )
    max_new_tokens: int = knob(64, "longest action in tokens, the end token included", lambda value: value >= 1, ">= 1")

    def __post_init__(self) -> None:
        check_knobs(self)

    @property
    def greedy(self) -> bool:
        """True if the most likely token is always chosen."""
        return self.temperature == 0

    @property
    def restricts_support(self) -> bool:
        """True if some tokens have probability zero (top-k or top-p is active)."""
        return not self.greedy and (self.top_k > 0 or self.top_p < 1)
