"""Forward passes of a transformer trunk over prefix trees, and log-probs at action positions.

Only action positions reach the language-model head, in chunks of bounded size. The logits of a chunk are freed before
the next chunk, so memory grows neither with the length nor with the vocabulary.
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

from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.token_sampling import scale
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.tree_attention import run
from marft_agents.models.tree_mask import lay_out
from marft_agents.trajectory import Action, IntArray

LOGITS = {"cpu": 128 * 49_152, "cuda": 2**26}  # per chunk of the head; six float32 matrices of this size are held

NO_TOKENS: IntArray = np.zeros(0, np.int32)
ONE_TOKEN: IntArray = np.zeros(1, np.int32)  # placeholder of a prompt or action


def action_hidden(trunk: Any, prompts: Sequence[IntArray], actions: Sequence[IntArray], device: torch.device) -> Tensor:
    """Compute the hidden states that predict the action tokens.

    Args:
        trunk: Transformer without language-model head.
        prompts: Token ids of each prompt, int32 [P_i], P_i >= 1.
        actions: Token ids of each action, int32 [T_i], T_i >= 1.
        device: Device of the trunk.

    Returns:
        Hidden states [sum T_i, d], rows in the order of the actions. Without actions [0, d], from a pass over one
        token: other ranks gather the weights of sharded layers from this one.
    """
    if not actions:
        return action_hidden(trunk, [ONE_TOKEN], [ONE_TOKEN], device)[:0]
    # The state at a token predicts the next one: the last prompt token the first of the action, and nothing is
    # predicted from the action's last token, so it is not read.
    sequences = [np.concatenate([p, a[:-1]]) for p, a in zip(prompts, actions, strict=True)]  # [P_i + T_i - 1] each
    tree = lay_out(sequences, trunk, device)
    places = [path[len(p) - 1 :] for path, p in zip(tree.paths_of(sequences), prompts, strict=True)]  # [T_i] each
    hidden = run(trunk, tree.tokens, tree.positions, tree)[0]  # [distinct tokens, d]
    return hidden[torch.as_tensor(np.concatenate(places), device=device)]


@dataclass(frozen=True)
class TokenScores:
    """Log-probs and entropies of recorded action tokens under the current policy, flat over a batch.

    Attributes:
        logprobs: Float32 [N], log-prob of each recorded token under the sampling parameters.
        entropy: Float32 [N], entropy of the distribution at each position, in nats; no gradient unless asked for.
    """

    logprobs: Tensor
    entropy: Tensor


def score_pass(
    base: AdaptedBase,
    adapter: str | None,
    actions: Sequence[Action],
    sampling: SamplingParams,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """Compute log-probs and entropies of recorded actions in one forward pass, with their graph.

    Args:
        base: Base model that holds the adapter.
        adapter: Name of the adapter; None: the bare base.
        actions: Recorded actions, with N tokens in all; none for a pass that other ranks need.
        sampling: Sampling parameters of the recorded actions.
        entropy_gradient: True to keep the graph of the entropy.
    """
    prompts, token_ids = [a.prompt_ids for a in actions], [a.token_ids for a in actions]
    with base.active_adapter(adapter):
        hidden = action_hidden(base.trunk, prompts, token_ids, base.device)  # [N, d]
        return score_actions(base, hidden, actions, sampling, entropy_gradient=entropy_gradient)


def score_actions(
    base: AdaptedBase,
    hidden: Tensor,
    actions: Sequence[Action],
    sampling: SamplingParams,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """Compute log-probs and entropies of recorded tokens from the hidden states that predict them.

    Args:
        base: Base model, under the adapter that gave the hidden states.
        hidden: Hidden states [N, d] at the N tokens, from `action_hidden`.
        actions: Recorded actions, with N tokens in all.
        sampling: Sampling parameters of the recorded actions.
        entropy_gradient: True to keep the graph of the entropy.
    """
    token_ids = [NO_TOKENS]  # `concatenate` needs one array at least
    supports: list[IntArray | None] = []  # by token; None: every id could be sampled
    for action in actions:
        token_ids.append(action.token_ids)
        supports += action.support or [None] * len(action.token_ids)
    tokens = torch.as_tensor(np.concatenate(token_ids), dtype=torch.long, device=base.device)  # [N]
    # Without any restriction the whole row of logits is read, with no ids to gather.
    restricted = supports if any(ids is not None for ids in supports) else None
    return score_tokens(base.head, hidden, tokens, sampling, restricted, entropy_gradient=entropy_gradient)


def score_tokens(
    head: Any,
    hidden: Tensor,
    tokens: Tensor,
    sampling: SamplingParams,
    support: Sequence[IntArray | None] | None = None,
    *,
    entropy_gradient: bool = False,
) -> TokenScores:
    """Compute log-probs and entropies at action positions, a chunk of the vocabulary head at a time.

    Args:
        head: Language-model head; maps hidden [N, d] to logits [N, V].
        hidden: Hidden states [N, d] that predict the tokens.
        tokens: Int64 [N], the recorded tokens.
        sampling: Sampling parameters (the temperature scales the logits).
        support: Per position the ids that could be sampled; None, as a whole or at a position, means all.
        entropy_gradient: True to keep the graph of the entropy (for an entropy bonus).
    """
    with_support = [] if support is None else [i for i, ids in enumerate(support) if ids is not None]
    if support is not None and 0 < len(with_support) < len(support):
        # Positions with a support gather its ids, the others read the whole row: two calls, then the old order.
        without = [i for i, ids in enumerate(support) if ids is None]
        ids = [support[i] for i in with_support]
        some, rest = (
            score_tokens(head, hidden[rows], tokens[rows], sampling, own, entropy_gradient=entropy_gradient)
            for rows, own in ((with_support, ids), (without, None))
        )
        order = torch.as_tensor(np.argsort([*with_support, *without]), device=hidden.device)
        return TokenScores(
            torch.cat([some.logprobs, rest.logprobs])[order], torch.cat([some.entropy, rest.entropy])[order]
        )
    kept = _padded(support, hidden.device) if support is not None and with_support else None

    def chunk(part: slice, states: Tensor) -> tuple[Tensor, Tensor]:
        logits = scale(head(states), sampling)  # [rows, V]
        chosen, left_out = tokens[part, None], None
        if kept is not None:  # logits of the ids that could be sampled, [rows, k]; -inf where there are fewer
            chosen, left_out = (kept[part] == chosen).int().argmax(-1, keepdim=True), kept[part] < 0
            logits = logits.gather(-1, kept[part].clamp(min=0)).masked_fill(left_out, -torch.inf)
        logprobs = logits.log_softmax(-1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
            # outside the support p log p is 0: masking the log (not the product) keeps its gradient 0, not NaN
            finite = logprobs if left_out is None else logprobs.masked_fill(left_out, 0.0)
            entropy = -(logprobs.exp() * finite).sum(-1)
        return logprobs.gather(-1, chosen).squeeze(-1), entropy  # [rows] each

    return TokenScores(*by_rows(head, hidden, chunk))


def _padded(support: Sequence[IntArray | None], device: torch.device) -> Tensor:
    """Return int64 [N, k]: the ids that could be sampled at each position, with -1 behind them."""
    ids = [own for own in support if own is not None]
    sizes = np.fromiter(map(len, ids), np.int64, len(ids))
    padded = np.full((len(ids), sizes.max()), -1, np.int64)
    padded[np.arange(sizes.max()) < sizes[:, None]] = np.concatenate(ids)
    return torch.as_tensor(padded, device=device)


def by_rows(
    head: Any, hidden: Tensor, numbers: Callable[[slice, Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Compute two numbers per row of hidden states from their logits, a chunk of rows at a time.

    Args:
        head: Language-model head; maps hidden [rows, d] to logits [rows, V].
        hidden: Hidden states [N, d].
        numbers: Maps the place of a chunk and its hidden states [rows, d] to two numbers per row, each of which depends
            on its own row alone; the second may have no graph.

    Returns:
        Two tensors [N].
    """
    adapted = any(p.requires_grad for p in head.parameters())  # a trained head recomputes its logits in backward
    first, second = [], []
    rows = chunk_rows(head.out_features, hidden.device)
    for start in range(0, max(1, len(hidden)), rows):
        part = slice(start, start + rows)
        work = partial(numbers, part)
        if adapted:
            one, other = checkpoint(work, hidden[part], use_reentrant=False)
        else:
            one, other = _RowWise.apply(hidden[part], work)  # type: ignore[no-untyped-call]
        first.append(one)
        second.append(other)
    return torch.cat(first), torch.cat(second)


