"""Prompt cache: keys and values of prompts, kept from turn to turn of the same episodes.

An agent's next prompt mostly repeats its last one and adds what happened since. With the keys and values of the last
one only the rest is computed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from marft_agents.generation.prompt_tree import Kept, KnownPrefix
from marft_agents.models.prefix_tree import Indices, common_prefix
from marft_agents.trajectory import IntArray

CONTINUED = 0.8  # a prompt is dropped once a later one repeats this share of it


@dataclass
class _Prefill:
    """Keys and values of one prefill, and its prompts that are still looked up: (adapter, sort key) -> (ids, path)."""

    kept: Kept
    prompts: dict[tuple[str | None, bytes], tuple[IntArray, Indices]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        return sum(tensor.nbytes for pair in self.kept.values() for tensor in pair)


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


class PromptCache:
    """Keys and values of earlier prompts under the same weights.

    Args:
        limit: Most bytes to keep; the oldest prefills are dropped first. Of one that is larger, what fits is kept.
        use: Counts the tokens of prompts.
    """

    def __init__(self, limit: int, use: PromptCacheUse | None = None) -> None:
        self._limit, self._use = limit, use or PromptCacheUse()
        self._prefills: list[_Prefill] = []
        self._keys: dict[str | None, list[bytes]] = {}  # sorted, so that neighbours share the longest prefixes
        self._where: dict[tuple[str | None, bytes], _Prefill] = {}

    def find(self, adapters: Sequence[str | None], prompts: Sequence[IntArray]) -> list[KnownPrefix | None]:
        """Return the longest known prefix of each prompt under its adapter; None selects the bare base."""
        known = [self._longest(adapter, ids) for adapter, ids in zip(adapters, prompts, strict=True)]
        self._use.asked += sum(map(len, prompts))
        self._use.known += sum(len(prefix.path) for prefix in known if prefix is not None)
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
        size = _Prefill(kept).size
        if size > self._limit:
            count = len(next(iter(kept.values()))[0])
            kept, paths = _beginnings(kept, paths, self._limit * count // size)
        new = _Prefill(kept)
        for adapter, ids, path in zip(adapters, prompts, paths, strict=True):
            if len(path):
                new.prompts[adapter, _key(ids[: len(path)])] = ids[: len(path)], path
        for (adapter, key), (ids, _) in new.prompts.items():
            for old in self._neighbours(adapter, key):
                known = self._where[adapter, old].prompts[adapter, old][0]
                if common_prefix(known, ids) >= CONTINUED * len(known):
                    self._forget(adapter, old)
        for adapter, key in new.prompts:
            insort(self._keys.setdefault(adapter, []), key)
            self._where[adapter, key] = new
        self._prefills = [old for old in [*self._prefills, new] if old.prompts]
        while sum(old.size for old in self._prefills) > self._limit:
            for adapter, key in list(self._prefills.pop(0).prompts):
                self._forget(adapter, key)

    def _longest(self, adapter: str | None, ids: IntArray) -> KnownPrefix | None:
        best: KnownPrefix | None = None
        for key in self._neighbours(adapter, _key(ids)):
            found = self._where[adapter, key]
            known, path = found.prompts[adapter, key]
            shared = common_prefix(known, ids)
            if shared > (0 if best is None else len(best.path)):
                best = KnownPrefix(found.kept, path[:shared])
        return best

    def _neighbours(self, adapter: str | None, key: bytes) -> list[bytes]:
        """Return the kept prompts before and after a key; one of them shares its longest known prefix."""
        keys = self._keys.get(adapter, [])
        at = bisect_left(keys, key)
        return keys[max(at - 1, 0) : at + 1]

    def _forget(self, adapter: str | None, key: bytes) -> None:
        del self._where.pop((adapter, key)).prompts[adapter, key]
        del self._keys[adapter][bisect_left(self._keys[adapter], key)]


def _beginnings(kept: Kept, paths: Sequence[Indices], count: int) -> tuple[Kept, list[Indices]]:
    """Return so many of a prefill's tokens, and what is left of the paths: the first ones and their beginnings."""
    number = np.full(len(next(iter(kept.values()))[0]), -1)  # of each token among those left
    left: list[int] = []
    cut = []
    for path in paths:
        new = path[number[path] < 0][: count - len(left)]
        number[new] = np.arange(len(left), len(left) + len(new))
        left += new.tolist()
        own = number[path]
        cut.append(own[: np.argmax(own < 0)] if (own < 0).any() else own)
    return {layer: (keys[left], values[left]) for layer, (keys, values) in kept.items()}, cut


def _key(ids: IntArray) -> bytes:
    """Return bytes that sort like the token ids."""
    return np.asarray(ids, ">i4").tobytes()
