"""Canary of an external sampler: does it sample from the adapters that were trained?

An engine can accept an adapter and go on with the previous version or with the base, while every metric stays
plausible. So after each synchronisation it samples one token for a fixed prompt under each adapter. The log-probs of
the likeliest tokens are compared with the learner's own.

An engine rounds differently from the learner, so its log-probs are never the same numbers. That error is unrelated to
the direction in which an update moved them. So they count as those of another version where they are `CLOSER` times
nearer to that version than to the current one, and only where they differ from the current one by more than `SAME`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch

from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.sampler_error import SamplerError
from marft_agents.trajectory import FloatArray, IntArray

PROMPT = "What is 17 + 25?"
WIDTH = 20  # number of likeliest tokens compared; vLLM tells no more by default
SAME = 1e-3  # nats per token; smaller differences are float error
CLOSER = 3.0
LARGEST = 0.5  # nats per token; no precision of an engine explains a larger difference

FirstToken = Callable[[str, IntArray], Mapping[int, float]]


class Canary:
    """Compares an engine's log-probs of a fixed prompt with those of a team's adapters.

    Args:
        team: The learning team.
        engine: Name of the engine in error messages.
    """

    def __init__(self, team: LanguageModelTeam, engine: str) -> None:
        self.team, self.engine = team, engine
        self._previous: dict[str, FloatArray] = {}  # of each policy at the last check
        self._base: dict[str, FloatArray] = {}  # of each policy's base without adapter

    def check(self, first_token: FirstToken) -> None:
        """Compare the log-probs of all adapters; call it after each synchronisation.

        Args:
            first_token: Maps an agent and prompt ids to the engine's log-probs of the first token, by token id. They
                are those of temperature 1 over the whole vocabulary; at least one and at most `WIDTH` + 1 of them.

        Raises:
            SamplerError: The engine plays the base, the previous version or something else; nothing is recorded then.
        """
        current = {}
        for policy, (agent, *_) in self.team.policies.items():
            local, prompt = self.team.local_agent(agent), self.team.encode(agent, PROMPT)
            current[policy] = first_token_log_probs(local, prompt)
            if policy not in self._base:
                self._base[policy] = first_token_log_probs(LocalAgent(local.base, None), prompt)
            self._compare(policy, first_token(agent, prompt), current[policy])
        self._previous = current

    def check_base(self, first_token: Callable[[IntArray], Mapping[int, float]]) -> None:
        """Compare the log-probs of the base without adapter; call it once, before the first adapter is loaded.

        Args:
            first_token: Maps prompt ids to the engine's log-probs of the first token under its base model.

        Raises:
            SamplerError: The engine has another base model.
        """
        agent, local = next(iter(self.team.local_agents.items()))
        prompt = self.team.encode(agent, PROMPT)
        found = _gap(first_token(prompt), first_token_log_probs(LocalAgent(local.base, None), prompt))
        if not found <= LARGEST:
            raise SamplerError(
                f"{self.engine} serves another model than {local.base.name!r}: log-probs of the canary prompt differ "
                f"by {found:.2g} nats per token. Start it with the base model of the team"
            )

    def _compare(self, policy: str, told: Mapping[int, float], current: FloatArray) -> None:
        found = _gap(told, current)
        if found <= SAME:
            return
        others = {"its previous version": self._previous.get(policy), "the base without adapter": self._base[policy]}
        gaps = {name: _gap(told, own) for name, own in others.items() if own is not None}
        nearest = min(gaps, key=lambda name: gaps[name])
        if gaps[nearest] * CLOSER <= found:
            played = f"those of {nearest} (difference {gaps[nearest]:.2g})"
        elif found <= LARGEST:
            return
        else:
            played = f"those of another model (difference to {nearest} {gaps[nearest]:.2g})"
        raise SamplerError(
            f"{self.engine} does not sample from adapter {policy!r}: its log-probs of the canary prompt are {played}, "
            f"wanted those of the adapter as it was just trained (difference {found:.2g} nats per token). The engine "
            "accepted the adapter without applying it, or serves another base model. Look at its log, restart it and "
            "resume; --no-canary trains without this check"
        )


def _gap(told: Mapping[int, float], own: FloatArray) -> float:
    """Return the mean absolute difference in nats; NaN if the engine has tokens that the model does not have."""
    ids, sampled = np.fromiter(told, np.int64), np.fromiter(told.values(), np.float32)
    return float(np.abs(sampled - own[ids]).mean()) if ids.max() < len(own) else math.nan


@torch.no_grad()
def first_token_log_probs(local: LocalAgent, prompt: IntArray) -> FloatArray:
    """Return the learner's log-probs of the token after a prompt at temperature 1, float32 [V].

    Args:
        local: Base model and adapter; an adapter of None is the bare base.
        prompt: Prompt tokens, int32 [P].
    """
    base = local.base
    ids = torch.as_tensor(prompt, dtype=torch.long, device=base.device)[None]
    with base.active_adapter(local.adapter):
        hidden = base.trunk(input_ids=ids, use_cache=False).last_hidden_state[0, -1]  # [d]
        logits = base.head(hidden)
    found: FloatArray = logits.float().log_softmax(-1).cpu().numpy()
    return found
