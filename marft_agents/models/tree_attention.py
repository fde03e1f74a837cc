"""Attention over prefix trees and over the KV cache, inside any transformers model.

A model that takes its attention from transformers' registry passes extra arguments of its forward to every attention
layer. Attention to a prefix tree, to prompts and to the KV cache is passed this way, as `seen_by`. The rest of the
network then runs once over exactly the distinct tokens, without padding. Only here does each token attend to its own
path of the tree.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from marft_agents.models.fused_layers import fuse
from marft_agents.models.model_error import ModelError
from marft_agents.models.prefix_tree import Indices, Level, build_levels
from marft_agents.models.pretrained import trunk_of
from marft_agents.trajectory import IntArray

NAME = "marft"
_WANTED = "wanted a decoder like Llama, Qwen, Mistral, SmolLM or Phi"


class LayerAttention(Protocol):
    """Attention object that a forward pass hands to every layer as `seen_by`."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Return [B, S, H, d] for query [B, H, S, d], key and value [B, H_kv, S, d] of this pass."""


def install(model: Any) -> None:
    """Let a transformers model attend through `seen_by`, and fuse its norms and rotary embeddings.

    Without that argument it computes as before.

    Raises:
        ModelError: Its hidden states or logits would not be those of its own forward pass.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    if not getattr(model, "_supports_attention_backend", False):
        raise ModelError(f"{type(model).__name__} does not take its attention from transformers' registry: {_WANTED}")
    probe = torch.tensor([[1, 2, 3, 4, 5, 6], [1, 2, 3, 7, 8, 9]], device=model.device)
    probe = 37 * probe % model.config.vocab_size  # the first ids are control tokens: bfloat16 logits of those are noise
    sequences = list(probe.cpu().numpy())  # they diverge: no state of one may leak into the other
    tree = TreeAttention(build_levels(sequences, [3]), model.device)
    paths = torch.as_tensor(np.stack(tree.paths_of(sequences)), device=model.device)
    calls = _Calls(tree)

    def close() -> bool:
        found = head(run(trunk, tree.tokens, tree.positions, calls)[0][paths])
        tolerance = 1e-3 if wanted.dtype == torch.float32 else 5e-2
        return torch.allclose(found, wanted, rtol=0, atol=tolerance * max(1.0, wanted.abs().max().item()))

    with torch.no_grad():
        wanted = model(probe).logits
        try:
            model.set_attn_implementation(NAME)
            trunk, head = trunk_of(model), model.get_output_embeddings()
            plain = close()
        except (AttributeError, RuntimeError) as error:
            raise ModelError(f"{type(model).__name__} has another form ({error}): {_WANTED}") from error
        calls.check(model)
        if not plain:
            raise ModelError(
                f"{type(model).__name__} computes more than attention, feed-forward layers and a linear head (it caps "
                f"or scales its logits, or keeps a state beside its attention): {_WANTED}"
            )
        undo, calls = fuse(model), _Calls(tree)
        if not close():
            undo()
            warnings.warn(
                f"{type(model).__name__}: its fused norms and rotary embeddings give other logits, so it keeps its own",
                stacklevel=2,
            )


class _Calls:
    """Attention of the probe, which also records who calls it.

    Args:
        tree: Computes the attention.
    """

    def __init__(self, tree: TreeAttention) -> None:
        self._tree = tree
        self._layers: list[int] = []
        self._windows: set[int | None] = set()

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attend, see `LayerAttention`."""
        self._layers.append(layer)
        self._windows.add(window)
        return self._tree.attend(layer, query, key, value, scale, window)

    def check(self, model: Any) -> None:
        """Refuse what the probe's logits cannot show: it caches no keys, and is shorter than any window.

        Raises:
            ModelError: A layer attends twice, or leaves its sliding window to the mask, which is not built here.
        """
        if len(set(self._layers)) < len(self._layers):
            raise ModelError(f"{type(model).__name__} attends more than once in a layer: {_WANTED}")
        if has_window(model.config) and self._windows == {None}:
            raise ModelError(f"{type(model).__name__} does not pass its sliding window to its attention: {_WANTED}")


def has_window(config: Any) -> bool:
    """Return True if some layer of a model sees less than its whole context."""
    config = config.get_text_config()
    if not getattr(config, "use_sliding_window", True):
        return False
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return False
    window = getattr(config, "sliding_window", None) or math.inf
    return bool(window < (getattr(config, "max_position_embeddings", None) or math.inf))


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    seen_by: LayerAttention | None = None,
    **given: Any,
) -> tuple[Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if seen_by is None:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **given)
        return output, None
    special = [name for name in ("softcap", "s_aux", "position_bias") if given.get(name) is not None]
    if special:
        raise ModelError(f"attention of {type(module).__name__} needs {', '.join(special)}: {_WANTED}")
    scale = given.get("scaling") or query.shape[-1] ** -0.5
    return seen_by.attend(module.layer_idx, query, key, value, scale, given.get("sliding_window")), None


