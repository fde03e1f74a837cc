"""Prompt cache: keys and values of prompts, kept from turn to turn of the same episodes.

An agent's next prompt mostly repeats its last one and adds what happened since. With the keys and values of the last
one only the rest is computed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

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


class PromptCache:
    """Keys and values of earlier prompts under the same weights.

    Args:
        limit: Most bytes to keep; the oldest prefills are dropped first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._prefills: list[_Prefill] = []
        self._keys: dict[str | None, list[bytes]] = {}  # sorted, so that neighbours share the longest prefixes
        self._where: dict[tuple[str | None, bytes], _Prefill] = {}

    def find(self, adapters: Sequence[str | None], prompts: Sequence[IntArray]) -> list[KnownPrefix | None]:
        """Return the longest known prefix of each prompt under its adapter; None selects the bare base."""
        return [self._longest(adapter, ids) for adapter, ids in zip(adapters, prompts, strict=True)]

    def add(
        self, adapters: Sequence[str | None], prompts: Sequence[IntArray], paths: Sequence[Tensor], kept: Kept
    ) -> None:
        """Keep the keys and values of a prefill.

        Args:
            adapters: Adapter that computed each prompt; None selects the bare base.
            prompts: Token ids of its prompts.
            paths: Indices of each prompt's tokens among the N of `kept`, int64 [its length] each.
            kept: Layer -> (keys, values), [N, H_kv, d] each.
        """
        new = _Prefill(kept)
        for adapter, ids, path in zip(adapters, prompts, paths, strict=True):
            new.prompts[adapter, _key(ids)] = ids, path.cpu().numpy()
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


def _key(ids: IntArray) -> bytes:
    """Return bytes that sort like the token ids."""
    return np.asarray(ids, ">i4").tobytes()
