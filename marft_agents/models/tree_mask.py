"""Attention over a prefix tree by one mask, in one call a layer however its sequences share beginnings.

The distinct tokens stand in depth-first order, and `end[k]` is the last token of the subtree of token k. Then query q
sees key k if and only if k <= q <= end[k]. With a sliding window it must also be less than a window deeper.

On CUDA this is the mask of FlexAttention, which skips hidden blocks and builds no matrix. Few tokens take a dense mask.
On a CPU, and where a self-check finds FlexAttention missing or wrong, many tokens are cut into levels
(`tree_attention.TreeAttention`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marft_agents.models.prefix_tree import Indices, build_levels, common_prefix
from marft_agents.models.tree_attention import TreeAttention, additive, attend, has_window
from marft_agents.trajectory import IntArray

SHORTEST = 1024  # tokens from which FlexAttention is faster than a dense mask
DENSE_ON_CPU = 256  # most tokens for which one dense product is faster than levels
BLOCK = 128  # queries and keys of a block of FlexAttention
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.05}  # of FlexAttention beside a dense mask, relative to the norm

Flex = Callable[..., Any]


@dataclass(frozen=True)
class DepthFirst:
    """Distinct tokens of a prefix tree in depth-first order.

    Attributes:
        tokens: Token ids, int64 [N].
        depth: Depth of each token, 0 for the first of a sequence, int64 [N].
        end: Last token of each token's subtree, int64 [N].
        paths: Indices of each sequence's tokens, int64 [its length] each.
    """

    tokens: Indices
    depth: Indices
    end: Indices
    paths: list[Indices]

    @classmethod
    def of(cls, sequences: Sequence[IntArray]) -> DepthFirst:
        """Lay out sequences of at least one token each."""
        paths: list[Indices] = [np.zeros(0, np.int64)] * len(sequences)
        end = np.zeros(sum(map(len, sequences)), np.int64)
        tokens: list[IntArray] = []
        before, path, size = np.zeros(0, np.int32), np.zeros(0, np.int64), 0
        for i in sorted(range(len(sequences)), key=lambda i: sequences[i].tolist()):
            shared = common_prefix(before, sequences[i])
            end[path[shared:]] = size - 1
            tokens.append(sequences[i][shared:])
            path = np.concatenate([path[:shared], np.arange(size, size + len(tokens[-1]))])
            size += len(tokens[-1])
            before, paths[i] = sequences[i], path
        end[path] = size - 1
        depth = np.zeros(size, np.int64)
        for path in paths:
            depth[path] = np.arange(len(path))
        return cls(np.concatenate(tokens).astype(np.int64), depth, end[:size], paths)


class TreeMask:
    """Attention in which every token of a prefix tree attends to its own path, by one mask.

    Args:
        tree: Tokens of the batch.
        device: Device of the forward pass.
        flex: FlexAttention; None for a dense mask.

    Attributes:
        tokens: Distinct tokens, int64 [1, N].
        positions: Their depths, int64 [1, N].
    """

    def __init__(self, tree: DepthFirst, device: torch.device, flex: Flex | None = None) -> None:
        self._tree, self._flex = tree, flex
        self._depth, self._end = (torch.as_tensor(a, device=device) for a in (tree.depth, tree.end))
        self.tokens, self.positions = torch.as_tensor(tree.tokens, device=device)[None], self._depth[None]
        self._masks: dict[tuple[int | None, int], Any] = {}

    def paths_of(self, sequences: Sequence[IntArray]) -> list[Indices]:
        """Return per sequence int64 [its length], the indices of its tokens among the N."""
        return self._tree.paths

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attend with all tokens at once; see `LayerAttention`."""
        groups = query.shape[1] // key.shape[1]
        if self._flex is None:
            if (window, groups) not in self._masks:
                self._masks[window, groups] = self._dense(window, groups)
            mask = self._masks[window, groups]
            return attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), mask, scale)
        if (window, 1) not in self._masks:
            self._masks[window, 1] = self._blocks(window)
        # The backward pass runs one program for each block of keys and head of keys, and the blocks of a prompt are
        # seen by all of its answers. Repeated heads cut these few long programs into many short ones.
        repeated = [each.repeat_interleave(groups, dim=1) for each in (key, value)]
        out: Tensor = self._flex(query.contiguous(), *repeated, block_mask=self._masks[window, 1], scale=scale)
        return out.transpose(1, 2)

    def _dense(self, window: int | None, groups: int) -> Tensor:
        """Return what `attend` adds to its scores, float32 [1, 1, g * N, N]."""
        token = torch.arange(len(self._end), device=self._end.device)
        return additive(self._seen(window)(token[:, None], token[None, :])[None], groups)

    def _seen(self, window: int | None) -> Callable[[Tensor, Tensor], Tensor]:
        end, depth = self._end, self._depth

        def seen(query: Tensor, key: Tensor) -> Tensor:
            own = (key <= query) & (query <= end[key])
            return own if window is None else own & (depth[query] - depth[key] < window)

        return seen

    def _blocks(self, window: int | None) -> Any:
        """Return the block mask of FlexAttention for N queries and N keys, without a matrix of them."""
        from torch.nn.attention.flex_attention import BlockMask

        seen = self._seen(window)
        some, whole = self._visible_blocks(window)
        parts, part_places = _listed(torch.as_tensor(some & ~whole, device=self._end.device))
        wholes, whole_places = _listed(torch.as_tensor(whole, device=self._end.device))
        count = len(self._tree.end)
        return BlockMask.from_kv_blocks(
            parts,
            part_places,
            wholes,
            whole_places,
            BLOCK_SIZE=BLOCK,
            mask_mod=lambda b, h, query, key: seen(query, key),
            seq_lengths=(count, count),
        )

    def _visible_blocks(self, window: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Return for blocks of queries and keys whether a pair may be seen, and whether all are; bool [B, B] each."""
        end, depth = self._tree.end, self._tree.depth
        count = len(end)
        first = np.arange(0, count, BLOCK)
        last = np.minimum(first + BLOCK, count) - 1
        some = (first <= last[:, None]) & (np.maximum.reduceat(end, first) >= first[:, None])
        whole = (last <= first[:, None]) & (np.minimum.reduceat(end, first) >= last[:, None])
        full = first + BLOCK <= count
        whole &= full[:, None] & full  # no padding in them
        if window is not None:
            deepest = np.maximum.reduceat(depth, first)
            whole &= deepest[:, None] - np.minimum.reduceat(depth, first) < window
        return some, whole


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of marked key blocks of each query block, and their indices first; int32 [1, 1, Q(, K)]."""
    order = blocks.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32)[None, None], order.to(torch.int32)[None, None].contiguous()