def run(trunk: Any, tokens: Tensor, positions: Tensor, seen_by: LayerAttention) -> Tensor:
    """Run a transformer without its head; return its last hidden state [B, S, D].

    Args:
        trunk: Transformer after `install`.
        tokens: Input token ids, int64 [B, S].
        positions: Position of each token in its own sequence, int64 [B, S].
        seen_by: Attention object used in every layer.
    """
    prepared = tokens.new_ones(1, 1, 1, 1, dtype=torch.bool)  # a four-axis mask is used as given, so none is built
    with fast_products(trunk.dtype, tokens.device):
        hidden: Tensor = trunk(
            input_ids=tokens, position_ids=positions, attention_mask=prepared, use_cache=False, seen_by=seen_by
        ).last_hidden_state
    return hidden


@contextlib.contextmanager
def fast_products(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Let float32 products use tensor cores (TF32) in a `with` block, where the frozen weights are coarser anyway.

    Products of float32 adapters beside a bfloat16 trunk on CUDA are several times faster. All else is left as it is: a
    float32 trunk stays float32. The setting of before is restored.
    """
    before = torch.get_float32_matmul_precision()
    if dtype == torch.float32 or device.type != "cuda":
        yield
        return
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Grouped-query attention without repeated keys: the query heads of a group are folded into the query axis.

    Args:
        query: Queries, shape [R, W, H, d].
        key: Keys, shape [R, K, H_kv, d].
        value: Values, shape [R, K, H_kv, d].
        mask: Result of `causal_mask`; None if all is visible.
        scale: Factor of the attention scores.

    Returns:
        Attention output [R, W, H, d].
    """
    rows, width, heads, size = query.shape
    groups = heads // key.shape[2]
    folded = query.reshape(rows, width, -1, groups, size).permute(0, 2, 3, 1, 4).reshape(rows, -1, groups * width, size)
    key, value = key.transpose(1, 2), value.transpose(1, 2)  # [R, H_kv, K, d]
    if width > 1 and _is_slow_in_bfloat16(query):
        folded, key, value = folded.float(), key.float(), value.float()
    mask = None if mask is None else mask.to(folded.dtype)
    out = torch.nn.functional.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scale)
    out = out.to(query.dtype)
    return out.view(rows, -1, groups, width, size).permute(0, 3, 1, 2, 4).reshape(rows, width, heads, size)


def causal_mask(behind: Tensor, window: int | None, groups: int) -> Tensor:
    """Return what `attend` adds to its scores, float32 [R, 1, groups * W, K]; torch converts a bool mask each time.

    Args:
        behind: How many tokens each key is behind each query, int64 [R, W, K]; negative for later ones.
        window: Number of last tokens that a query sees, itself included; None for all.
        groups: Query heads for each head of keys.
    """
    return additive(behind >= 0 if window is None else (behind >= 0) & (behind < window), groups)


def additive(seen: Tensor, groups: int) -> Tensor:
    """Return 0 where a key is seen and -inf elsewhere, float32 [R, 1, groups * W, K] for bool [R, W, K]."""
    added = torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, -torch.inf)
    return added.repeat(1, groups, 1)[:, None]


def _is_slow_in_bfloat16(query: Tensor) -> bool:
    """Return True where torch's attention takes 1.7 times as long in bfloat16 as in float32: on a CPU without AMX."""
    on_cpu = query.device.type == "cpu" and query.dtype == torch.bfloat16
    return on_cpu and not torch.cpu._is_amx_tile_supported()


