"""One step of decoding: trunk, head and sampling of all rows, over buffers that keep their addresses.

A step reads nothing from the device and copies nothing to it. All that the host decides lies in `StepBuffers`, written
before a block of steps. The host counts the tokens of every row, so it knows the shape of each step (`StepShape`).
Steps of one shape can be captured, as a CUDA graph, and replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from marft_agents.generation.kv_cache import KVCache, Layout
from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.token_sampling import choose
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.tree_attention import run


@dataclass(frozen=True)
class StepShape:
    """Sizes of a step. Steps of equal shape run the same operators on the same memory.

    Attributes:
        rows: Number of rows n, padding included.
        new: Tokens of each row S: the last one, and guessed ones behind it.
        depth: Visible tokens of a row K, without a shared prefix.
        families: Number of families F that share a prefix; 0 if no prefix is shared.
        members: Rows of the largest family G.
        prefix: Tokens of the longest shared prefix C.
        layout: Layout of the KV cache.
    """

    rows: int
    new: int
    depth: int
    families: int
    members: int
    prefix: int
    layout: Layout


class StepBuffers:
    """Inputs and outputs of steps on the device.

    Args:
        device: Device of the base.
        rows: Largest number of rows.
        new: Largest number of tokens of a row in a step.
        steps: Largest number of steps in a block.
        kept: Number of tokens that top-k keeps; 0 without top-k.

    Attributes:
        tokens: Last token of each row and guessed ones, int64 [rows, new].
        positions: Position of each row's last token, int64 [rows].
        last: Last position that a row may reach, int64 [rows].
        adapters: Number of each row's adapter, int64 [rows].
        shared: Length of each row's shared prefix, int64 [rows].
        family: Family of each row, int64 [rows].
        member: Its number in the family, int64 [rows].
        members: Rows of each family, int64 [F * G].
        uniforms: Uniform numbers, float64 [steps, rows * new].
        step: Number of the next step in its block, int64 [1].
        sampled: Sampled tokens, int64 [steps, rows * new].
        logprobs: Their log-probs, float32 [steps, rows * new].
        support: Tokens that top-k kept, int64 [steps, rows * new, k]; -1 where it kept fewer.
        nucleus: Support of the last step under top-p alone, int64 [rows * new, k]; else None.
    """

    def __init__(self, device: torch.device, *, rows: int, new: int, steps: int, kept: int) -> None:
        self._of_rows = torch.zeros(6, rows, dtype=torch.long, device=device)
        self.positions, self.last, self.adapters, self.shared, self.family, self.member = self._of_rows
        self.members = torch.zeros(rows * rows, dtype=torch.long, device=device)
        self.tokens = torch.zeros(rows, new, dtype=torch.long, device=device)
        self.uniforms = torch.zeros(steps, rows * new, dtype=torch.float64, device=device)
        self.step = torch.zeros(1, dtype=torch.long, device=device)
        self.sampled = torch.zeros(steps, rows * new, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(steps, rows * new, device=device)
        self.support = torch.full((steps, rows * new, kept), -1, dtype=torch.long, device=device)
        self.nucleus: Tensor | None = None

    def write(
        self,
        shape: StepShape,
        positions: Sequence[int],
        last: Sequence[int],
        adapters: Sequence[int],
        cache: KVCache,
        uniforms: npt.NDArray[np.float64],
    ) -> None:
        """Write what the host knows before a block of steps.

        Args:
            shape: Shape of the steps.
            positions: Position of the last token of each of the r <= n rows in use.
            last: Last position that each may reach.
            adapters: Number of the adapter of each.
            cache: KV cache of the rows.
            uniforms: Uniform numbers of the next tokens, float64 [steps, r, S].
        """
        used = len(positions)
        # Family of each row, and its number there: so a row finds its scores among those of all families, and back.
        family, member = [0] * used, [0] * used
        members = np.zeros((shape.families, shape.members), np.int64)
        for number, rows in enumerate(cache.members()):
            members[number, : len(rows)] = rows
            for place, row in enumerate(rows):
                family[row], member[row] = number, place
        of_rows = np.asarray([positions, last, adapters, cache.shared, family, member], np.int64)
        self._of_rows[:, :used] = torch.from_numpy(of_rows)  # in place: a captured step reads these very addresses
        self._of_rows[:, used : shape.rows] = 0
        self.members[: members.size] = torch.from_numpy(members.reshape(-1))
        self.uniforms[: len(uniforms), : used * shape.new] = torch.from_numpy(uniforms.reshape(len(uniforms), -1))
        self.step.zero_()

    def outputs(self, steps: int, count: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the sampled tokens, log-probs and support of a block, [steps, count, ...]; None without a support."""
        support = self.support[:steps, :count]
        if self.nucleus is not None:
            support = self.nucleus[None, :count]
        return self.sampled[:steps, :count], self.logprobs[:steps, :count], support if support.shape[-1] else None


