"""Forward passes of a transformer trunk over prefix trees, and log-probs at action positions.

Only action positions reach the language-model head, in chunks of so many logits, gone when the next chunk comes: memory
grows neither with the length nor with the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from marft_agents.generation.sampling import SamplingLaw, scale
from marft_agents.models.prefix_tree import build_levels
from marft_agents.models.tree_attention import TreeAttention, run
from marft_agents.trajectory import IntArray

LOGITS = {"cpu": 128 * 49_152, "cuda": 2**26}  # per chunk of the head, of which six float32 matrices are held


def plan_micro_batches(sequences: Sequence[IntArray], max_rows: int) -> list[list[int]]:
    """Cut sequences into micro-batches of at most `max_rows`, similar ones together so that they share prefixes.

    Returns:
        Indices of each micro-batch; every sequence once.
    """
    order = sorted(range(len(sequences)), key=lambda i: sequences[i].tolist())
    return [order[start : start + max_rows] for start in range(0, len(order), max_rows)]


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
    tree = TreeAttention(build_levels(sequences), device)
    places = [path[len(p) - 1 :] for path, p in zip(tree.paths_of(sequences), prompts, strict=True)]
    hidden = run(trunk, tree.tokens, tree.positions, tree)[0]
    return hidden[torch.as_tensor(np.concatenate(places), device=device)]


@dataclass(frozen=True)
class TokenScores:
    """What the current policy says of recorded action tokens, flat over all actions of a batch.

    Attributes:
        logprobs: float32 [N], log-probability of each recorded token under the sampling law.
        entropy: float32 [N], entropy of the law at each position, in nats (no gradient unless asked for).
    """

    logprobs: Tensor
    entropy: Tensor


def score_tokens(
    head: Any,
    hidden: Tensor,
    tokens: Tensor,
    law: SamplingLaw,
    support: Sequence[IntArray | None] | None = None,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """Compute log-probs and entropies at action positions, a chunk of the vocabulary head at a time.

    Args:
        head: maps hidden [N, d] to logits [N, V].
        hidden: [N, d], the states that predict the tokens.
        tokens: int64 [N], the recorded tokens.
        law: the sampling law (its temperature scales the logits).
        support: per position the ids that could be drawn; None, as a whole or at a position, means all.
        entropy_gradient: keep the graph of the entropy (for an entropy bonus).
    """

    def chunk(states: Tensor, ids: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        logits = scale(head(states), law)
        if allowed is not None:
            logits = logits.masked_fill(~allowed, -torch.inf)
        logprobs = logits.log_softmax(-1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
            # outside the support p log p is 0: masking the log (not the product) keeps its gradient 0, not NaN
            finite = logprobs if allowed is None else logprobs.masked_fill(~allowed, 0.0)
            entropy = -(logprobs.exp() * finite).sum(-1)
        return logprobs.gather(-1, ids[:, None]).squeeze(-1), entropy

    adapted = any(p.requires_grad for p in head.parameters())  # then it is trained, and its logits are made again
    scores, entropies = [], []
    rows = chunk_rows(head.out_features, hidden.device)
    for start in range(0, len(tokens), rows):
        part = slice(start, start + rows)
        allowed = None if support is None else _support_rows(support[part], head.out_features, hidden.device)
        numbers = partial(chunk, ids=tokens[part], allowed=allowed)
        if adapted:
            score, entropy = checkpoint(numbers, hidden[part], use_reentrant=False)
        else:
            score, entropy = _RowWise.apply(hidden[part], numbers)  # type: ignore[no-untyped-call]
        scores.append(score)
        entropies.append(entropy)
    return TokenScores(torch.cat(scores), torch.cat(entropies))


def chunk_rows(vocabulary: int, device: torch.device) -> int:
    """Return how many positions go through the head at once, at least 16."""
    return max(16, LOGITS.get(device.type, LOGITS["cpu"]) // vocabulary)


class _RowWise(torch.autograd.Function):
    """Two numbers per row of hidden states, each of its own row alone, whose gradients are computed at once.

    A number's gradient is as wide as its row of hidden states, far less than the logits between them: logits are
    neither kept until the backward pass nor computed again in it.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, numbers: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Return the two numbers of each row [N], the second without gradient if it has none."""
        if not hidden.requires_grad:
            return numbers(hidden)
        with torch.enable_grad():
            rows = hidden.detach().requires_grad_()
            first, second = numbers(rows)
            slopes = [torch.autograd.grad(first.sum(), rows, retain_graph=second.requires_grad)[0]]
            if second.requires_grad:
                slopes += torch.autograd.grad(second.sum(), rows)
        ctx.save_for_backward(*slopes)
        first, second = first.detach(), second.detach()
        if len(slopes) == 1:
            ctx.mark_non_differentiable(second)
        return first, second

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Chain the gradients of the numbers with their slopes."""
        return sum(g[:, None].to(s.dtype) * s for g, s in zip(gradients, ctx.saved_tensors, strict=False)), None


def _support_rows(support: Sequence[IntArray | None], vocabulary: int, device: torch.device) -> Tensor:
    allowed = torch.zeros(len(support), vocabulary, dtype=torch.bool)
    for i, ids in enumerate(support):
        allowed[i, slice(None) if ids is None else torch.as_tensor(ids, dtype=torch.long)] = True
    return allowed.to(device)