def lay_out(sequences: Sequence[IntArray], trunk: Any, device: torch.device) -> TreeMask | TreeAttention:
    """Lay out sequences for a pass of a trunk, with the attention that is fastest for them on a device."""
    tree = DepthFirst.of(sequences)
    count = len(tree.tokens)
    if count <= (DENSE_ON_CPU if device.type == "cpu" else SHORTEST):
        return TreeMask(tree, device)
    if device.type != "cpu" and (flex := checked_flex(trunk, device)) is not None:
        return TreeMask(tree, device, flex)
    return TreeAttention(build_levels(sequences, hidden_size=trunk.config.hidden_size), device)


@functools.cache
def compiled_flex() -> Flex:
    """Return FlexAttention, compiled for all lengths at its first call; kernels are kept in the user's cache."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "marft", "inductor")
    with contextlib.suppress(OSError):  # without it torch keeps them in /tmp, until that is emptied
        folder.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder))
    from torch.nn.attention.flex_attention import flex_attention

    compiled: Flex = torch.compile(flex_attention, dynamic=True)
    return compiled


def checked_flex(trunk: Any, device: torch.device) -> Flex | None:
    """Return FlexAttention if it computes what a dense mask does, in the shape of a trunk; checked once for each shape.

    Warns:
        UserWarning: It cannot be compiled here, or differs.
    """
    config = trunk.config
    heads = int(config.num_attention_heads)
    keys = int(getattr(config, "num_key_value_heads", None) or heads)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    return _checked((heads, keys, size, has_window(config)), trunk.dtype, device)


_Shape = tuple[int, int, int, bool]  # heads of queries and of keys, their size, and whether some layer has a window


@functools.cache
def _checked(shape: _Shape, dtype: torch.dtype, device: torch.device) -> Flex | None:
    try:
        fault = disagreement(flex := compiled_flex(), shape, dtype, device)
    except Exception as error:  # no compiler, no kernel for this device: whatever it is, levels do without
        fault = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    if fault is None:
        return flex
    warnings.warn(f"FlexAttention is not used, trees are cut into levels instead: {fault}", stacklevel=2)
    return None


def disagreement(flex: Flex, shape: _Shape, dtype: torch.dtype, device: torch.device) -> str | None:
    """Return how outputs or gradients of FlexAttention differ from those of a dense mask on a random tree.

    Args:
        flex: FlexAttention, compiled or not.
        shape: What the trunk asks for.
        dtype: Dtype of queries, keys and values.
        device: Device to run on.

    Returns:
        The difference in words; None if there is none beyond rounding.
    """
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 2, n) for n in rng.integers(SHORTEST // 8, SHORTEST // 4, 12)]
    tree = DepthFirst.of([np.concatenate([np.arange(200), s]).astype(np.int32) for s in sequences])
    heads, keys, size, windowed = shape
    generator = torch.Generator().manual_seed(0)
    inputs = [
        torch.randn(1, count, len(tree.tokens), size, generator=generator).to(device, dtype).requires_grad_()
        for count in (heads, keys, keys)
    ]
    weights = torch.randn(1, len(tree.tokens), heads, size, generator=generator).to(device, dtype)
    for window in (None, 100) if windowed else (None,):
        results = []
        with torch.enable_grad():
            for mask in (TreeMask(tree, device, flex), TreeMask(tree, device)):
                out = mask.attend(0, inputs[0], inputs[1], inputs[2], size**-0.5, window)
                results.append([out.detach(), *torch.autograd.grad((out * weights).sum(), inputs)])
        names = ("outputs", "gradients of queries", "gradients of keys", "gradients of values")
        for name, found, wanted in zip(names, *results, strict=True):
            error = ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()
            if not error <= TOLERANCE.get(dtype, TOLERANCE[torch.bfloat16]):
                return f"its {name} differ from those of a dense mask by {error:.2g} of their norm (window {window})"
    return None
