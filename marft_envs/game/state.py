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

    @property
    def acted(self) -> frozenset[str]:
        """Agents that took their turn."""
        return frozenset(turn.agent for turn in self.turns)

    def add(self, turn: Turn) -> int:
        """Add a turn at its place in the turn order; return how many turns of the round stand after it."""
        place = self.plan.order.index
        later = sum(place(other.agent) > place(turn.agent) for other in self.turns)
        self.turns.insert(len(self.turns) - later, turn)
        return later
