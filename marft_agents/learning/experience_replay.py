"""Replay of solved actions: their negative log-likelihood joins the loss of an update (`replay_share`).

A mini-batch of N actions of a policy takes `replay_share` N actions from the policy's pool. Their mean NLL has the
weight `replay_share` in the loss, so a replayed action weighs as much as one of the update. Pools are those of a file,
or grow with the actions of solved episodes after each update. The newest are kept, each distinct one once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from marft_agents.learning.batch import Batch
from marft_agents.trajectory import Action

MOST_KEPT = 1024  # actions of a policy


class ReplayPools:
    """Solved actions of each policy.

    Args:
        share: Replayed actions per action of an update, >= 0; 0: none, and nothing is kept.
        fixed: Actions by policy that never change, those of a file; None: pools grow by `add`.
        seed: Seed of the draws.
    """

    def __init__(self, share: float, fixed: Mapping[str, Sequence[Action]] | None = None, *, seed: int = 0) -> None:
        self.share, self.seed, self.grows = share, seed, fixed is None and share > 0
        self._pools: dict[str, dict[tuple[bytes, bytes], Action]] = {}
        for policy, actions in (fixed or {}).items():
            self._pools[policy] = {_key(action): action for action in actions}

    def draw(self, policy: str, count: int, *place: int) -> list[Action]:
        """Draw actions of a policy without replacement: `share` times `count`, fewer where its pool is smaller.

        Args:
            policy: Name of the policy.
            count: Number of actions of the mini-batch.
            place: Numbers that identify the mini-batch: the update, and the optimizer step in it.
        """
        pool = list(self._pools.get(policy, {}).values())
        # A generator for each mini-batch, so that a resumed run draws the same without a saved state. The spawn key
        # keeps it apart from the learner's other generators of this seed.
        generator = np.random.default_rng(np.random.SeedSequence([self.seed, *place], spawn_key=(2,)))
        drawn = generator.permutation(len(pool))[: math.ceil(self.share * count)]
        return [pool[i] for i in sorted(drawn)]  # oldest first

    def add(self, batch: Batch) -> None:
        """Add the actions of solved episodes; nothing happens where pools are fixed or nothing is replayed."""
        if not self.grows:
            return
        for i in np.flatnonzero(batch.positive):
            pool = self._pools.setdefault(batch.policies[batch.policy[i]], {})
            key = _key(batch.actions[i])
            pool.pop(key, None)  # so that an action seen again goes to the end, as the newest
            pool[key] = batch.actions[i]
            if len(pool) > MOST_KEPT:
                del pool[next(iter(pool))]  # the oldest: a dict keeps the order of insertion

    def state_dict(self) -> dict[str, Any]:
        """Return the grown pools for an exact resume; empty where they are fixed."""
        if not self.grows:
            return {}
        return {policy: [_state(action) for action in pool.values()] for policy, pool in self._pools.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the pools that `state_dict` returned."""
        if self.grows:
            self._pools = {}
            for policy, own in state.items():
                actions = [_action(one) for one in own]
                self._pools[policy] = {_key(action): action for action in actions}


def _key(action: Action) -> tuple[bytes, bytes]:
    """Return a key that is equal for equal tokens after an equal prompt."""
    return action.prompt_ids.tobytes(), action.token_ids.tobytes()


def _state(action: Action) -> dict[str, Any]:
    return {
        "prompt_ids": torch.tensor(action.prompt_ids),
        "token_ids": torch.tensor(action.token_ids),
        "support": None if action.support is None else [torch.tensor(ids) for ids in action.support],
    }


def _action(state: Mapping[str, Any]) -> Action:
    """Return an action without text: only its tokens are scored."""
    token_ids = state["token_ids"].numpy()
    support = state["support"]
    return Action(
        text="",
        prompt_ids=state["prompt_ids"].numpy(),
        token_ids=token_ids,
        logprobs=np.zeros(len(token_ids), np.float32),
        stopped=True,
        support=None if support is None else tuple(ids.numpy() for ids in support),
    )
