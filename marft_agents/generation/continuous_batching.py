"""Continuous batching: sample actions of all agents in one batch, with exact log-probs.

Rows of one batch may use different adapters. Shared prompt prefixes are computed once per adapter, and their keys and
values are stored and read once. Prefixes of earlier prompts come from a `PromptCache`, where there is one. A finished
row leaves at once and the next waiting prompt takes its place. Log-probs come from the same forward pass that sampled
the token. Each row samples from its own generator, so its tokens do not depend on its neighbours (beyond float
rounding). A pass may confirm several tokens of a row where they were guessed (`drafting`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from marft_agents.generation.drafting import LONGEST_DRAFT, DraftLength, PromptLookup
from marft_agents.generation.kv_cache import Slots, families
from marft_agents.generation.prompt_cache import PromptCache
from marft_agents.generation.prompt_tree import PromptTree
from marft_agents.generation.sampling import SamplingParams, choose
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.tree_attention import run
from marft_agents.trajectory import Action, IntArray

FIXED_COST = {"cpu": 50.0}  # of a pass, in units of the cost of a token in it: a core is soon busy, a GPU late


@dataclass(frozen=True)
class Prompt:
    """One prompt to answer, with its generator and adapter.

    Attributes:
        ids: Prompt token ids, int32 [P], P >= 1.
        generator: Source of `max_new_tokens` uniform numbers, however long the action gets.
        adapter: Name of the LoRA adapter that answers; None selects the bare base model.
    """

    ids: IntArray
    generator: np.random.Generator
    adapter: str | None


class _Row:
    """One action under generation."""

    def __init__(self, number: int, prompt: Prompt, law: SamplingParams) -> None:
        self.number, self.prompt = number, prompt
        self.uniforms = np.append(prompt.generator.random(law.max_new_tokens), np.zeros(LONGEST_DRAFT))
        self.lookup = PromptLookup(prompt.ids.tolist())
        self.draft: list[int] = []  # guessed tokens behind the last one
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.support: list[IntArray] = []
        self.stopped = False


class Generation:
    """Continuous batch of actions on one base; finished rows leave and waiting prompts join.

    Args:
        base: The base model and its adapters.
        law: Sampling parameters of all rows.
        max_rows: Largest number of rows in the batch (affects memory and speed, not results).
        cache: Prompts of earlier generations with the same weights; this one's are added.
    """

    def __init__(
        self, base: AdaptedBase, law: SamplingParams, *, max_rows: int = 128, cache: PromptCache | None = None
    ) -> None:
        self._base, self._law, self._max_rows, self._cache = base, law, max_rows, cache
        self._waiting: deque[_Row] = deque()
        self._rows: list[_Row] = []
        self._slots = Slots(base.device)
        self._logits: Tensor | None = None  # [n, S, V]: behind the last token of each row and the guessed ones
        self._draft_length = DraftLength(FIXED_COST.get(base.device.type, 512.0))
        self._submitted = 0
        base.refresh_adapters()

    @property
    def busy(self) -> bool:
        """True while some action is unfinished."""
        return bool(self._rows or self._waiting)

    def submit(self, prompt: Prompt) -> int:
        """Queue a prompt; return the number under which `step` will return its action."""
        self._waiting.append(_Row(self._submitted, prompt, self._law))
        self._submitted += 1
        return self._submitted - 1

    @torch.no_grad()
    def step(self) -> list[tuple[int, Action]]:
        """Sample the next tokens of every row; return the actions that ended with them, each with its number."""
        while self._waiting and len(self._rows) < self._max_rows:
            self._admit()
        assert self._logits is not None, "nothing was submitted"
        new = self._logits.shape[1]
        uniforms = np.stack([row.uniforms[len(row.tokens) : len(row.tokens) + new] for row in self._rows])
        uniform = torch.as_tensor(uniforms.reshape(-1), device=self._base.device)
        tokens, logprobs, support = choose(self._logits.flatten(0, 1), uniform, self._law)
        sampled, logprob = tokens.view(-1, new).tolist(), logprobs.view(-1, new).tolist()
        allowed = None if support is None else support.view(len(self._rows), new, -1).cpu().numpy().astype(np.int32)
        confirmed = [_right(row.draft[: new - 1], own) for row, own in zip(self._rows, sampled, strict=True)]
        self._draft_length.observe(
            sum(row.draft[:1] == own[:1] for row, own in zip(self._rows, sampled, strict=True)), len(self._rows)
        )
        for k, (row, right) in enumerate(zip(self._rows, confirmed, strict=True)):
            for j in range(right + 1):
                self._append(row, sampled[k][j], logprob[k][j], None if allowed is None else allowed[k, j])
                if self._ended(row):
                    break
        self._slots.confirm(confirmed)
        finished = [(row.number, self._action(row)) for row in self._rows if self._ended(row)]
        if finished:
            order = self._slots.keep([k for k, row in enumerate(self._rows) if not self._ended(row)])
            self._rows = [self._rows[k] for k in order]
        self._logits = self._next() if self._rows else None
        return finished

    def _append(self, row: _Row, token: int, logprob: float, support: IntArray | None) -> None:
        row.tokens.append(token)
        row.logprobs.append(logprob)
        row.lookup.extend([token])
        row.stopped = token in self._base.end_ids
        if support is not None:
            row.support.append(support[support >= 0])

    def _ended(self, row: _Row) -> bool:
        return row.stopped or len(row.tokens) == self._law.max_new_tokens

    def _action(self, row: _Row) -> Action:
        support = tuple(row.support) if self._law.restricts_support else None
        return self._base.action(row.prompt.ids, row.tokens, row.logprobs, support)

    def _admit(self) -> None:
        """Prefill waiting rows, those of all adapters in one pass."""
        rows = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._max_rows - len(self._rows)))]
        logits = self._prefill([row.prompt for row in rows])[:, None]
        if self._logits is not None:  # new rows have no guesses
            logits = torch.cat([self._logits, pad(logits, (0, 0, 0, self._logits.shape[1] - 1))])
        self._logits = logits
        self._rows += rows

    def _prefill(self, rows: Sequence[Prompt]) -> Tensor:
        """Prefill prompts into the KV cache, shared prefixes once; return next-token logits [B, V]."""
        prompts, adapters = [row.ids for row in rows], [row.adapter for row in rows]
        known = [None] * len(rows) if self._cache is None else self._cache.find(adapters, prompts)
        tree = PromptTree(prompts, adapters, known, self._base.device)
        ends, of_row = np.unique(tree.ends, return_inverse=True)
        with self._base.active_adapters(list(tree.runs), list(tree.runs.values())):
            hidden = run(self._base.trunk, tree.tokens, tree.positions, tree)[0]
        last = np.searchsorted(ends, np.cumsum(list(tree.runs.values())))
        with self._base.active_adapters(list(tree.runs), np.diff(last, prepend=0).tolist()):
            logits: Tensor = self._base.head(hidden[torch.as_tensor(ends, device=self._base.device)])
        self._slots.add(tree.kept, tree.paths, families(prompts, adapters), self._law.max_new_tokens + LONGEST_DRAFT)
        if self._cache is not None:
            self._cache.add(adapters, prompts, tree.paths, tree.kept)
        return logits[torch.as_tensor(of_row, device=self._base.device)]

    def _next(self) -> Tensor:
        """Run the last token of every row and the guessed ones behind it; return the logits behind each, [n, S, V]."""
        longest = self._draft_length.best(len(self._rows))
        for row in self._rows:
            row.draft = row.lookup.guess()[: self._law.max_new_tokens - len(row.tokens)]
        new = 1 + max(min(longest, len(row.draft)) for row in self._rows)
        given = [[row.tokens[-1], *row.draft[: new - 1]] for row in self._rows]
        tokens = torch.tensor([ids + [0] * (new - len(ids)) for ids in given], device=self._base.device)
        # padding behind a short guess must not reach positions that the model does not have
        last = [[len(row.prompt.ids) + self._law.max_new_tokens - 1] for row in self._rows]
        positions = self._slots.grow(new).minimum(torch.tensor(last, device=self._base.device))
        with self._base.active_adapters([row.prompt.adapter for row in self._rows]):
            hidden = run(self._base.trunk, tokens, positions, self._slots)
            logits: Tensor = self._base.head(hidden)
        return logits


def _right(draft: Sequence[int], sampled: Sequence[int]) -> int:
    """Return how many guessed tokens equal the sampled ones before the first that does not."""
    return next((k for k, (a, b) in enumerate(zip(draft, sampled, strict=False)) if a != b), len(draft))


def generate(
    base: AdaptedBase,
    prompts: Sequence[Prompt],
    law: SamplingParams,
    *,
    max_rows: int = 128,
    cache: PromptCache | None = None,
) -> list[Action]:
    """Sample one action per prompt, in the order of the prompts; see `Generation`."""
    generation = Generation(base, law, max_rows=max_rows, cache=cache)
    for prompt in prompts:
        generation.submit(prompt)
    actions: dict[int, Action] = {}
    while generation.busy:
        actions.update(generation.step())
    return [actions[i] for i in range(len(prompts))]
