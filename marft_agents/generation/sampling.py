"""The sampling law: temperature, top-k and top-p, its log-probabilities, and a cheap draw.

`torch.multinomial` over a 49k vocabulary costs ten times an inverse-CDF draw on a CPU, and it takes its
randomness from a global generator; here each row brings its own uniform number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from marft_agents.setting_fields import check_knobs, knob

BLOCK = 256  # a vocabulary of 49k is cumulated in 192 blocks, then within one: a fifth of the cost of all at once


@dataclass(frozen=True)
class SamplingLaw:
    """How a token is drawn from the logits."""

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
        """True if the most likely token is always taken."""
        return self.temperature == 0

    @property
    def restricts_support(self) -> bool:
        """True if some tokens can not be drawn at all."""
        return not self.greedy and (self.top_k > 0 or self.top_p < 1)


def scale(logits: Tensor, law: SamplingLaw) -> Tensor:
    """Return float32 logits [..., V] divided by the temperature."""
    logits = logits.float()
    return logits if law.greedy or law.temperature == 1 else logits / law.temperature


def support_mask(logits: Tensor, law: SamplingLaw) -> Tensor:
    """Return bool [..., V]: True where top-k and top-p leave a token to choose from.

    Args:
        logits: scaled logits [..., V].
        law: the sampling law; top-p acts on what top-k left, as in transformers.
    """
    ordered, index = logits.sort(dim=-1, descending=True)
    keep = torch.ones_like(ordered, dtype=torch.bool)
    if law.top_k:
        keep[..., law.top_k :] = False
    if law.top_p < 1:
        mass = ordered.masked_fill(~keep, -torch.inf).softmax(-1)
        keep &= mass.cumsum(-1) - mass < law.top_p  # the token that crosses the mass stays
    return torch.zeros_like(keep).scatter(-1, index, keep)


def draw(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one index per row by inverting the cumulative distribution, in two steps: a block, then an index in it.

    Args:
        weights: [B, V], proportional to the probabilities.
        uniforms: float64 [B] in [0, 1).

    Returns:
        int64 [B]; never an index of weight zero.
    """
    blocks = torch.nn.functional.pad(weights, (0, -weights.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))
    masses = blocks.sum(-1)
    block, rest = _invert(masses, uniforms.to(weights)[:, None] * masses.sum(-1, keepdim=True))
    inside = blocks.gather(1, block[..., None].expand(-1, -1, BLOCK)).squeeze(1)
    index, _ = _invert(inside, rest)
    return (block * BLOCK + index).squeeze(-1)


def _invert(weights: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return per row [B, 1] the first index whose cumulated weight exceeds the target, and what the target exceeds."""
    cumulative = weights.cumsum(-1)
    last = (cumulative < cumulative[:, -1:]).sum(-1, keepdim=True)  # rounding can put the target at the very end
    index = torch.minimum(torch.searchsorted(cumulative, target, right=True), last)
    # a parallel scan (CUDA) rounds unevenly: its sums can rise by a last bit where the weight is zero
    index = torch.where(weights.gather(-1, index) > 0, index, weights.argmax(-1, keepdim=True))
    return index, target - (cumulative.gather(-1, index) - weights.gather(-1, index))


def choose(logits: Tensor, uniforms: Tensor, law: SamplingLaw) -> tuple[Tensor, Tensor, Tensor | None]:
    """Draw a token per row under the law.

    Args:
        logits: [B, V] raw logits.
        uniforms: float64 [B] in [0, 1), one per row.
        law: the sampling law.

    Returns:
        tokens int64 [B], their log-probabilities float32 [B] under the law, and the support bool [B, V]
        (None where every token can be drawn).
    """
    scaled = scale(logits, law)
    support = support_mask(scaled, law) if law.restricts_support else None
    if support is not None:
        scaled = scaled.masked_fill(~support, -torch.inf)
    weights = (scaled - scaled.amax(-1, keepdim=True)).exp_()
    tokens = scaled.argmax(-1) if law.greedy else draw(weights, uniforms)
    logprobs = (weights.gather(-1, tokens[:, None]) / weights.sum(-1, keepdim=True)).log()
    return tokens, logprobs.squeeze(-1), support
