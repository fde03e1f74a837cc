"""Dependency function of a dialogue: one agent acts per round, with its tools or with a message.

An action that calls a tool is seen by nobody else, and its author acts again. An action without a call is a message:
all others see it from the next round on, and the next agent in team order acts. This is the protocol of tau2: a message
holds text or calls, and the results of calls go to the caller alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from marft_envs.dependency.base import Dependency, DependencyError, Roster, RoundPlan, Said
from marft_envs.dependency.ordering import make_plan
from marft_envs.tasks.tools.calls import CallError, read_calls


@dataclass(frozen=True)
class Dialogue(Dependency):
    """A dependency in which agents exchange messages and call their own tools in between.

    Attributes:
        start: The agent that acts first; None is the first agent of the team.
    """

    start: str | None = None

    def __post_init__(self) -> None:
        if self.start is not None and not isinstance(self.start, str):
            raise DependencyError(f"dialogue.start: found {self.start!r}, wanted the name of an agent, or leave it out")

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan for one agent; once it has said a message, let all others see it from the next round on."""
        before = [turn for turn in turns if turn.round < round]
        speaker = self._speaker(roster, before[-1] if before else None)
        said = [turn for turn in turns if turn.round == round]
        heard = said and is_message(said[-1].action)
        later = [(speaker, agent) for agent in roster.agents if agent != speaker] if heard else []
        return make_plan(roster, (), active=(speaker,), later=later, open=True)

    def _speaker(self, roster: Roster, last: Said | None) -> str:
        """Return the agent that acts after this turn; None is the first round."""
        if last is None:
            return self.start or roster.agents[0]
        agents = roster.agents
        return agents[(agents.index(last.agent) + is_message(last.action)) % len(agents)]

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check the first agent's name and that an agent answers.

        Raises:
            DependencyError: They do not fit the team.
        """
        if self.start is not None and self.start not in roster.agents:
            raise DependencyError(
                f"dialogue starts with {self.start!r}: unknown agent; the team has {', '.join(roster.agents)}"
            )
        if not roster.answering:
            raise DependencyError("no agent of the dialogue answers: give a profile `answers: true`")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"kind": "dialogue"} | ({} if self.start is None else {"start": self.start})


@lru_cache(maxsize=4096)
def is_message(action: str) -> bool:
    """Return True if an action calls no tool; one that begins like a call and cannot be read is no message."""
    try:
        return not read_calls(action)
    except CallError:
        return False