def decode_step(
    base: AdaptedBase, sampling: SamplingParams, cache: KVCache, buffers: StepBuffers, shape: StepShape
) -> Tensor:
    """Run the last tokens of all rows, sample what follows, and move on to the next step.

    Without guesses the sampled tokens are the last ones of the next step. With guesses the host has to compare first.

    Args:
        base: The base model and its adapters.
        sampling: Sampling parameters of all rows.
        cache: KV cache; gets the keys and values of the tokens.
        buffers: Inputs and outputs.
        shape: Sizes of the step.

    Returns:
        Logits float [n * S, V].
    """
    rows, count = shape.rows, shape.rows * shape.new
    positions = buffers.positions[:rows, None]  # [n, S]
    if shape.new > 1:
        positions = positions + torch.arange(shape.new, device=positions.device)
    attention = _StepAttention(cache, buffers, shape, positions)
    # padding behind a short guess must not reach positions that the model does not have
    reached = positions.minimum(buffers.last[:rows, None])
    with base.adapters_of_rows(buffers.adapters[:rows, None]):
        hidden = run(base.trunk, buffers.tokens[:rows, : shape.new], reached, attention)  # [n, S, d]
        logits: Tensor = base.head(hidden).flatten(0, 1)  # [n * S, V]
    # `step` is a tensor, and outputs are written through it: a replayed graph has no other way to tell its number.
    uniforms = buffers.uniforms.index_select(0, buffers.step)[0, :count]
    tokens, logprobs, support = choose(logits, uniforms, sampling)
    buffers.sampled[:, :count].index_copy_(0, buffers.step, tokens[None])
    buffers.logprobs[:, :count].index_copy_(0, buffers.step, logprobs[None])
    if support is not None and sampling.top_k:
        buffers.support[:, :count, : support.shape[1]].index_copy_(0, buffers.step, support[None])
    else:
        buffers.nucleus = support
    buffers.tokens[:rows, 0] = tokens.view(rows, shape.new)[:, 0]
    buffers.positions[:rows] += 1
    buffers.step += 1
    return logits


