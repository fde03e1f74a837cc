"""Batched sampling of actions with exact log-probabilities.

Prompts that share a prefix are prefilled once, identical prompts share one row of the prefill, rows that ended
leave the batch. Log-probs come from the very pass that sampled the token. Each row draws from its own generator,
so what a row samples does not depend on its neighbours (beyond float rounding).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marft_agents.forward import run_level
from marft_agents.prefix_tree import build_levels, choose_cuts, pad
from marft_agents.records import Action, IntArray
from marft_agents.sampling import SamplingLaw, choose

KEEP_FINISHED_SHARE = 0.2  # compact the batch when more than this share of its rows has ended


class _Row:
    """The growing action of one request."""

    def __init__(self, prompt: IntArray) -> None:
        self.prompt = prompt
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.support: list[IntArray] = []
        self.stopped = False


@torch.no_grad()
def generate(
    trunk: Any,
    head: Any,
    tokenizer: Any,
    prompts: Sequence[IntArray],
    law: SamplingLaw,
    generators: Sequence[np.random.Generator],
    *,
    end_ids: frozenset[int],
    device: torch.device,
) -> list[Action]:
    """Sample one action per prompt.

    Args:
        trunk: transformer without head, with the acting agent's adapter active.
        head: language-model head.
        tokenizer: decodes the actions.
        prompts: int32 [P_i] each, P_i >= 1.
        law: the sampling law.
        generators: one per prompt; each gives `law.max_new_tokens` uniform numbers, however long the action.
        end_ids: tokens that end an action.
        device: where to compute.

    Returns:
        Actions in the order of the prompts.
    """
    uniforms = torch.as_tensor(np.stack([g.random(law.max_new_tokens) for g in generators]), device=device)
    rows = [_Row(prompt) for prompt in prompts]
    logits, cache, mask, positions = _prefill(trunk, head, prompts, device)
    alive = list(range(len(rows)))
    for step in range(law.max_new_tokens):
        tokens, logprobs, support = choose(logits, uniforms[alive, step], law)
        _record(rows, alive, tokens, logprobs, support, end_ids)
        if all(rows[i].stopped for i in alive) or step + 1 == law.max_new_tokens:
            break
        keep = [k for k, i in enumerate(alive) if not rows[i].stopped]
        if len(keep) < (1 - KEEP_FINISHED_SHARE) * len(alive):
            index = torch.as_tensor(keep, device=device)
            cache.batch_select_indices(index)
            tokens, mask, positions = tokens[index], mask[index], positions[index]
            alive = [alive[k] for k in keep]
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        positions = positions + 1
        hidden = trunk(
            input_ids=tokens[:, None],
            attention_mask=mask,
            position_ids=positions[:, None],
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        logits = head(hidden[:, -1])
    return [_finish(row, tokenizer, law) for row in rows]


def _prefill(
    trunk: Any, head: Any, prompts: Sequence[IntArray], device: torch.device
) -> tuple[Tensor, Any, Tensor, Tensor]:
    """Run the prompts, shared prefixes once; return next-token logits, cache, mask and last positions per row.

    Every level but the last is full; the last holds the distinct prompts' ends, padded on the left so that all rows
    decode at the same cache index.
    """
    from transformers import DynamicCache

    distinct: dict[bytes, int] = {}
    row_of = [distinct.setdefault(prompt.tobytes(), len(distinct)) for prompt in prompts]
    unique = [np.frombuffer(key, np.int32) for key in distinct]
    cuts = choose_cuts(unique, limit=min(map(len, unique)) - 1)
    levels = build_levels([prompt[: cuts[-1]] for prompt in unique], cuts[:-1]) if cuts else []
    cache = DynamicCache()
    for level in levels:
        run_level(trunk, cache, level, device)
    start = cuts[-1] if cuts else 0
    if levels:
        cache.batch_select_indices(torch.as_tensor(levels[-1].row_of, device=device))
    tokens, ends = pad([prompt[start:] for prompt in unique], max(map(len, unique)) - start, left=True)
    mask = torch.as_tensor(ends, device=device)
    mask = torch.cat([mask.new_ones(len(unique), start), mask], dim=1).long()
    positions = (mask.cumsum(1) - 1).clamp(min=0)[:, start:]
    hidden = trunk(
        input_ids=torch.as_tensor(tokens, device=device),
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
    ).last_hidden_state
    logits: Tensor = head(hidden[:, -1])
    index = torch.as_tensor(row_of, device=device)
    if len(unique) < len(prompts):
        cache.batch_select_indices(index)
    return logits[index], cache, mask[index], positions[index, -1]


def _record(
    rows: list[_Row],
    alive: list[int],
    tokens: Tensor,
    logprobs: Tensor,
    support: Tensor | None,
    end_ids: frozenset[int],
) -> None:
    for k, (i, token, logprob) in enumerate(zip(alive, tokens.tolist(), logprobs.tolist(), strict=True)):
        row = rows[i]
        if row.stopped:
            continue
        row.tokens.append(token)
        row.logprobs.append(logprob)
        row.stopped = token in end_ids
        if support is not None:
            row.support.append(support[k].nonzero().squeeze(-1).cpu().numpy().astype(np.int32))


def _finish(row: _Row, tokenizer: Any, law: SamplingLaw) -> Action:
    text_ids = row.tokens[:-1] if row.stopped else row.tokens
    return Action(
        text=tokenizer.decode(text_ids, skip_special_tokens=True),
        prompt_ids=row.prompt,
        token_ids=np.asarray(row.tokens, np.int32),
        logprobs=np.asarray(row.logprobs, np.float32),
        stopped=row.stopped,
        support=tuple(row.support) if law.restricts_support else None,
    )
