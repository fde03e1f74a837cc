"""What a policy is: something that answers requests of agents with actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from marft_agents.records import Action


@dataclass(frozen=True)
class Request:
    """One agent's turn, waiting for an action.

    Attributes:
        agent: who must act.
        observation: what it sees; may carry the chat form in an attribute `messages` (see `chat`).
        generator: the randomness of this turn, made from (seed, episode, turn).
    """

    agent: str
    observation: str
    generator: np.random.Generator


class Policy(Protocol):
    """Answers many requests at once; requests of different episodes and agents may be mixed."""

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return one action per request, in order."""
        ...


def text_action(text: str) -> Action:
    """Wrap plain text as an action without tokens: it can be played but not trained on."""
    return Action(text, np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32), True)
