"""Forward passes of a transformer trunk over sequences that share a prefix, and log-probs at action positions.

Agents of a team and samples of a group share long prompts (system prompt, worked example, question). The common
prefix of a micro-batch is computed once, as a batch of one, and its keys and values are expanded to all rows;
gradients flow back through the expansion, so this is exact. Only action positions reach the language-model head,
in chunks, so memory does not grow with vocabulary x length.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from marft_agents.records import IntArray
from marft_agents.sampling import SamplingLaw, scale

PASS_COST = 40.0  # tokens that could have been computed in the fixed cost of one more pass
HEAD_CHUNK = 256  # positions per chunk of the head: 256 x 49k float32 logits = 50 MB


def common_prefix_length(sequences: Sequence[IntArray], limit: int) -> int:
    """Return how many leading tokens all sequences share, at most `limit`."""
    first = sequences[0][:limit]
    length = len(first)
    for sequence in sequences[1:]:
        head = sequence[:length]
        different = np.nonzero(first[: len(head)] != head)[0]
        length = int(different[0]) if len(different) else len(head)
    return length


def plan_micro_batches(sequences: Sequence[IntArray], max_rows: int) -> list[list[int]]:
    """Cut sequences into micro-batches that cost the fewest tokens when each shares its common prefix.

    Sequences are sorted, so neighbours share most; the cheapest cut of the sorted list is found by dynamic
    programming over the cost `prefix + rows * (longest - prefix)` plus a fixed cost per pass.

    Args:
        sequences: token ids, N of them.
        max_rows: at most so many rows per micro-batch.

    Returns:
        Indices of each micro-batch; every sequence once.
    """
    order = sorted(range(len(sequences)), key=lambda i: sequences[i].tolist())
    shared = [
        common_prefix_length([sequences[a], sequences[b]], len(sequences[a])) for a, b in itertools.pairwise(order)
    ]
    best = [0.0] + [math.inf] * len(order)
    cut_from = [0] * (len(order) + 1)
    for end in range(1, len(order) + 1):
        prefix = longest = len(sequences[order[end - 1]])
        for start in range(end - 1, max(-1, end - 1 - max_rows), -1):
            if start < end - 1:
                prefix = min(prefix, shared[start])
                longest = max(longest, len(sequences[order[start]]))
            cost = best[start] + PASS_COST + prefix + (end - start) * (longest - prefix)
            if cost < best[end]:
                best[end], cut_from[end] = cost, start
    batches, end = [], len(order)
    while end:
        batches.append(order[cut_from[end] : end])
        end = cut_from[end]
    return batches[::-1]


@dataclass(frozen=True)
class Ragged:
    """Rows of different length behind one shared prefix.

    Attributes:
        prefix: int64 [1, P]; P may be 0.
        rows: int64 [B, S] what follows the prefix, padded.
        row_mask: bool [B, S], True at real tokens.
    """

    prefix: Tensor
    rows: Tensor
    row_mask: Tensor

    @property
    def attention_mask(self) -> Tensor:
        """int64 [B, P + S], 1 at real tokens."""
        prefix = self.row_mask.new_ones(self.rows.shape[0], self.prefix.shape[1])
        return torch.cat([prefix, self.row_mask], dim=1).long()

    @property
    def position_ids(self) -> Tensor:
        """int64 [B, S], the position of each row token in its own sequence."""
        return (self.row_mask.long().cumsum(1) - 1).clamp(min=0) + self.prefix.shape[1]


def share_prefix(
    sequences: Sequence[IntArray], shareable: int, *, device: torch.device, pad_left: bool = False
) -> Ragged:
    """Split sequences into their common prefix and padded rests.

    Args:
        sequences: token ids, each longer than `shareable`.
        shareable: the prefix may reach at most here (the rest must keep the positions of interest).
        device: where the tensors go.
        pad_left: pad rows on the left (generation) instead of on the right (training).
    """
    shared = common_prefix_length(sequences, shareable)
    rests = [sequence[shared:] for sequence in sequences]
    width = max(len(rest) for rest in rests)
    rows = np.zeros((len(rests), width), np.int64)
    mask = np.zeros((len(rests), width), bool)
    for i, rest in enumerate(rests):
        where = slice(width - len(rest), width) if pad_left else slice(0, len(rest))
        rows[i, where] = rest
        mask[i, where] = True
    prefix = torch.as_tensor(sequences[0][None, :shared].astype(np.int64), device=device)
    return Ragged(prefix, torch.as_tensor(rows, device=device), torch.as_tensor(mask, device=device))


def run_trunk(trunk: Any, ragged: Ragged) -> tuple[Tensor, Any]:
    """Run the trunk over a shared prefix and its rows.

    Returns:
        hidden [B, S, d] of the rows, and the key/value cache of prefix + rows.
    """
    from transformers import DynamicCache

    cache = DynamicCache()
    batch = ragged.rows.shape[0]
    if ragged.prefix.shape[1]:
        trunk(input_ids=ragged.prefix, past_key_values=cache, use_cache=True)
        if batch > 1:
            cache.batch_repeat_interleave(batch)
    output = trunk(
        input_ids=ragged.rows,
        attention_mask=ragged.attention_mask,
        position_ids=ragged.position_ids,
        past_key_values=cache,
        use_cache=True,
    )
    return output.last_hidden_state, cache


@dataclass(frozen=True)
class TokenScores:
    """What the current policy says of recorded action tokens, flat over all actions of a batch.

    Attributes:
        logprobs: float32 [N], log-probability of each recorded token under the sampling law.
        entropy: float32 [N], entropy of the law at each position, in nats (no gradient unless asked for).
    """

    logprobs: Tensor
    entropy: Tensor


def action_hidden(trunk: Any, prompts: Sequence[IntArray], actions: Sequence[IntArray], device: torch.device) -> Tensor:
    """Return the hidden states that predict the action tokens.

    Args:
        trunk: transformer without head.
        prompts: token ids of each prompt, at least one token each.
        actions: token ids of each action, T_i >= 1.
        device: where to compute.

    Returns:
        [sum T_i, d]; rows follow the actions in order.
    """
    sequences = [np.concatenate([p, a[:-1]]) for p, a in zip(prompts, actions, strict=True)]
    ragged = share_prefix(sequences, min(len(p) for p in prompts) - 1, device=device)
    hidden, _ = run_trunk(trunk, ragged)
    shared = ragged.prefix.shape[1]
    rows, columns = [], []
    for i, (prompt, action) in enumerate(zip(prompts, actions, strict=True)):
        start = len(prompt) - 1 - shared
        rows.append(np.full(len(action), i))
        columns.append(np.arange(start, start + len(action)))
    picked: Tensor = hidden[np.concatenate(rows), np.concatenate(columns)]
    return picked


def score_tokens(
    head: Any,
    hidden: Tensor,
    tokens: Tensor,
    law: SamplingLaw,
    support: Sequence[IntArray] | None = None,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """Compute log-probs and entropies at action positions, a chunk of the vocabulary head at a time.

    Args:
        head: maps hidden [N, d] to logits [N, V].
        hidden: [N, d], the states that predict the tokens.
        tokens: int64 [N], the recorded tokens.
        law: the sampling law (its temperature scales the logits).
        support: per position the ids that could be drawn; None means all.
        entropy_gradient: keep the graph of the entropy (for an entropy bonus).
    """

    def chunk(states: Tensor, ids: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        logits = scale(head(states), law)
        if allowed is not None:
            logits = logits.masked_fill(~allowed, -torch.inf)
        logprobs = logits.log_softmax(-1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
            plogp = logprobs.exp() * logprobs
            entropy = -(plogp if allowed is None else plogp.masked_fill(~allowed, 0.0)).sum(-1)
        return logprobs.gather(-1, ids[:, None]).squeeze(-1), entropy

    scores, entropies = [], []
    for start in range(0, len(tokens), HEAD_CHUNK):
        states, ids = hidden[start : start + HEAD_CHUNK], tokens[start : start + HEAD_CHUNK]
        allowed = None
        if support is not None:
            allowed = _support_rows(support[start : start + HEAD_CHUNK], head.out_features, hidden.device)
        if torch.is_grad_enabled():  # recompute the logits in backward instead of keeping them
            score, entropy = checkpoint(chunk, states, ids, allowed, use_reentrant=False)
        else:
            score, entropy = chunk(states, ids, allowed)
        scores.append(score)
        entropies.append(entropy)
    return TokenScores(torch.cat(scores), torch.cat(entropies))


def _support_rows(support: Sequence[IntArray], vocabulary: int, device: torch.device) -> Tensor:
    allowed = torch.zeros(len(support), vocabulary, dtype=torch.bool)
    for i, ids in enumerate(support):
        allowed[i, torch.as_tensor(ids, dtype=torch.long)] = True
    return allowed.to(device)
