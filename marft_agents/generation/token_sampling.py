"""Tokens and log-probs under sampling parameters, by fast inverse-CDF sampling.

`torch.multinomial` over a 49k vocabulary costs ten times as much as inverse-CDF sampling on a CPU. It also takes its
randomness from a global generator; here each row has its own uniform number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marft_agents.generation.sampling import SamplingParams

NUCLEUS = 1024  # most tokens that top-p looks at before it orders the whole vocabulary
BLOCK = 256  # block size of the two-step sum: a 49k vocabulary has 192 blocks, a fifth of the cost of one sum


def scale(logits: Tensor, sampling: SamplingParams) -> Tensor:
    """Return float32 logits [..., V] divided by the temperature."""
    logits = logits.float()
    return logits if sampling.greedy or sampling.temperature == 1 else logits / sampling.temperature


def support_ids(logits: Tensor, sampling: SamplingParams) -> Tensor:
    """Return int64 [B, k]: ids of the tokens kept by top-k and top-p in ascending order, with -1 for those left out.

    Only the most likely tokens are ordered, not the vocabulary. Top-k alone decides k, so nothing is read from the
    device. Top-p reads the size of the largest nucleus; one of more than `NUCLEUS` tokens is found by ordering all.

    Args:
        logits: Scaled logits [B, V].
        sampling: Sampling parameters that restrict the support. Top-p is applied after top-k, as in transformers.
    """
    vocabulary = logits.shape[-1]
    ordered = min(sampling.top_k or NUCLEUS, vocabulary)
    ids, keep = _most_likely(logits, sampling, ordered)  # [B, ordered]
    if not sampling.top_k:
        nucleus = int(keep.sum(-1).max())  # tokens of the largest one
        if nucleus == ordered < vocabulary:  # it may go on behind those that were ordered
            ids, keep = _most_likely(logits, sampling, vocabulary)
            nucleus = int(keep.sum(-1).max())
        ids, keep = ids[:, :nucleus], keep[:, :nucleus]
    ascending = ids.masked_fill(~keep, vocabulary).sort(-1).values  # [B, k], those left out at the end
    return ascending.masked_fill_(ascending == vocabulary, -1)


def _most_likely(logits: Tensor, sampling: SamplingParams, count: int) -> tuple[Tensor, Tensor]:
    """Return ids [B, count] of the most likely tokens, the likeliest first, and True where top-p keeps them."""
    likeliest, ids = logits.topk(count, dim=-1)
    if sampling.top_p == 1:
        return ids, torch.ones_like(ids, dtype=torch.bool)
    among = likeliest if sampling.top_k else logits  # top-p is of the mass that top-k left
    probs = (likeliest - among.logsumexp(-1, keepdim=True)).exp()
    return ids, probs.cumsum(-1) - probs < sampling.top_p  # the token that crosses the mass stays


def draw(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Sample one index per row by inverting the cumulative distribution in two steps: a block, then an index in it.

    Args:
        weights: Weights [B, V], proportional to the probabilities.
        uniforms: Uniform numbers in [0, 1), float64 [B].

    Returns:
        Indices int64 [B]; never an index of weight zero.
    """
    padding = -weights.shape[-1] % BLOCK
    blocks = torch.nn.functional.pad(weights, (0, padding)).unflatten(-1, (-1, BLOCK))  # [B, blocks, BLOCK]
    masses = blocks.sum(-1)  # [B, blocks]
    block, rest = _invert(masses, uniforms.to(weights)[:, None] * masses.sum(-1, keepdim=True))  # [B, 1] each
    inside = blocks.gather(1, block[..., None].expand(-1, -1, BLOCK)).squeeze(1)  # [B, BLOCK]
    index, _ = _invert(inside, rest)
    return (block * BLOCK + index).squeeze(-1)


def _invert(weights: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return per row [B, 1] the first index whose cumulated weight exceeds the target, and the remainder.

    The remainder is the target minus the cumulated weight before the index.
    """
    cumulative = weights.cumsum(-1)
    last = (cumulative < cumulative[:, -1:]).sum(-1, keepdim=True)  # rounding can put the target at the very end
    index = torch.minimum(torch.searchsorted(cumulative, target, right=True), last)
    # a parallel scan (CUDA) rounds unevenly: its sums can rise by a last bit where the weight is zero
    index = torch.where(weights.gather(-1, index) > 0, index, weights.argmax(-1, keepdim=True))
    return index, target - (cumulative.gather(-1, index) - weights.gather(-1, index))


def choose(logits: Tensor, uniforms: Tensor, sampling: SamplingParams) -> tuple[Tensor, Tensor, Tensor | None]:
    """Sample one token per row with the given sampling parameters.

    Args:
        logits: Raw logits [B, V].
        uniforms: One uniform number in [0, 1) per row, float64 [B].
        sampling: Sampling parameters of all rows.

    Returns:
        Tokens int64 [B], their log-probs float32 [B] under the sampling parameters, and the support int64 [B, k], see
        `support_ids`. The support is None if every token can be sampled.
    """
    scaled = scale(logits, sampling)
    support = support_ids(scaled, sampling) if sampling.restricts_support else None
    if support is not None:  # the draw runs over k tokens, in the order of the vocabulary
        scaled = scaled.gather(-1, support.clamp(min=0)).masked_fill_(support < 0, -torch.inf)
    weights = (scaled - scaled.amax(-1, keepdim=True)).exp_()
    tokens = scaled.argmax(-1) if sampling.greedy else draw(weights, uniforms)
    logprobs = (weights.gather(-1, tokens[:, None]) / weights.sum(-1, keepdim=True)).log()
    if support is not None:
        tokens = support.gather(-1, tokens[:, None]).squeeze(-1)
    return tokens, logprobs.squeeze(-1), support