class _Stretch:
    """Packed positions of one level's tokens, and the keys they attend to.

    Attributes:
        path: Packed positions of the path to and in each row, int64 [R, start + W]; padding repeats the level's first.
        size: Number of its tokens, without padding.
        start: Depth of the first token.
    """

    def __init__(self, level: Level, first: int, before: Indices, device: torch.device) -> None:
        rows, self.start = len(level.tokens), level.start
        self.size = int(level.mask.sum())
        places = np.where(level.mask, np.cumsum(level.mask).reshape(level.mask.shape) - 1, 0)
        self.path = np.concatenate([before, places + first], axis=1)
        self._shape = rows, level.width
        full = self.size == places.size
        self._padding = None if full else torch.as_tensor(places.reshape(-1), device=device)
        self._real = None if full else torch.as_tensor(np.nonzero(level.mask.reshape(-1))[0], device=device)
        self._parents = torch.as_tensor(level.parents, device=device)

    def padded(self, packed: Tensor) -> Tensor:
        """Return the level's tokens [n, ...] padded to [R, W, ...]."""
        chosen = packed if self._padding is None else packed.index_select(0, self._padding)
        return chosen.view(*self._shape, *packed.shape[1:])

    def unpadded(self, rows: Tensor) -> Tensor:
        """Return the real tokens [n, ...] of padded [R, W, ...]."""
        flat = rows.flatten(0, 1)
        return flat if self._real is None else flat.index_select(0, self._real)

    def continued(self, before: Tensor | None, own: Tensor) -> Tensor:
        """Return [R, start + W, ...]: the values of each row's parent, followed by its own."""
        if before is None:
            return own
        one = len(before) == 1
        chosen = before.expand(len(own), *before.shape[1:]) if one else before.index_select(0, self._parents)
        return torch.cat([chosen, own], dim=1)

    def mask(self, window: int | None, groups: int, device: torch.device) -> Tensor:
        """Return the causal mask of `attend`: a token sees at most `window` last tokens of its path."""
        depth = self.path.shape[1]
        behind = torch.arange(self.start, depth, device=device)[:, None] - torch.arange(depth, device=device)
        return causal_mask(behind[None], window, groups)


class TreeAttention:
    """Attention in which every token of a prefix tree attends to its own path.

    Args:
        levels: Levels of the tree. The pass runs over their real tokens as one sequence: level by level, row by row.
        device: Device of the forward pass.

    Attributes:
        tokens: Distinct tokens of the tree, int64 [1, N].
        positions: Depths of these tokens in the tree, int64 [1, N].
    """

    def __init__(self, levels: Sequence[Level], device: torch.device) -> None:
        self._levels, self._device = levels, device
        self._stretches: list[_Stretch] = []
        first, before = 0, np.zeros((len(levels[0].tokens), 0), np.int64)
        for level in levels:
            if self._stretches:
                before = self._stretches[-1].path[level.parents]
            self._stretches.append(_Stretch(level, first, before, device))
            first += self._stretches[-1].size
        depths = [np.broadcast_to(level.start + np.arange(level.width), level.mask.shape) for level in levels]
        self.tokens = _packed([level.tokens for level in levels], levels, device)
        self.positions = _packed(depths, levels, device)
        self._masks: dict[tuple[int, int | None], Tensor] = {}

    def paths_of(self, sequences: Sequence[IntArray]) -> list[Indices]:
        """Return per sequence int64 [its length], the indices of its tokens among the N."""
        found = []
        for i, sequence in enumerate(sequences):
            size = len(sequence)
            last = next(k for k, level in enumerate(self._levels) if level.start < size <= level.start + level.width)
            found.append(self._stretches[last].path[self._levels[last].row_of[i], :size])
        return found

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attend level by level; see `LayerAttention`."""
        kind = torch.float32 if _is_slow_in_bfloat16(query) else query.dtype  # converted once, not in every level
        # [1, H, N, d] -> [N, H, d]; keys and values have H_kv heads
        packed = [x.squeeze(0).transpose(0, 1).to(kind) for x in (query, key, value)]
        sizes = [stretch.size for stretch in self._stretches]
        keys = values = None
        outputs = []
        for i, (stretch, q, k, v) in enumerate(zip(self._stretches, *(x.split(sizes) for x in packed), strict=True)):
            # the level's n tokens as R rows of W: [n, H_kv, d] -> [R, W, H_kv, d], behind those of the row's parent
            keys = stretch.continued(keys, stretch.padded(k))
            values = stretch.continued(values, stretch.padded(v))
            if (i, window) not in self._masks:
                self._masks[i, window] = stretch.mask(window, q.shape[1] // k.shape[1], self._device)
            out = attend(stretch.padded(q), keys, values, self._masks[i, window], scale)
            outputs.append(stretch.unpadded(out))  # [R, W, H, d] -> [n, H, d]
        return torch.cat(outputs)[None].to(query.dtype)  # [1, N, H, d]


def _packed(values: Sequence[Indices], levels: Sequence[Level], device: torch.device) -> Tensor:
    flat = np.concatenate([v[level.mask] for v, level in zip(values, levels, strict=True)])
    return torch.as_tensor(flat, device=device)[None]
