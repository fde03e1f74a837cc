"""KV cache for continuous batching with shared prefixes.

Rows of a family begin with the same tokens: the prompt of a group's samples, or the transcript shared by agents of a
team. Keys and values of these tokens are stored and read once per family. Each row stores only the rest of its
prompt and its generated tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marft_agents.generation.prompt_tree import Kept
from marft_agents.models.prefix_tree import common_prefix
from marft_agents.trajectory import IntArray


@dataclass(frozen=True)
class PrefixFamily:
    """Rows that share a prefix.

    Attributes:
        rows: Indices of the rows.
        shared: Length of the shared prefix in tokens.
    """

    rows: tuple[int, ...]
    shared: int


def families(prompts: Sequence[IntArray], adapters: Sequence[str | None] | None = None) -> list[PrefixFamily]:
    """Group prompts of the same adapter by shared prefix so that the KV cache stores few tokens.

    Each family stores its prefix once. A group is split where smaller families store fewer tokens in total.

    Args:
        prompts: Token ids, at least one token each. The last token of a prompt is never shared.
        adapters: Adapter of each prompt; None if it is the same for all.
    """
    members: dict[str | None, list[int]] = {}
    for i in range(len(prompts)):
        members.setdefault(adapters[i] if adapters else None, []).append(i)
    return [family for own in members.values() for family in _families(prompts, own)]


def _families(prompts: Sequence[IntArray], members: Sequence[int]) -> list[PrefixFamily]:
    order = sorted(members, key=lambda i: prompts[i].tolist())
    shared = [common_prefix(prompts[a], prompts[b]) for a, b in itertools.pairwise(order)]

    def best(first: int, last: int) -> tuple[int, list[PrefixFamily]]:
        """Return the fewest stored tokens for order[first:last], and the families that reach it."""
        rows = tuple(order[first:last])
        common = min([*shared[first : last - 1], *(len(prompts[i]) - 1 for i in rows)])
        together = common + sum(len(prompts[i]) - common for i in rows)
        cuts = [first, *(k + 1 for k in range(first, last - 1) if shared[k] <= common), last]
        if len(cuts) == 2:
            return together, [PrefixFamily(rows, common)]
        parts = [best(a, b) for a, b in itertools.pairwise(cuts)]
        apart = sum(cost for cost, _ in parts)
        if together <= apart:
            return together, [PrefixFamily(rows, common)]
        return apart, [family for _, part in parts for family in part]

    return best(0, len(order))[1]


class Slots:
    """KV cache of a growing batch; rows in use are 0..n-1.

    Args:
        device: Device of the buffers.

    Attributes:
        positions: Number of tokens in each row, int64 [n].
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.positions = torch.zeros(0, dtype=torch.long, device=device)
        self._own: dict[int, tuple[Tensor, Tensor]] = {}  # layer -> [rows, H_kv, room, d]
        self._common: dict[int, tuple[Tensor, Tensor]] = {}  # layer -> [families, H_kv, length, d]
        self._shared: list[int] = []  # shared prefix length per family
        self._family: list[int] = []  # family of each row
        self._width = 0  # shared tokens allocated per family
        self._pass: _DecodingPass | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, kept: Kept, paths: Sequence[Tensor], groups: Sequence[PrefixFamily], room: int) -> None:
        """Append one row per path.

        Args:
            kept: Layer -> (keys, values), [N, H_kv, d] each, from a pass over a prefix tree.
            paths: Indices of each row's tokens among the N, int64 [P] each.
            groups: Families of the new rows; their row indices count from the first new row.
            room: Number of further tokens that each row may grow by.
        """
        own = [0] * len(paths)
        first = len(self)
        for number, group in enumerate(groups, start=len(self._shared)):
            for row in group.rows:
                own[row] = number
        shared = [group.shared for group in groups]
        rests = [path[shared[number - len(self._shared)] :] for path, number in zip(paths, own, strict=True)]
        commons = [paths[group.rows[0]][: group.shared] for group in groups]
        width = max(map(len, rests)) + room
        self._width = max(self._width, *shared)
        for layer, tensors in kept.items():
            self._own[layer] = _extended(self._own.get(layer), tensors, rests, first, width)
            self._common[layer] = _extended(
                self._common.get(layer), tensors, commons, len(self._shared), self._width, exact=True
            )
        self._shared += shared
        self._family += own
        lengths = torch.as_tensor([len(path) for path in paths], device=self._device)
        self.positions = torch.cat([self.positions, lengths])
        self._pass = None

    def keep(self, rows: Sequence[int]) -> list[int]:
        """Drop all rows but these; rows from the end fill the gaps.

        Returns:
            The old row index of each new row.
        """
        size, staying = len(rows), set(rows)
        order = list(range(size))
        gaps = [row for row in range(size) if row not in staying]
        for gap, row in zip(gaps, (row for row in rows if row >= size), strict=True):
            order[gap] = row
            for buffers in self._own.values():
                for buffer in buffers:
                    buffer[gap] = buffer[row]
        self.positions = self.positions[torch.as_tensor(order, dtype=torch.long, device=self._device)]
        self._family = [self._family[row] for row in order]
        left = sorted(set(self._family))
        if len(left) * 4 <= len(self._shared) * 3:  # freeing the memory of few families does not pay for the copy
            index = torch.as_tensor(left, dtype=torch.long, device=self._device)
            self._common = {layer: (k[index], v[index]) for layer, (k, v) in self._common.items()}
            self._shared = [self._shared[number] for number in left]
            self._family = [left.index(number) for number in self._family]
        self._pass = None
        return order

    def grow(self, tokens: int = 1) -> Tensor:
        """Reserve the positions of the next tokens in every row, and count the first one; int64 [n, tokens]."""
        if self._pass is None:
            self._pass = _DecodingPass(self._shared, self._family, self._width, self.positions)
        positions = self.positions[:, None] + torch.arange(tokens, device=self._device)
        self._pass.next(positions)
        self.positions = self.positions + 1
        return positions

    def confirm(self, tokens: Sequence[int]) -> None:
        """Count further tokens of the last pass in each row; what is not counted is overwritten."""
        self.positions = self.positions + torch.as_tensor(tokens, device=self._device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """Attend with the new tokens of every row, see `LayerAttention`."""
        now = self._pass
        assert now is not None, "grow() comes before the pass"
        n, heads, new, size = query.shape
        (own_keys, own_values), (keys, values) = self._own[layer], self._common[layer]
        # n rows in F families of at most G rows; H = H_kv * g query heads, S new tokens; L shared and K own are visible
        own_keys[now.rows, :, now.places] = key.transpose(1, 2)
        own_values[now.rows, :, now.places] = value.transpose(1, 2)
        kv, length = keys.shape[1:3]  # keys, values: [F, H_kv, L, d]
        groups = heads // kv
        folded = (query * scale).reshape(n, kv, groups * new, size)  # [n, H_kv, g * S, d]
        hidden_common, hidden_own = now.masks(window, groups)
        # rows of a family as the queries of one product: [F, H_kv, G * g * S, d] with [F, H_kv, d, L]
        grouped = folded[now.members].transpose(1, 2).flatten(2, 3)
        common = torch.matmul(grouped, keys.transpose(2, 3)).view(len(keys), kv, now.largest, groups * new, length)
        common = common.transpose(1, 2).flatten(0, 1)[now.seats]  # [F * G, H_kv, g * S, L] -> [n, H_kv, g * S, L]
        if hidden_common is not None:
            common = common.masked_fill_(hidden_common, -torch.inf)
        own = torch.matmul(folded, own_keys[:n, :, : now.depth].transpose(2, 3))  # [n, H_kv, g * S, K]
        if hidden_own is not None:
            own = own.masked_fill_(hidden_own, -torch.inf)
        weights = torch.cat([common, own], dim=-1).softmax(-1, dtype=torch.float32).to(query.dtype)  # [..., L + K]
        of_common, of_own = weights.split([length, now.depth], dim=-1)
        grouped = of_common[now.members].transpose(1, 2).flatten(2, 3)  # [F, H_kv, G * g * S, L]
        out = torch.matmul(grouped, values).view(len(keys), kv, now.largest, groups * new, size).transpose(1, 2)
        total = out.flatten(0, 1)[now.seats] + torch.matmul(of_own, own_values[:n, :, : now.depth])
        return total.view(n, heads, new, size).transpose(1, 2)  # [n, H_kv, g * S, d] -> [n, S, H, d]


class _DecodingPass:
    """Row and family indices that all layers of a pass share."""

    def __init__(self, shared: Sequence[int], family: Sequence[int], width: int, positions: Tensor) -> None:
        device = positions.device
        members: list[list[int]] = [[] for _ in shared]
        seats = []
        for row, number in enumerate(family):
            seats.append((number, len(members[number])))
            members[number].append(row)
        self.largest = max(map(len, members))
        padded = [own + [0] * (self.largest - len(own)) for own in members]
        self.members = torch.as_tensor(padded, device=device)
        self.seats = torch.as_tensor([number * self.largest + seat for number, seat in seats], device=device)
        self.rows = torch.arange(len(family), device=device)[:, None]
        self._shared = torch.as_tensor(shared, device=device)[torch.as_tensor(list(family), device=device)]
        self._length = width

    def next(self, positions: Tensor) -> None:
        """Move on to the positions of new tokens, int64 [n, S]."""
        self._positions = positions
        self.places = positions - self._shared[:, None]
        self.depth = int(self.places.max()) + 1
        self._masks: dict[int | None, tuple[Tensor | None, ...]] = {}

    def masks(self, window: int | None, groups: int) -> tuple[Tensor | None, ...]:
        """Return masks of hidden shared and own tokens, bool [n, 1, groups * S, length]; None if nothing is hidden."""
        if window not in self._masks:
            device = self._positions.device
            depth, length = torch.arange(self.depth, device=device), torch.arange(self._length, device=device)
            shared = self._shared[:, None, None]
            own = depth > self.places[:, :, None]
            common = (length >= shared).expand(*self.places.shape, -1)
            if window is not None:
                oldest = (self._positions - window + 1)[:, :, None]
                own = own | (depth + shared < oldest)
                common = common | (length < oldest)
            self._masks[window] = tuple(
                m.repeat(1, groups, 1)[:, None] if bool(m.any()) else None for m in (common, own)
            )
        return self._masks[window]


def _extended(
    old: tuple[Tensor, Tensor] | None,
    new: tuple[Tensor, Tensor],
    paths: Sequence[Tensor],
    first: int,
    width: int,
    *,
    exact: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return buffers [rows, H_kv, width, d] with the tokens of each path in the rows from `first` on."""
    buffers = []
    for index, packed in enumerate(new):
        before = None if old is None else old[index]
        rows = first + len(paths)
        if before is not None and (exact or len(before) < rows or before.shape[2] < width):
            rows_there = first if exact else len(before)
            shape = (max(rows, rows_there), packed.shape[1], max(width, before.shape[2]), packed.shape[2])
            buffer = packed.new_zeros(shape)
            buffer[:rows_there, :, : before.shape[2]] = before[:rows_there]
        else:
            buffer = packed.new_zeros(rows, packed.shape[1], width, packed.shape[2]) if before is None else before
        for row, path in enumerate(paths, start=first):
            buffer[row, :, : len(path)] = packed[path].transpose(0, 1)
            buffer[row, :, len(path) :] = 0  # of an earlier row: a weight of 0 times infinity is no number
        buffers.append(buffer)
    return buffers[0], buffers[1]
