"""State of a running game: its rounds so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marft_envs.dependency.base import RoundPlan
from marft_envs.records.turn import Turn


@dataclass
class RoundHistory:
    """One round so far: public and private texts of the environment, the plan, the turns and their events."""

    opening: str
    plan: RoundPlan
    private: Mapping[str, str] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    events: tuple[Mapping[str, Any], ...] = ()
    acted: set[str] = field(default_factory=set)
    in_order: bool = True

    @property
    def next_agent(self) -> str:
        """The first agent in the turn order that has not acted; some has to be left."""
        if self.in_order:
            return self.plan.order[len(self.turns)]
        return next(agent for agent in self.plan.order if agent not in self.acted)

    def add(self, turn: Turn) -> int:
        """Add a turn at its place in the turn order; return how many turns of the round stand after it."""
        self.in_order = self.in_order and self.next_agent == turn.agent
        self.acted.add(turn.agent)
        if self.in_order:
            self.turns.append(turn)
            return 0
        place = self.plan.order.index
        later = sum(place(other.agent) > place(turn.agent) for other in self.turns)
        self.turns.insert(len(self.turns) - later, turn)
        return later
