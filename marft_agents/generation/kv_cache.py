"""KV cache for continuous batching with shared prefixes.

Rows of a family begin with the same tokens: the prompt of a group's samples, or the transcript shared by agents of a
team. Keys and values of these tokens are stored and read once per family. Each row stores only the rest of its
prompt and its generated tokens. Rows that join together form families, also beside running ones: of such rows of the
quickstart's rollouts 80 % of the tokens were shared so, and a running family could have given at most 1 to 6 %.

The memory of a layer is one flat buffer: rows lie at its front, families behind them, kept prompts at its back. None
of them moves as long as the layout stays, so that a decoding step may be captured.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marft_agents.generation.prompt_cache import PromptMemory
from marft_agents.generation.prompt_tree import Kept
from marft_agents.models.prefix_tree import Indices, common_prefix
from marft_agents.trajectory import IntArray

# traffic of a score: written, joined with others, normalised, rounded, read; a CPU caches it
SCORE_BYTES = {"cuda": 20}


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
    found: list[PrefixFamily] = []
    for own in members.values():  # keys and values of equal tokens differ between adapters
        found += _families(prompts, own)
    return found


def _families(prompts: Sequence[IntArray], members: Sequence[int]) -> list[PrefixFamily]:
    # In lexicographic order the prompts that share a prefix are neighbours, and any run of them shares the least that
    # two neighbours in it do.
    order = sorted(members, key=lambda i: prompts[i].tolist())
    shared = [common_prefix(prompts[a], prompts[b]) for a, b in itertools.pairwise(order)]

    def best(first: int, last: int) -> tuple[int, list[PrefixFamily]]:
        """Return the fewest stored tokens for order[first:last], and the families that reach it."""
        rows = tuple(order[first:last])
        common = min([*shared[first : last - 1], *(len(prompts[i]) - 1 for i in rows)])
        together = common + sum(len(prompts[i]) - common for i in rows)
        # Cut where neighbours share no more than all do: only there can a part have a longer prefix than the whole.
        cuts = [first, *(k + 1 for k in range(first, last - 1) if shared[k] <= common), last]
        if len(cuts) == 2:
            return together, [PrefixFamily(rows, common)]
        apart, parts = 0, list[PrefixFamily]()
        for a, b in itertools.pairwise(cuts):
            cost, part = best(a, b)
            apart += cost
            parts += part
        if together <= apart:
            return together, [PrefixFamily(rows, common)]
        return apart, parts

    return best(0, len(order))[1]


def worth_sharing(groups: Sequence[PrefixFamily], kept: Kept, heads: int) -> list[PrefixFamily]:
    """Return the families whose prefix takes less memory traffic if it is read once a family instead of once a row.

    What is read once a family are its keys and values, but the scores of each row then go through memory.

    Args:
        groups: Families of rows.
        kept: Layer -> (keys, values) of their tokens, [N, H_kv, d] each.
        heads: Number of query heads of a layer.
    """
    keys, _ = next(iter(kept.values()))  # all layers are alike
    token = 2 * keys[0].numel() * keys.element_size()  # bytes of the keys and values of a token
    scores = heads * SCORE_BYTES.get(keys.device.type, 0)  # bytes that the scores of a row and token go through
    return [g for g in groups if g.shared and token + len(g.rows) * scores < len(g.rows) * token]


@dataclass(frozen=True)
class Layout:
    """Shape of the buffers of a layer.

    Attributes:
        room: Tokens for which each row has memory.
        families: Number of families that have memory.
        common: Tokens for which each of them has memory.
        tokens: Tokens of rows and families for which there is memory.
    """

    room: int = 0
    families: int = 0
    common: int = 0
    tokens: int = 0


class KVCache:
    """KV cache of a batch whose rows come and go; rows in use are 0..n-1.

    Args:
        device: Device of the buffers.
        tokens: Tokens of rows for which there is memory; None for any number.
        prompts: Tokens of kept prompts for which there is memory.
        at_once: True allocates this memory at the first use, in one piece; False as it is needed.
        bucket: Rounds lengths of buffers up, so that the layout changes seldom.

    Attributes:
        layout: Present shape of the buffers.
        shared: Length of each row's shared prefix; 0 for a row of no family.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        tokens: int | None = None,
        prompts: int = 0,
        at_once: bool = False,
        bucket: Callable[[int], int] | None = None,
    ) -> None:
        self._device, self._tokens, self._bucket = device, tokens, bucket or (lambda length: length)
        self._at_once = at_once and tokens is not None
        self._prompts = prompts
        self._lent: Callable[[], PromptMemory | None] = lambda: None
        self._layers: dict[int, _Layer] = {}
        self._families: list[int | None] = []  # shared length of each; None where there is none any more
        self._family: list[int] = []  # of each row; -1 for none
        self.layout = Layout()
        self.shared: list[int] = []

    def __len__(self) -> int:
        return len(self._family)

    @property
    def most_rows(self) -> int:
        """Number of rows for which the present layout has memory."""
        return (self.layout.tokens - self.layout.families * self.layout.common) // self.layout.room

    def lend_prompt_memory(self) -> PromptMemory:
        """Return memory for kept prompts: a part of the buffers, if they are allocated at once.

        As long as someone has that part, others get none: their prompts are computed as a whole.
        """
        if not self._at_once:
            return PromptMemory(self._prompts)
        if self._lent() is not None:
            return PromptMemory(0)
        memory = PromptMemory(self._prompts)
        memory.kept = {number: layer.prompts for number, layer in self._layers.items()}
        self._lent = weakref.ref(memory)
        return memory

    def fitting(self, lengths: Sequence[int]) -> int:
        """Return how many of further rows fit into the memory, whatever they share.

        Args:
            lengths: Tokens of each row, with those that it may grow by.
        """
        if self._tokens is None:
            return len(lengths)
        room = self.layout.room if len(self) else 0
        left = self._tokens - (self.layout.families * self.layout.common if self._families else 0)
        for count, length in enumerate(lengths):
            room = max(room, self._bucket(length))
            if (len(self) + count + 1) * room > left:
                return count
        return len(lengths)

    def add(self, kept: Kept, paths: Sequence[Indices], groups: Sequence[PrefixFamily], room: int) -> None:
        """Append one row per path.

        Args:
            kept: Layer -> (keys, values), [N, H_kv, d] each, from a pass over a prefix tree.
            paths: Indices of each row's tokens among the N, int64 [P] each.
            groups: Families of the new rows; their row indices count from the first new row.
            room: Number of further tokens that each row may grow by.
        """
        for layer, (keys, values) in kept.items():
            if layer not in self._layers:
                self._layers[layer] = _Layer(keys, values, self._prompts if self._at_once else 0)
        if not self._make_room(paths, groups, room):
            groups = []  # there is not enough memory for rows and families
            self._make_room(paths, groups, room)
        first = len(self)
        self._family += [-1] * len(paths)
        self.shared += [0] * len(paths)
        numbers, prefixes = [], []  # place and tokens of each new family
        for group in groups:
            # A place that a family left is used again, so that the buffer of families stays small.
            free = self._families.index(None) if None in self._families else len(self._families)
            self._families[free : free + 1] = [group.shared]
            numbers.append(free)
            prefixes.append(paths[group.rows[0]][: group.shared])
            for row in group.rows:
                self._family[first + row], self.shared[first + row] = free, group.shared
        rests = [path[shared:] for path, shared in zip(paths, self.shared[first:], strict=True)]
        own = _Copy(rests, range(first, len(self)), self._device)
        common = _Copy(prefixes, numbers, self._device) if groups else None
        for layer, tensors in kept.items():
            rows, families = self.rows(layer, len(self)), self._layers[layer].back(self.layout)
            for kind, packed in enumerate(tensors):  # keys, then values
                own.run(packed, rows[kind])
                if common is not None:
                    common.run(packed, families[kind])

    def keep(self, rows: Sequence[int]) -> list[int]:
        """Drop all rows but these; rows from the end fill the gaps.

        Returns:
            The old row index of each new row.
        """
        size, staying = len(rows), set(rows)
        order = list(range(size))
        # Rows stay where they are; of those behind the new end as many stay as there are gaps before it.
        gaps = [row for row in range(size) if row not in staying]
        beyond = [row for row in rows if row >= size]
        for gap, row in zip(gaps, beyond, strict=True):
            order[gap] = row
        if gaps:
            to = torch.as_tensor(gaps, device=self._device)
            of = torch.as_tensor([order[gap] for gap in gaps], device=self._device)
            for layer in self._layers:
                for buffer in self.rows(layer, len(self)):
                    buffer[to] = buffer[of]
        self._family = [self._family[row] for row in order]
        self.shared = [self.shared[row] for row in order]
        left = set(self._family)
        for number in range(len(self._families)):
            if number not in left:
                self._families[number] = None
        while self._families and self._families[-1] is None:
            self._families.pop()
        return order

    def members(self) -> list[list[int]]:
        """Return the rows of each family. A row of none is with any of them, of which it sees nothing."""
        members: list[list[int]] = [[] for _ in self._families]
        for row, number in enumerate(self._family):
            if number >= 0:
                members[number].append(row)
        for row, number in enumerate(self._family):
            if number < 0 and members:
                min(members, key=len).append(row)
        return members

    def rows(self, layer: int, count: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the first rows in a layer, [count, H_kv, room, d] each."""
        return self._layers[layer].front(count, self.layout)

    def families(self, layer: int, count: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the prefixes of the first families in a layer, [count, H_kv, common, d] each."""
        keys, values = self._layers[layer].back(self.layout)
        return keys[:count], values[:count]

    def _make_room(self, paths: Sequence[Indices], groups: Sequence[PrefixFamily], room: int) -> bool:
        """Find a layout for new rows and families and move what is there; return False if they do not fit."""
        own = [len(path) for path in paths]  # tokens that each row stores itself
        for group in groups:
            for row in group.rows:
                own[row] -= group.shared
        width = self._bucket(max(own) + room)  # tokens for which each row gets memory
        old, families, common = self.layout, 0, 0  # without any family their memory goes to rows
        if self._families or groups:
            free = self._families.count(None)
            families = max(old.families, len(self._families) + max(0, len(groups) - free))
            common = max([old.common, *(self._bucket(group.shared) for group in groups)])
        width = max(width, old.room) if len(self) else width  # rows that run keep their room to grow
        wanted = (len(self) + len(paths)) * width + families * common
        if self._tokens is not None and wanted > self._tokens:
            return False
        tokens = self._tokens if self._at_once and self._tokens else wanted
        new = Layout(width, families, common, max(old.tokens, tokens))  # buffers never shrink
        if new != old:
            memory = self._lent()  # kept prompts lie in the same buffers, so they move along
            for number, layer in self._layers.items():
                layer.move(len(self), old, new)
                if memory is not None:
                    memory.move(number, layer.prompts)
        self.layout = new
        return True


class _Layer:
    """Flat buffers of the keys and the values of a layer.

    Args:
        keys: Keys of any tokens, [N, H_kv, d].
        values: Their values, of the same shape.
        prompts: Tokens P of kept prompts.

    Attributes:
        prompts: Keys and values of kept prompts, [P, H_kv, d] each; empty before the first `move`.
    """

    def __init__(self, keys: Tensor, values: Tensor, prompts: int) -> None:
        self._heads, self._size = keys.shape[1:]
        self._flat = [keys.new_zeros(0), values.new_zeros(0)]
        self.prompts = keys[:0], values[:0]
        self._most_prompts = prompts

    def front(self, rows: int, layout: Layout) -> tuple[Tensor, Tensor]:
        """Return the first rows, [rows, H_kv, room, d] each."""
        shape = rows, self._heads, layout.room, self._size
        keys, values = (flat[: math.prod(shape)].view(shape) for flat in self._flat)
        return keys, values

    def back(self, layout: Layout) -> tuple[Tensor, Tensor]:
        """Return the families, [families, H_kv, common, d] each."""
        shape = layout.families, self._heads, layout.common, self._size
        keys, values = (flat[len(flat) - math.prod(shape) :].view(shape) for flat in self._flat)
        return keys, values

    def move(self, rows: int, old: Layout, new: Layout) -> None:
        """Move rows and families into another layout; what is new is zero."""
        before = [*self.front(rows, old), *self.back(old)]
        if new.tokens == old.tokens:  # in place
            before = [buffer.clone() for buffer in before]
        else:
            width = self._heads * self._size
            whole = [flat.new_zeros((new.tokens + self._most_prompts) * width) for flat in self._flat]
            self._flat = [flat[: new.tokens * width] for flat in whole]
            keys, values = (flat[new.tokens * width :].view(-1, self._heads, self._size) for flat in whole)
            self.prompts = keys, values
        for buffer, there in zip(before, [*self.front(rows, new), *self.back(new)], strict=True):
            there.zero_()
            count, length = min(len(there), len(buffer)), min(there.shape[2], buffer.shape[2])
            there[:count, :, :length] = buffer[:count, :, :length]


class _Copy:
    """Copies tokens of several paths to the beginning of rows of a buffer, with zeros behind them, in three operators.

    Args:
        paths: Indices of the tokens, int64 [P] each.
        rows: Row of each path.
        device: Device of the buffers.
    """

    def __init__(self, paths: Sequence[Indices], rows: Sequence[int], device: torch.device) -> None:
        lengths = [len(path) for path in paths]
        numbers = np.concatenate([np.arange(length) for length in lengths])  # place of each token in its row
        # One tensor, so one copy to the device: [3, tokens], of which token, to which row, at which place.
        indices = np.stack([np.concatenate(paths), np.repeat(rows, lengths), numbers])
        self._of, self._to, self._places = torch.as_tensor(indices, device=device)
        self._rows = torch.as_tensor(list(rows), device=device)

    def run(self, packed: Tensor, buffer: Tensor) -> None:
        """Copy from packed keys or values [N, H_kv, d] to a buffer [rows, H_kv, length, d]."""
        buffer[self._rows] = 0  # of an earlier row: a weight of 0 times infinity is no number
        buffer[self._to, :, self._places] = packed[self._of]
