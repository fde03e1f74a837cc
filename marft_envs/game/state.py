"""State of a running game: its rounds so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marft_envs.dependency.base import RoundPlan
from marft_envs.game.turn import Turn
from marft_envs.spaces import Message


@dataclass
class RoundHistory:
    """One round so far.

    Attributes:
        opening: The environment's message to all; without content it is shown to nobody.
        plan: Turn order and visibility; that of a routed round grows with the orchestrator's action.
        private: The environment's messages to single agents.
        turns: Turns taken, in the turn order.
        events: Events of the round, once it is over; see `Outcome.events`.
        said: Whole action of each agent that has acted, as the message that other agents get.
        in_order: False once an agent acted before one that comes first in the turn order.
    """

    opening: Message
    plan: RoundPlan
    private: Mapping[str, Message] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    events: tuple[Mapping[str, Any], ...] = ()
    said: dict[str, Message] = field(default_factory=dict)
    in_order: bool = True

    @property
    def next_agent(self) -> str:
        """The first agent in the turn order that has not acted; some has to be left."""
        if self.in_order:
            return self.plan.order[len(self.turns)]
        return next(agent for agent in self.plan.order if agent not in self.said)

    def add(self, turn: Turn) -> int:
        """Add a turn at its place in the turn order; return how many turns of the round stand after it."""
        self.in_order = self.in_order and self.next_agent == turn.agent
        self.said[turn.agent] = Message("user", turn.action, turn.agent)
        if self.in_order:
            self.turns.append(turn)
            return 0
        place = self.plan.order.index
        later = sum(place(other.agent) > place(turn.agent) for other in self.turns)
        self.turns.insert(len(self.turns) - later, turn)
        return later
