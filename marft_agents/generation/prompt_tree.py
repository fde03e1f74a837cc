"""Prefill of prompts that begin alike: each distinct token is computed once, and none whose keys are known.

In lexicographic order a prompt shares most with the one before it. So each prompt computes only what follows the prefix
that it shares with that one, or with a prompt of an earlier pass whose keys and values were kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marft_agents.models.prefix_tree import Indices, common_prefix
from marft_agents.models.tree_attention import attend, causal_mask
from marft_agents.trajectory import IntArray

LARGEST_MASK = 1 << 22  # most entries of the attention mask of a part, for each query head of a group
KEPT_MASKS = 4  # parts of a pass up to which their masks are kept from layer to layer
PIECE = 128  # most tokens of a prompt that attend at once: fewer of their scores are masked than of a longer piece

Kept = Mapping[int, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class _Piece:
    """Tokens of a prompt that are computed: those of its path from `start` on, as the pass's tokens from `first` on."""

    path: Indices
    start: int
    first: int

    @property
    def size(self) -> int:
        return len(self.path) - self.start


class PromptTree:
    """Attention of a prefill in which every token attends to its own prompt.

    Args:
        prompts: Token ids of B prompts, at least one token each.
        adapters: Adapter of each prompt; prompts share tokens with those of the same adapter only.
        known: Indices of each prompt's first tokens among the P of an earlier pass, int64 [at most its length] each.
            The last token of a prompt is computed in any case.
        earlier: Layer -> (keys, values) of these, [P, H_kv, d] each, under the same weights.
        device: Device of the forward pass.

    Attributes:
        tokens: Tokens to compute, int64 [1, n].
        positions: Their positions in their prompts, int64 [1, n].
        paths: Indices of each prompt's tokens among the N distinct ones, int64 [its length] each.
        ends: Number of each prompt's last token among the computed ones, int64 [B].
        runs: Adapter -> number of computed tokens; its tokens stand together, adapters in this order.
        kept: Layer -> (keys, values) of all N tokens, [N, H_kv, d] each; filled by the pass.
    """

    def __init__(
        self,
        prompts: Sequence[IntArray],
        adapters: Sequence[str | None],
        known: Sequence[Indices],
        earlier: Kept,
        device: torch.device,
    ) -> None:
        self._device, self._earlier = device, earlier
        self.runs: dict[str | None, int] = dict.fromkeys(adapters, 0)
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        paths: list[Indices] = [np.zeros(0, np.int64)] * len(prompts)
        ends = [0] * len(prompts)
        pieces: list[_Piece] = []
        tokens: list[IntArray] = []
        copies: list[tuple[Indices, Indices]] = []  # indices among the earlier tokens, indices here
        before = np.zeros(0, np.int32)  # the prompt before in lexicographic order, and its path
        path = np.zeros(0, np.int64)
        size = computed = 0
        order = list(self.runs)  # adapter after adapter: each computes its tokens with its own weights, in one run
        for i in sorted(range(len(prompts)), key=lambda i: (order.index(adapters[i]), prompts[i].tolist())):
            prompt = prompts[i]
            shared = common_prefix(before, prompt) if self.runs[adapters[i]] else 0
            path = np.concatenate([path[:shared], np.arange(size, size + len(prompt) - shared)])
            size += len(prompt) - shared
            start = max(shared, min(len(known[i]), len(prompt) - 1))
            if start > shared:
                copies.append((known[i][shared:start], path[shared:start]))
            for at in range(start, len(prompt), PIECE):
                pieces.append(_Piece(path[: at + PIECE], at, computed + at - start))
            tokens.append(prompt[start:])
            computed += len(prompt) - start
            self.runs[adapters[i]] += len(prompt) - start
            before, paths[i], ends[i] = prompt, path, computed - 1
        self._size = size
        self._copies: list[Tensor] = []  # where known keys are read and written, int64 [copied] each; or nothing
        if copies:
            self._copies = [self._index(np.concatenate(side)) for side in zip(*copies, strict=True)]
        self._fresh = self._index(np.concatenate([piece.path[piece.start :] for piece in pieces]))
        parts = list(_parts(pieces))
        self._parts = [_Part(part, device, keep_masks=len(parts) <= KEPT_MASKS) for part in parts]
        self.tokens = self._index(np.concatenate(tokens))[None]
        positions = [np.arange(piece.start, len(piece.path)) for piece in pieces]
        self.positions = self._index(np.concatenate(positions))[None]
        self.paths = paths
        self.ends = np.asarray(ends)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attend prompt by prompt; see `LayerAttention`."""
        query, key, value = (x[0].transpose(0, 1) for x in (query, key, value))  # [1, H, n, d] -> [n, H, d]
        keys, values = self._completed(layer, 0, key), self._completed(layer, 1, value)
        self.kept[layer] = keys, values
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
        for part in self._parts:
            mask = part.mask(window, query.shape[1] // key.shape[1])
            found = attend(query[part.queries], keys[part.path], values[part.path], mask, scale)
            out[part.numbers] = found.flatten(0, 1)[part.real]
        return out[None]

    def _completed(self, layer: int, which: int, fresh: Tensor) -> Tensor:
        """Return the keys or values of all N tokens from those computed in this pass and those known before."""
        if not self._copies:
            return fresh.contiguous()  # a slice of a fused projection would keep all of it in memory
        everything = fresh.new_empty(self._size, *fresh.shape[1:])
        everything[self._fresh] = fresh
        of, to = self._copies
        everything[to] = self._earlier[layer][which][of]
        return everything

    def _index(self, numbers: IntArray | Indices) -> Tensor:
        return torch.as_tensor(numbers, dtype=torch.long, device=self._device)


class _Part:
    """Pieces of about equal size, padded to R rows of W queries and K keys.

    Attributes:
        queries: Numbers of the computed tokens, int64 [R, W]; padding repeats the first of its row.
        path: Indices of the tokens that each row attends to, int64 [R, K]; zero after its end.
        real: Which of the R * W queries are no padding, int64 [their count].
        numbers: Numbers of those.
    """

    def __init__(self, pieces: Sequence[_Piece], device: torch.device, *, keep_masks: bool) -> None:
        width, length = max(p.size for p in pieces), max(len(p.path) for p in pieces)
        numbers = np.array([(piece.size, piece.start, piece.first) for piece in pieces])  # [R, 3]
        sizes, starts, firsts = np.split(numbers, 3, axis=1)  # [R, 1] each
        real = np.arange(width) < sizes  # [R, W]
        offsets = np.where(real, np.arange(width), 0)
        paths = np.zeros((len(pieces), length), np.int64)  # [R, K]
        for row, piece in enumerate(pieces):
            paths[row, : len(piece.path)] = piece.path
        self.real = torch.as_tensor(np.flatnonzero(real), device=device)
        self.queries = torch.as_tensor(firsts + offsets, device=device)
        self.numbers = torch.as_tensor((firsts + offsets)[real], device=device)
        self.path = torch.as_tensor(paths, device=device)
        self._positions = torch.as_tensor(starts + offsets, device=device)
        self._keep_masks = keep_masks
        self._masks: dict[tuple[int | None, int], Tensor] = {}  # by the window and head groups of a layer

    def mask(self, window: int | None, groups: int) -> Tensor:
        """Return the causal mask of `attend`: a token sees at most `window` last tokens of its prompt.

        The K keys of a row are its prompt's tokens from the first on. So padded keys lie behind all its queries, and
        the causal mask hides them too.
        """
        if (window, groups) in self._masks:
            return self._masks[window, groups]
        places = torch.arange(self.path.shape[1], device=self.path.device)  # [K]
        behind = self._positions[:, :, None] - places  # [R, W, K], how far each key lies behind each query
        mask = causal_mask(behind, window, groups)
        if self._keep_masks:
            self._masks[window, groups] = mask
        return mask


def _parts(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    """Group pieces to pad together: sizes within a factor of two, and a mask of at most `LARGEST_MASK` entries."""
    part: list[_Piece] = []
    longest_path = 0
    for piece in sorted(pieces, key=lambda p: (p.size, len(p.path))):
        # The mask is [R, W, K]; in ascending order the new piece is the widest of its part.
        mask_entries = (len(part) + 1) * piece.size * max(longest_path, len(piece.path))
        if part and (piece.size >= 2 * part[0].size or mask_entries > LARGEST_MASK):
            yield part
            part, longest_path = [], 0
        part.append(piece)
        longest_path = max(longest_path, len(piece.path))
    yield part
