"""Random rewards for speed measurements with untrained weights.

A model with random weights solves no problem. All its groups would have zero advantage, and the update would skip their
backward pass.
"""

from __future__ import annotations

import zlib
from typing import Any

from pettingzoo.utils.wrappers import BaseWrapper


class CoinReward(BaseWrapper[str, str, str]):
    """Wrapper that gives all agents reward 0 or 1 after each action, by the action's checksum."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Reset the environment; all rewards are 0."""
        super().reset(seed, options)
        self.rewards = dict(self.env.rewards)

    def step(self, action: str) -> None:
        """Step the environment, then replace the rewards."""
        super().step(action)
        self.rewards = dict.fromkeys(self.env.rewards, float(zlib.crc32((action or "").encode()) & 1))
