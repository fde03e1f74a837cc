"""Prompt cache: keys and values of prompts, kept from turn to turn of the same episodes.

An agent's next prompt mostly repeats its last one and adds what happened since. With the keys and values of the last
one only the rest is computed. Each distinct token of the kept prompts has one place in memory, whichever of them begin
with it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from marft_agents.generation.prompt_tree import Kept
from marft_agents.models.prefix_tree import Indices, common_prefix
from marft_agents.trajectory import IntArray


@dataclass
class PromptCacheUse:
    """Use of prompt caches.

    Attributes:
        asked: Tokens of all prompts.
        known: Those whose keys and values were kept.
    """

    asked: int = 0
    known: int = 0

    def __sub__(self, before: PromptCacheUse) -> PromptCacheUse:
        """Return the use since another one."""
        return PromptCacheUse(self.asked - before.asked, self.known - before.known)

    def __add__(self, more: PromptCacheUse) -> PromptCacheUse:
        """Return the sum of both."""
        return PromptCacheUse(self.asked + more.asked, self.known + more.known)

    def metrics(self) -> dict[str, float]:
        """Return the share of known tokens, empty if there were none."""
        return {"team/prompt_cache_hits": self.known / self.asked} if self.asked else {}


class PromptMemory:
    """Keys and values of single tokens, in any order.

    Args:
        tokens: Tokens for which there is memory. It is allocated as needed, except for layers in `kept`.

    Attributes:
        kept: Layer -> (keys, values), [P, H_kv, d] each.
    """

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}

    def write(self, kept: Kept, of: Indices, to: Indices) -> None:
        """Copy tokens of a prefill.

        Args:
            kept: Layer -> (keys, values), [N, H_kv, d] each.
            of: Indices of the tokens among the N.
            to: Place of each in this memory.
        """
        if not len(of):
            return
        device = next(iter(kept.values()))[0].device
        source, places = torch.as_tensor(of, device=device), torch.as_tensor(to, device=device)
        for layer, tensors in kept.items():
            if layer not in self.kept or len(self.kept[layer][0]) <= to.max():
                self._grow(layer, tensors, int(to.max()) + 1)
            for packed, buffer in zip(tensors, self.kept[layer], strict=True):
                buffer[places] = packed[source]

    def move(self, layer: int, buffers: tuple[Tensor, Tensor]) -> None:
        """Use other buffers for a layer, [P, H_kv, d] each, with the tokens that it holds."""
        if self.kept.get(layer) is buffers:
            return
        for old, new in zip(self.kept.get(layer, ()), buffers, strict=False):  # none of a new layer
            new[: len(old)] = old
        self.kept[layer] = buffers

    def _grow(self, layer: int, like: tuple[Tensor, Tensor], size: int) -> None:
        """Enlarge the memory of a layer to at least `size` tokens, by doubling.

        A new layer takes shape and dtype from the keys and values `like`, [N, H_kv, d] each.
        """
        keys, values = self.kept.get(layer, (like[0][:0], like[1][:0]))
        more = min(self.tokens, max(size, 2 * len(keys))) - len(keys)
        keys = torch.cat([keys, keys.new_zeros(more, *keys.shape[1:])])  # [P + more, H_kv, d]
        values = torch.cat([values, values.new_zeros(more, *values.shape[1:])])
        self.kept[layer] = keys, values


class _Kept(NamedTuple):
    """A prompt, and the places of its tokens in memory."""

    ids: IntArray
    places: Indices


class PromptCache:
    """Keys and values of earlier prompts under the same weights.

    The oldest prompts are dropped first. Of a prefill that is larger than the memory, what fits is kept.

    Args:
        memory: Memory of their tokens; nothing else writes there.
        use: Counts the tokens of prompts.
    """

    def __init__(self, memory: PromptMemory, use: PromptCacheUse | None = None) -> None:
        self._memory, self._use = memory, use or PromptCacheUse()
        self._prompts: dict[tuple[str | None, bytes], _Kept] = {}  # by adapter and sort key, the oldest first
        self._keys: dict[str | None, list[bytes]] = {}  # sorted, so that neighbours share the longest prefixes
        self._users = np.zeros(memory.tokens, np.int32)  # prompts with a token in each place
        self._free = np.zeros(0, np.int64)  # places that were used before
        self._end = 0  # places from here on were never used

    @property
    def kept(self) -> Kept:
        """Layer -> (keys, values) of all places, [P, H_kv, d] each."""
        return self._memory.kept

    def find(self, adapters: Sequence[str | None], prompts: Sequence[IntArray]) -> list[Indices]:
        """Return the places of the longest known prefix of each prompt under its adapter; None selects the bare base.

        They hold until the next `add`.
        """
        known = [self._longest(adapter, ids) for adapter, ids in zip(adapters, prompts, strict=True)]
        self._use.asked += sum(map(len, prompts))
        self._use.known += sum(map(len, known))
        return known

    def add(
        self, adapters: Sequence[str | None], prompts: Sequence[IntArray], paths: Sequence[Indices], kept: Kept
    ) -> None:
        """Keep the keys and values of a prefill.

        Args:
            adapters: Adapter that computed each prompt; None selects the bare base.
            prompts: Token ids of its prompts.
            paths: Indices of each prompt's tokens among the N of `kept`, int64 [its length] each.
            kept: Layer -> (keys, values), [N, H_kv, d] each.
        """
        new: set[tuple[str | None, bytes]] = set()
        of, to = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for adapter, ids, path in zip(adapters, prompts, paths, strict=True):
            known = self._longest(adapter, ids)  # again: prompts of this prefill may begin like those before them
            self._users[known] += 1  # so that making room does not free them
            self._make_room(len(ids) - len(known), new)
            fresh = self._take(len(ids) - len(known))
            size = len(known) + len(fresh)
            of.append(path[len(known) : size])
            to.append(fresh)
            key = adapter, _key(ids[:size])
            if key in self._prompts:
                self._forget(key)  # and add it as the newest
            if size:
                self._prompts[key] = _Kept(ids[:size], np.concatenate([known, fresh]))
                insort(self._keys.setdefault(adapter, []), key[1])
                new.add(key)
        self._memory.write(kept, np.concatenate(of), np.concatenate(to))

    def _make_room(self, count: int, new: set[tuple[str | None, bytes]]) -> None:
        """Drop the oldest prompts until there are `count` free places; keep those of this prefill, `new`."""
        while self._prompts:
            never_used = len(self._users) - self._end
            if len(self._free) + never_used >= count:
                return
            oldest = next(iter(self._prompts))
            if oldest in new:  # so are all after it
                return
            self._forget(oldest)

    def _take(self, count: int) -> Indices:
        """Return so many free places, or all that there are, with one more user each: those used before come first."""
        reused, self._free = self._free[:count], self._free[count:]
        end = min(len(self._users), self._end + count - len(reused))
        places = np.concatenate([reused, np.arange(self._end, end)])
        self._end = end
        self._users[places] += 1
        return places

    def _forget(self, key: tuple[str | None, bytes]) -> None:
        """Drop a prompt and free the places that no other one uses."""
        adapter, sort_key = key
        places, keys = self._prompts.pop(key).places, self._keys[adapter]
        del keys[bisect_left(keys, sort_key)]
        self._users[places] -= 1
        self._free = np.concatenate([self._free, places[self._users[places] == 0]])

    def _longest(self, adapter: str | None, ids: IntArray) -> Indices:
        """Return the places of the longest known prefix of a prompt."""
        best: Indices = np.zeros(0, np.int64)
        keys, key = self._keys.get(adapter, []), _key(ids)
        at = bisect_left(keys, key)  # where the prompt would stand among the sorted ones
        for neighbour in keys[max(at - 1, 0) : at + 1]:  # one of them shares the longest
            known = self._prompts[adapter, neighbour]
            shared = common_prefix(known.ids, ids)
            if shared > len(best):
                best = known.places[:shared]
        return best


def _key(ids: IntArray) -> bytes:
    """Return bytes that sort like the token ids."""
    return np.asarray(ids, ">i4").tobytes()