def chunk_rows(vocabulary: int, device: torch.device) -> int:
    """Return the number of positions per chunk of the head, at least 16."""
    return max(16, LOGITS.get(device.type, LOGITS["cpu"]) // vocabulary)


class _RowWise(torch.autograd.Function):
    """Two numbers per row of hidden states, with their gradients computed in the forward pass.

    Each number depends on its own row alone, so its gradient is as wide as a hidden state, far less than the logits.
    Logits are neither kept for the backward pass nor recomputed in it.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, numbers: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Compute the two numbers of each row, [N] each; the second is not differentiable if it has no graph."""
        if not hidden.requires_grad:
            return numbers(hidden)
        with torch.enable_grad():
            rows = hidden.detach().requires_grad_()
            first, second = numbers(rows)
            # Row i of the gradient of the sum is the gradient of number i: no number depends on another row.
            slopes = [torch.autograd.grad(first.sum(), rows, retain_graph=second.requires_grad)[0]]  # [N, d]
            if second.requires_grad:
                slopes += torch.autograd.grad(second.sum(), rows)
        ctx.save_for_backward(*slopes)
        first, second = first.detach(), second.detach()
        if len(slopes) == 1:
            ctx.mark_non_differentiable(second)
        return first, second

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Multiply incoming gradients [N] by the saved slopes [N, d] and add them."""
        return sum(g[:, None].to(s.dtype) * s for g, s in zip(gradients, ctx.saved_tensors, strict=False)), None
