"""Keys and values of a batch whose rows each grow by one token per pass, come and go.

What the rows of a family have in common (the prompt of a group's samples, the transcript that agents of a team share)
is stored and read once for all of them; each row owns only the rest of its prompt and what it generated.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from marft_agents.models.prefix_tree import common_prefix
from marft_agents.trajectory import IntArray

Kept = Mapping[int, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Family:
    """Rows that begin alike.

    Attributes:
        rows: their numbers.
        shared: how many first tokens they have in common.
    """

    rows: tuple[int, ...]
    shared: int


def families(prompts: Sequence[IntArray]) -> list[Family]:
    """Group prompts that begin alike where that stores fewer tokens, each family's common beginning once.

    Args:
        prompts: token ids, at least one token each. The last token of a prompt stays its own.
    """
    order = sorted(range(len(prompts)), key=lambda i: prompts[i].tolist())
    shared = [common_prefix(prompts[a], prompts[b]) for a, b in itertools.pairwise(order)]

    def best(first: int, last: int) -> tuple[int, list[Family]]:
        """Return the fewest tokens for order[first:last] and how."""
        rows = tuple(order[first:last])
        common = min([*shared[first : last - 1], *(len(prompts[i]) - 1 for i in rows)])
        together = common + sum(len(prompts[i]) - common for i in rows)
        cuts = [first, *(k + 1 for k in range(first, last - 1) if shared[k] <= common), last]
        if len(cuts) == 2:
            return together, [Family(rows, common)]
        parts = [best(a, b) for a, b in itertools.pairwise(cuts)]
        apart = sum(cost for cost, _ in parts)
        if together <= apart:
            return together, [Family(rows, common)]
        return apart, [family for _, part in parts for family in part]

    return best(0, len(order))[1] if order else []


class Slots:
    """The attention of a growing batch; rows in use are 0..n-1.

    Args:
        device: where the buffers are.

    Attributes:
        positions: int64 [n], how many tokens each row has.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.positions = torch.zeros(0, dtype=torch.long, device=device)
        self._own: dict[int, tuple[Tensor, Tensor]] = {}  # layer -> [rows, H_kv, room, d]
        self._common: dict[int, tuple[Tensor, Tensor]] = {}  # layer -> [families, H_kv, length, d]
        self._shared: list[int] = []  # per family
        self._family: list[int] = []  # per row
        self._width = 0  # tokens that every family has place for
        self._pass: _Pass | None = None

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, kept: Kept, paths: Sequence[Tensor], groups: Sequence[Family], room: int) -> None:
        """Append a row per path.

        Args:
            kept: layer -> (keys, values), [N, H_kv, d] each, of a pass over a tree.
            paths: int64 [P] each, where a row's tokens lie among the N.
            groups: the families of these rows.
            room: tokens that a row may still grow by.
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
        """Drop all rows but these; rows from the end move into the gaps.

        Returns:
            Which old row each of the new rows was.
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
        self._drop_families()
        self._pass = None
        return order

    def _drop_families(self) -> None:
        left = sorted(set(self._family))
        if len(left) * 4 > len(self._shared) * 3:
            return  # the memory of a few gone families is not worth the copy
        index = torch.as_tensor(left, dtype=torch.long, device=self._device)
        self._common = {layer: (k[index], v[index]) for layer, (k, v) in self._common.items()}
        self._shared = [self._shared[number] for number in left]
        self._family = [left.index(number) for number in self._family]

    def grow(self) -> Tensor:
        """Make place for the next token of every row; return their positions, int64 [n, 1]."""
        if self._pass is None:
            self._pass = _Pass(self._shared, self._family, self._width, self.positions)
        self._pass.next(self.positions)
        positions, self.positions = self.positions, self.positions + 1
        return positions[:, None]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None) -> Tensor:
        """See `LayerAttention`: one new token per row; what lies beyond the rows in use is not looked at."""
        now = self._pass
        assert now is not None, "grow() comes before the pass"
        given, heads, _, size = query.shape
        n = len(self)
        query, key, value = query[:n], key[:n], value[:n]
        (own_keys, own_values), (keys, values) = self._own[layer], self._common[layer]
        own_keys[now.rows, :, now.places] = key[:, :, 0]
        own_values[now.rows, :, now.places] = value[:, :, 0]
        kv, length = keys.shape[1:3]
        groups = heads // kv
        folded = (query * scale).view(n, kv, groups, size)
        hidden_common, hidden_own = now.masks(window)
        # rows of a family as the queries of one product: [F, H_kv, G * g, d] with [F, H_kv, d, length]
        grouped = folded[now.members].transpose(1, 2).flatten(2, 3)
        common = torch.matmul(grouped, keys.transpose(2, 3)).view(len(keys), kv, now.largest, groups, length)
        common = common.transpose(1, 2).flatten(0, 1)[now.seats]
        if hidden_common is not None:
            common = common.masked_fill_(hidden_common, -torch.inf)
        own = torch.matmul(folded, own_keys[:n, :, : now.depth].transpose(2, 3))
        if hidden_own is not None:
            own = own.masked_fill_(hidden_own, -torch.inf)
        weights = torch.cat([common, own], dim=-1).softmax(-1, dtype=torch.float32).to(query.dtype)
        of_common, of_own = weights.split([length, now.depth], dim=-1)
        grouped = of_common[now.members].transpose(1, 2).flatten(2, 3)
        out = torch.matmul(grouped, values).view(len(keys), kv, now.largest, groups, size).transpose(1, 2)
        total = out.flatten(0, 1)[now.seats] + torch.matmul(of_own, own_values[:n, :, : now.depth])
        out = total.reshape(n, 1, heads, size)
        return pad(out, (0, 0, 0, 0, 0, 0, 0, given - n)) if given > n else out  # padding by nothing is a copy


class _Pass:
    """What all layers of a pass need to know of rows and families."""

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
        self.rows = torch.arange(len(family), device=device)
        self._shared = torch.as_tensor(shared, device=device)[torch.as_tensor(list(family), device=device)]
        self._length = width

    def next(self, positions: Tensor) -> None:
        """Move on by one token."""
        self._positions = positions
        self.places = positions - self._shared
        self.depth = int(self.places.max()) + 1
        self._masks: dict[int | None, tuple[Tensor | None, ...]] = {}

    def masks(self, window: int | None) -> tuple[Tensor | None, ...]:
        """Return what is hidden of the common and of the own tokens, bool [n, 1, 1, .]; None if nothing is."""
        if window not in self._masks:
            device = self._positions.device
            depth, length = torch.arange(self.depth, device=device), torch.arange(self._length, device=device)
            own = depth > self.places[:, None]
            common = length >= self._shared[:, None]
            if window is not None:
                oldest = (self._positions - window + 1)[:, None]
                own |= depth + self._shared[:, None] < oldest
                common |= length < oldest
            self._masks[window] = tuple(m[:, None, None] if bool(m.any()) else None for m in (common, own))
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
        buffers.append(buffer)
    return buffers[0], buffers[1]
