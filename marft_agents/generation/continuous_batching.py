"""Continuous batching: sample actions of all agents in one batch, with exact log-probs.

Rows of one batch may use different adapters. Shared prompt prefixes are computed once per adapter, and their keys and
values are stored and read once. Prefixes of earlier prompts come from a `PromptCache`, where there is one. A finished
row leaves at once and the next waiting prompt takes its place. Log-probs come from the same forward pass that sampled
the token. Each row samples from its own generator, so its tokens do not depend on its neighbours (beyond float
rounding). A pass may confirm several tokens of a row where they were guessed (`drafting`).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marft_agents.generation.decode_step import StepBuffers
from marft_agents.generation.drafting import DraftLength, PromptLookup
from marft_agents.generation.kv_cache import families, worth_sharing
from marft_agents.generation.prompt_cache import PromptCache
from marft_agents.generation.prompt_tree import PromptTree
from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.step_engine import BLOCK, StepEngine
from marft_agents.generation.token_sampling import choose
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.tree_attention import run
from marft_agents.trajectory import Action, IntArray

JOIN = {"cpu": 16}  # tokens of a row after which a few waiting prompts join; one prefill of several is cheaper
FIXED_COST = {"cpu": 50.0}  # of a pass, in units of the cost of a token in it: a core is soon busy, a GPU late


@dataclass(frozen=True)
class Prompt:
    """One prompt to answer, with its generator and adapter.

    Attributes:
        ids: Prompt token ids, int32 [P], P >= 1.
        generator: Source of `max_new_tokens` uniform numbers, however long the action gets.
        adapter: Name of the LoRA adapter that answers; None selects the bare base model.
        limit: Most tokens of the action, if fewer than those of the sampling parameters.
        stop: Texts that end the action, see `AdaptedBase.cut`.
    """

    ids: IntArray
    generator: np.random.Generator
    adapter: str | None
    limit: int | None = None
    stop: tuple[str, ...] = ()


class _Row:
    """One action under generation.

    Attributes:
        begun: Number of tokens that were sampled, or will be by steps that run; those of `tokens` were read.
        ended: True if no further token counts.
    """

    def __init__(self, number: int, prompt: Prompt, sampling: SamplingParams, adapter: int) -> None:
        self.number, self.prompt, self.adapter = number, prompt, adapter
        # A block, or guessed tokens, may run past the last token: those read padding, and are thrown away.
        self.uniforms = np.append(prompt.generator.random(sampling.max_new_tokens), np.zeros(BLOCK))
        self.lookup: PromptLookup | None = None
        self.draft: list[int] = []  # guessed tokens behind the last one
        self.begun = 0
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.support: list[IntArray] = []
        self.ended = False


@dataclass(frozen=True)
class _Block:
    """Outputs of a block of steps, on their way to the host.

    Attributes:
        rows: Rows of the steps.
        new: Tokens of a row in a step, S.
        sampled: Sampled tokens, int64 [steps, n * S].
        logprobs: Their log-probs, float32 [steps, n * S].
        support: Their support, int64 [steps, n * S, k]; None if all tokens could be sampled.
        arrived: Event after the copies; None if they are complete.
    """

    rows: Sequence[_Row]
    new: int
    sampled: Tensor
    logprobs: Tensor
    support: Tensor | None
    arrived: Any = None


class Generation:
    """Continuous batch of actions on one base; finished rows leave and waiting prompts join.

    Args:
        base: The base model and its adapters.
        sampling: Sampling parameters of all rows.
        max_rows: Largest number of rows in the batch (affects memory and speed, not results).
        cache: Prompts of earlier generations with the same weights; this one's are added.
        engine: Runs the steps; one generation at a time. None makes one of `max_rows` rows.
    """

    def __init__(
        self,
        base: AdaptedBase,
        sampling: SamplingParams,
        *,
        max_rows: int = 128,
        cache: PromptCache | None = None,
        engine: StepEngine | None = None,
    ) -> None:
        self._base, self._sampling, self._cache = base, sampling, cache
        self._engine = engine or StepEngine(base, max_rows=max_rows)
        self._engine.cache.keep([])  # rows of a generation before that an error ended
        self._waiting: deque[_Row] = deque()
        self._rows: list[_Row] = []
        self._running: _Block | None = None
        self._join = JOIN.get(base.device.type, 8)
        self._tokens_since = 0  # tokens of the fastest row since the last prompts joined
        # A guess follows the last token, which the host knows only where each step is read before the next begins.
        self._drafts = self._engine.block(sampling) == 1
        self._draft_length = DraftLength(FIXED_COST.get(base.device.type, 512.0))
        self._numbers = itertools.count()
        base.refresh_adapters()  # an update may have changed them since the generation before

    @property
    def busy(self) -> bool:
        """True while some action is unfinished."""
        return bool(self._rows or self._waiting or self._running)

    def submit(self, prompt: Prompt) -> int:
        """Queue a prompt, from any thread; return the number under which `step` will return its action."""
        row = _Row(next(self._numbers), prompt, self._sampling, self._base.adapter_number(prompt.adapter))
        self._waiting.append(row)
        return row.number

    @torch.no_grad()
    def step(self) -> list[tuple[int, Action]]:
        """Sample the next tokens of every row; return actions that have ended, each with its number."""
        ended = []
        # A prefill stops the running rows. So prompts join at once only where they are half as many; else now and then.
        if self._tokens_since >= self._join or 2 * len(self._waiting) >= len(self._rows):
            ended, self._tokens_since = self._admit(), 0
        block = self._begin()
        if self._engine.block(self._sampling) > 1:  # read the block before, while this one runs
            block, self._running = self._running, block
        if block is not None:
            ended += self._read(block)
        self._remove()
        return [(row.number, self._action(row)) for row in ended]

    def _admit(self) -> list[_Row]:
        """Prefill waiting rows, those of all adapters in one pass; return those that ended with their first token."""
        engine, rows = self._engine, list(itertools.islice(self._waiting, self._engine.max_rows - len(self._rows)))
        room = self._sampling.max_new_tokens + engine.room
        count = engine.cache.fitting([len(row.prompt.ids) + room for row in rows])
        if rows and not count and not self._rows:
            raise ValueError(
                f"a prompt of {len(rows[0].prompt.ids)} tokens and an action of {self._sampling.max_new_tokens} do not "
                "fit into the KV cache: raise its size, or lower the context window"
            )
        rows = [self._waiting.popleft() for _ in range(count)]
        if not rows:
            return []
        logits = self._prefill([row.prompt for row in rows], room)
        uniforms = torch.as_tensor(np.stack([row.uniforms[0] for row in rows]), device=self._base.device)
        tokens, logprobs, support = choose(logits, uniforms, self._sampling)
        first = len(self._rows)
        engine.buffers(self._sampling).tokens[first : first + len(rows), 0] = tokens
        self._rows += rows
        for row in rows:
            row.begun = 1
        block = self._sent(rows, 1, tokens[None], logprobs[None], None if support is None else support[None])
        ended = self._read(block)
        self._remove()
        return ended

    def _prefill(self, batch: Sequence[Prompt], room: int) -> Tensor:
        """Prefill B prompts into the KV cache, shared prefixes once; return next-token logits [B, V]."""
        base, device = self._base, self._base.device
        prompts, adapters = [prompt.ids for prompt in batch], [prompt.adapter for prompt in batch]
        if self._cache is None:
            tree = PromptTree(prompts, adapters, [np.zeros(0, np.int64)] * len(prompts), {}, device)
        else:
            known = self._cache.find(adapters, prompts)
            tree = PromptTree(prompts, adapters, known, self._cache.kept, device)
        names, sizes = list(tree.runs), list(tree.runs.values())  # each adapter computes one run of the n tokens
        with base.active_adapters(names, sizes):
            hidden = run(base.trunk, tree.tokens, tree.positions, tree)[0]  # [1, n, d] -> [n, d]
        # Equal prompts have one last token, and the head is run on it once: E <= B rows, in the order of the tokens.
        ends, row_of_prompt = np.unique(tree.ends, return_inverse=True)
        ends_before = np.searchsorted(ends, np.cumsum(sizes))  # ends up to the last token of each adapter's run
        with base.active_adapters(names, np.diff(ends_before, prepend=0).tolist()):
            logits: Tensor = base.head(hidden[torch.as_tensor(ends, device=device)])  # [E, V]
        groups = worth_sharing(families(prompts, adapters), tree.kept, base.peft.config.num_attention_heads)
        self._engine.cache.add(tree.kept, tree.paths, groups, room)
        if self._cache is not None:
            self._cache.add(adapters, prompts, tree.paths, tree.kept)
        return logits[torch.as_tensor(row_of_prompt, device=device)]  # [E, V] -> [B, V]

    def _begin(self) -> _Block | None:
        """Begin a block of steps of all rows; return their outputs."""
        engine, buffers, rows = self._engine, self._engine.buffers(self._sampling), self._rows
        if not rows:
            return None
        longest = self._sampling.max_new_tokens
        steps = min(engine.block(self._sampling), longest - min(row.begun for row in rows))
        new = 1 + (self._guess(buffers) if self._drafts else 0)
        positions = [len(row.prompt.ids) + row.begun - 1 for row in rows]
        # Own tokens of the longest row: what it shares is read from its family's prefix.
        visible = max(p - shared for p, shared in zip(positions, engine.cache.shared, strict=True))
        shape = engine.shape(new=new, depth=visible + steps + new - 1)
        last_positions = [len(row.prompt.ids) + longest - 1 for row in rows]  # steps beyond stay there
        uniforms = np.empty((steps, len(rows), new))
        for number, row in enumerate(rows):
            for step in range(steps):
                first = row.begun + step
                uniforms[step, number] = row.uniforms[first : first + new]
        adapters = [row.adapter for row in rows]
        buffers.write(shape, positions, last_positions, adapters, engine.cache, uniforms)
        engine.run(self._sampling, shape, steps)
        for row in rows:
            row.begun += steps
        return self._sent(rows, new, *buffers.outputs(steps, len(rows) * new))

    def _guess(self, buffers: StepBuffers) -> int:
        """Write the last token of every row and guessed ones behind it; return how many there are at most."""
        of_prompts: dict[bytes, PromptLookup] = {}
        for row in self._rows:
            if row.lookup is None:
                prompt = row.prompt.ids.tobytes()
                if prompt not in of_prompts:
                    of_prompts[prompt] = PromptLookup(row.prompt.ids.tolist())
                row.lookup = of_prompts[prompt].copy()
                row.lookup.extend(row.tokens)
            row.draft = row.lookup.guess()[: self._sampling.max_new_tokens - row.begun]
        # As many guesses as pay off for a batch of this size; every row gets as many columns as the longest has.
        longest = self._draft_length.best(len(self._rows))
        guessed = max(min(longest, len(row.draft)) for row in self._rows)
        padded = []
        for row in self._rows:
            ids = [row.tokens[-1], *row.draft[:guessed]]
            padded.append(ids + [0] * (1 + guessed - len(ids)))
        buffers.tokens[: len(padded), : 1 + guessed] = torch.tensor(padded)
        return guessed

    def _sent(
        self, rows: Sequence[_Row], new: int, sampled: Tensor, logprobs: Tensor, support: Tensor | None
    ) -> _Block:
        """Send outputs to the host, without waiting for them."""
        arrived = torch.cuda.Event() if self._base.device.type == "cuda" else None

        def sent(output: Tensor) -> Tensor:
            if arrived is None:
                return output.clone()  # the next step writes into the same buffer
            return torch.empty_like(output, device="cpu", pin_memory=True).copy_(output, non_blocking=True)

        on_host = None if support is None else sent(support)
        block = _Block(list(rows), new, sent(sampled), sent(logprobs), on_host, arrived)
        if arrived is not None:
            arrived.record()
        return block

    def _read(self, block: _Block) -> list[_Row]:
        """Take in the tokens of a block; return the rows that ended with them."""
        if block.arrived is not None:
            block.arrived.synchronize()
        steps, rows, new = len(block.sampled), block.rows, block.new
        # [steps, n * S] -> [n, steps * S]: the tokens of a row stand together, in the order in which it sampled them.
        sampled = block.sampled.view(steps, len(rows), new).transpose(0, 1).flatten(1).tolist()
        logprobs = block.logprobs.view(steps, len(rows), new).transpose(0, 1).flatten(1).tolist()
        support: list[Any] = [None] * len(rows)
        if block.support is not None:  # [n, steps * S, k]
            support = list(block.support.view(steps, len(rows), new, -1).transpose(0, 1).flatten(1, 2).int().numpy())
        running = [row for row in rows if not row.ended]
        tried = right = most = 0
        for row, own, values, kept in zip(rows, sampled, logprobs, support, strict=True):
            if row.lookup is not None:
                tried += 1
                right += row.draft[:1] == own[:1]
            if row.ended:
                continue
            count = len(own)
            if new > 1:
                # A sampled token counts if all guesses before it were right: then it was sampled after the right text.
                count = 1
                for guess, token in zip(row.draft[: new - 1], own, strict=False):
                    if guess != token:
                        break
                    count += 1
            row.begun += count - steps  # `_begin` counted one token a step
            most = max(most, count)
            self._append(row, own[:count], values, kept)
        if tried:
            self._draft_length.observe(right, tried)
        self._tokens_since += most
        return [row for row in running if row.ended]

    def _append(
        self, row: _Row, tokens: Sequence[int], logprobs: Sequence[float], support: Sequence[IntArray] | None
    ) -> None:
        """Record tokens of a row up to its end."""
        longest = min(self._sampling.max_new_tokens, row.prompt.limit or self._sampling.max_new_tokens)
        tokens = tokens[: longest - len(row.tokens)]
        stop = next((k for k, token in enumerate(tokens) if token in self._base.end_ids), None)
        count = len(tokens) if stop is None else stop + 1
        row.tokens += tokens[:count]
        row.logprobs += logprobs[:count]
        if support is not None:
            row.support += list(support[:count])
        if row.lookup is not None:
            row.lookup.extend(tokens[:count])
        row.ended = stop is not None or len(row.tokens) == longest
        if row.prompt.stop and not row.ended:
            row.ended = self._base.stops(row.tokens, row.prompt.stop)

    def _remove(self) -> None:
        """Take rows out of the batch that have ended, or whose last tokens are on their way."""
        left = [k for k, row in enumerate(self._rows) if not row.ended and row.begun < self._sampling.max_new_tokens]
        if len(left) == len(self._rows):
            return
        order = self._engine.cache.keep(left)
        tokens = self._engine.buffers(self._sampling).tokens
        tokens[: len(order)] = tokens[torch.as_tensor(order, dtype=torch.long, device=self._base.device)]
        self._rows = [self._rows[k] for k in order]

    def _action(self, row: _Row) -> Action:
        support = tuple(ids[ids >= 0] for ids in row.support) if self._sampling.restricts_support else None
        action = self._base.action(row.prompt.ids, row.tokens, row.logprobs, support)
        return self._base.cut(action, None, row.prompt.stop) if row.prompt.stop else action


def generate(
    base: AdaptedBase,
    prompts: Sequence[Prompt],
    sampling: SamplingParams,
    *,
    max_rows: int = 128,
    cache: PromptCache | None = None,
    engine: StepEngine | None = None,
) -> list[Action]:
    """Sample one action per prompt, in the order of the prompts; see `Generation`."""
    generation = Generation(base, sampling, max_rows=max_rows, cache=cache, engine=engine)
    for prompt in prompts:
        generation.submit(prompt)
    actions: dict[int, Action] = {}
    while generation.busy:
        actions.update(generation.step())
    return [actions[i] for i in range(len(prompts))]
