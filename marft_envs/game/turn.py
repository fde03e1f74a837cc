"""Record of one turn: an agent's observation and its action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Turn(NamedTuple):
    """One agent's action.

    Attributes:
        agent: Agent that acted.
        round: Index of the round, from 0.
        layer: Layer of the agent in the round, from 0.
        visible: The actions it was allowed to see, as (round, agent), oldest first, without its own. Those that it
            read with tokens left out are in `shortened`.
        observation: Observation of the agent before the action.
        action: Text of the action, as the game took it.
        fault: Reason that the action counts as invalid (too long, not UTF-8, a refused route); empty if it does
            not.
        tokens: Number of tokens of the action; None if not counted (the game knows text only).
        shortened: Parts that a policy left out to fit its context window, an entry per message: its `author`, the
            `round` of the turn (None for the environment's), the number of tokens `removed`. The game cuts nothing.
    """

    agent: str
    round: int
    layer: int
    visible: tuple[tuple[int, str], ...]
    observation: str
    action: str
    fault: str = ""
    tokens: int | None = None
    shortened: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; it holds `shortened` only if that is not empty."""
        plain = self._asdict() | {"visible": [list(place) for place in self.visible]}
        shortened = plain.pop("shortened")
        return plain | {"shortened": [dict(entry) for entry in shortened]} if shortened else plain
