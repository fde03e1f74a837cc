"""Rewards for teams of random weights, which solve nothing: what all episodes earn alike is not differentiated."""

from __future__ import annotations

import zlib
from typing import Any

from pettingzoo.utils.wrappers import BaseWrapper


class CoinReward(BaseWrapper[str, str, str]):
    """Pays all agents 0 or 1 after each action, by the action's checksum."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Reset; nobody is paid yet."""
        super().reset(seed, options)
        self.rewards = dict(self.env.rewards)

    def step(self, action: str) -> None:
        """Step, then toss."""
        super().step(action)
        self.rewards = dict.fromkeys(self.env.rewards, float(zlib.crc32((action or "").encode()) & 1))