class _StepAttention:
    """Attention of new tokens to the KV cache, see `LayerAttention`.

    Args:
        cache: KV cache of the rows.
        buffers: Inputs of the step.
        shape: Sizes of the step.
        positions: Positions of the new tokens, int64 [n, S].
    """

    def __init__(self, cache: KVCache, buffers: StepBuffers, shape: StepShape, positions: Tensor) -> None:
        self._cache, self._shape, self._positions = cache, shape, positions
        self._shared = buffers.shared[: shape.rows, None]
        self._places = positions - self._shared  # within the row's own keys, [n, S]: the shared ones lie elsewhere
        self._rows = torch.arange(shape.rows, device=positions.device)[:, None]
        self._family, self._member = (index[: shape.rows, None] for index in (buffers.family, buffers.member))
        self._members = buffers.members[: shape.families * shape.members].view(shape.families, 1, shape.members)
        self._masks: dict[tuple[int | None, int], Tensor] = {}  # by the window and head groups of a layer
        self._index: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attend with the new tokens of every row."""
        rows, heads, new, size = query.shape
        keys, values = self._cache.rows(layer, rows)  # [n, H_kv, room, d]
        keys[self._rows, :, self._places] = key.transpose(1, 2)
        values[self._rows, :, self._places] = value.transpose(1, 2)
        keys, values = keys[:, :, : self._shape.depth], values[:, :, : self._shape.depth]
        groups = heads // keys.shape[1]
        folded = query.reshape(rows, -1, groups * new, size)  # the g query heads of a key head: [n, H_kv, g * S, d]
        mask = self._mask(window, groups, query.dtype)
        if self._shape.families:
            out = self._with_prefixes(layer, folded * scale, keys, values, mask)
        else:
            mask = mask.expand(-1, -1, groups * new, -1)
            out = scaled_dot_product_attention(folded, keys, values, attn_mask=mask, scale=scale)
        return out.view(rows, heads, new, size).transpose(1, 2)

    def _with_prefixes(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Attend to the families' prefixes, read once a family, and to the rows' own tokens, [n, H_kv, g * S, d]."""
        shape, (_, kv, width, size) = self._shape, query.shape
        prefix_keys, prefix_values = (x[:, :, : shape.prefix] for x in self._cache.families(layer, shape.families))
        to_families, to_rows = self._heads(kv)
        # rows of a family as the queries of one product: [F, H_kv, G * g * S, d] with [F, H_kv, d, C]
        leading = shape.families, kv, shape.members * width
        grouped = query.flatten(0, 1).index_select(0, to_families).view(*leading, size)
        common = torch.matmul(grouped, prefix_keys.transpose(2, 3)).view(-1, width, shape.prefix)
        common = common.index_select(0, to_rows).view(-1, kv, width, shape.prefix)
        own = torch.matmul(query, keys.transpose(2, 3))  # [n, H_kv, g * S, K]
        scores = torch.cat([common, own], dim=-1).add_(mask)  # [n, H_kv, g * S, C + K]
        weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
        of_prefix, of_own = weights.split([shape.prefix, shape.depth], dim=-1)
        grouped = of_prefix.flatten(0, 1).index_select(0, to_families).view(*leading, shape.prefix)
        out = torch.matmul(grouped, prefix_values).view(-1, width, size)
        out = out.index_select(0, to_rows).view(-1, kv, width, size)
        return out + torch.matmul(of_own, values)

    def _heads(self, kv: int) -> tuple[Tensor, Tensor]:
        """Return where key heads of members lie among those of rows, int64 [F * H_kv * G], and back, [n * H_kv]."""
        if kv not in self._index:
            heads = torch.arange(kv, device=self._members.device)
            to_families = self._members * kv + heads[:, None]  # [F, H_kv, G]
            to_rows = (self._family * kv + heads) * self._shape.members + self._member  # [n, H_kv]
            self._index[kv] = to_families.flatten(), to_rows.flatten()
        return self._index[kv]

    def _mask(self, window: int | None, groups: int, dtype: torch.dtype) -> Tensor:
        """Return what is added to the scores: -inf for hidden tokens, [n, 1, g * S or 1, C + K]."""
        if (window, groups) not in self._masks:
            device, shape = self._places.device, self._shape
            shared, oldest = self._shared[:, :, None], None
            if window is not None:
                oldest = (self._positions - window + 1)[:, :, None]
            depth = torch.arange(shape.depth, device=device)
            hidden = depth > self._places[:, :, None]  # later tokens, and room that nothing was written to yet
            if oldest is not None:
                hidden = hidden | (depth + shared < oldest)
            if shape.families:
                length = torch.arange(shape.prefix, device=device)
                common = (length >= shared).expand(*self._places.shape, -1)  # behind the end of the row's own prefix
                hidden = torch.cat([common if oldest is None else common | (length < oldest), hidden], dim=-1)
            added = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, -torch.inf)
            # Queries are folded to g * S: one line of the mask serves all g where S = 1, else it is repeated g times.
            mask = added if shape.new == 1 else added.repeat(1, groups, 1)
            self._masks[window, groups] = mask[:, None]
        return self._masks[window, groups]
