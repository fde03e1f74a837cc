"""Base class of the dependency function D, and the plan of one round: turn order, layers, visibility of actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

Edge = tuple[str, str]


class DependencyError(ValueError):
    """A dependency that cannot be played; the message names the agents and says what to do."""


class Roster(NamedTuple):
    """The agents in team order, and those whose action is an answer."""

    agents: tuple[str, ...]
    answering: frozenset[str]


class Said(Protocol):
    """The turns so far, as far as a dependency may use them."""

    @property
    def agent(self) -> str:
        """Agent that acted."""

    @property
    def round(self) -> int:
        """Round of the turn, from 0."""

    @property
    def action(self) -> str:
        """Text of the action."""


@dataclass(frozen=True)
class RoundPlan:
    """D_t prepared for play.

    Attributes:
        order: The turn order, a stable topological order of D_t: also the chain that the learner's GAE runs
            along.
        sees: For each agent j the agents i with D_t(i, j) = 1.
        later: For each agent j the agents whose actions of this round j sees from the next round on.
        open: More agents may act: the dependency is asked again after each action (routing).
        fault: Reason that a route was refused and the default route taken; empty if none was refused.
        opened_by: Agent whose action decided who else acts, so that all others come in a later layer than its own;
            empty if no action did.
    """

    order: tuple[str, ...]
    sees: Mapping[str, frozenset[str]]
    later: Mapping[str, frozenset[str]]
    open: bool = False
    fault: str = ""
    opened_by: str = ""

    @cached_property
    def layer_of(self) -> Mapping[str, int]:
        """Layer of each acting agent: the length of the longest path to it."""
        layers: dict[str, int] = {}
        for agent in self.order:
            # Those that it waits for come before it in the order, so their layers are known; agents that do not act
            # have none.
            waits_for = self.sees[agent] | ({self.opened_by} - {agent})
            layers[agent] = 1 + max((layers[other] for other in waits_for if other in layers), default=-1)
        return layers

    @cached_property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Agents that may generate at the same time, layer by layer; each layer in turn order."""
        groups: dict[int, list[str]] = {}
        for agent, layer in self.layer_of.items():
            groups.setdefault(layer, []).append(agent)
        return tuple(tuple(groups[layer]) for layer in sorted(groups))

    @cached_property
    def sees_after(self) -> Mapping[str, frozenset[str]]:
        """For each agent the agents whose actions of this round it sees once the round is over."""
        acting = frozenset(self.order)  # the others said nothing that could be seen
        return {agent: (seen | self.later[agent]) & acting for agent, seen in self.sees.items()}

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All (i, j) among acting agents with D_t(i, j) = 1, in turn order."""
        return tuple((i, j) for i in self.order for j in self.order if i in self.sees[j])


class Dependency(ABC):
    """The dependency function D: plans every round; immutable, and a pure function of team, round and turns."""

    @abstractmethod
    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan a round.

        Args:
            roster: Agents of the team and those that answer.
            round: Index of the round, from 0.
            turns: All turns of the game so far, those of this round included.

        Raises:
            DependencyError: It does not fit the team, or has a cycle.
        """

    def given(self, state: Mapping[str, float]) -> Dependency:
        """Return the dependency of a round that begins in this state: itself, unless the state decides.

        Args:
            state: Numbers of the game at the start of the round, see `STATE_KEYS`.
        """
        return self

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; `dependency.from_dict` reads it back."""

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Refuse a dependency that cannot be played.

        Raises:
            DependencyError: An unknown agent, a cycle, no answering agent that acts, an agent whose action reaches no
                answer.
        """
        # One plan tells all where rounds are alike; dependencies that change override this.
        check_reach([self.plan(roster)], roster, horizon)


def check_reach(plans: Sequence[RoundPlan], roster: Roster, horizon: int, *, unheard_allowed: bool = False) -> None:
    """Require that an answering agent acts and that each agent's action can influence an answer.

    Args:
        plans: The plans of the distinct rounds.
        roster: Agents of the team and those that answer.
        horizon: Number of rounds; with more than one, delayed edges count too.
        unheard_allowed: Require only that an answering agent acts.

    Raises:
        DependencyError: Otherwise, naming the agents.
    """
    acting: set[str] = set()
    edges: list[Edge] = []
    for plan in plans:
        acting.update(plan.order)
        edges += plan.edges
        if horizon > 1:  # what an agent sees only later, it can use in a later round
            for viewer, seen in plan.later.items():
                edges += [(agent, viewer) for agent in seen]
    reached = set(roster.answering & acting)
    if not reached:
        raise DependencyError(
            f"no agent that answers ever acts (agents {list(roster.agents)}, of which answer "
            f"{sorted(roster.answering)}): give a profile `answers: true` and let it act"
        )
    # An action is heard if its edges lead to an answer: walk them backwards from the answering agents.
    while gained := {i for i, j in edges if j in reached} - reached:
        reached |= gained
    lost = [agent for agent in roster.agents if agent in acting - reached]
    if lost and not unheard_allowed:
        raise DependencyError(
            f"what {' and '.join(lost)} says reaches no agent that answers ({sorted(roster.answering)}) "
            f"within {horizon} round(s), so it cannot matter. An edge (i, j), in a matrix row i, column j, "
            "means that j sees i: check the direction, add an edge, or ask for `independent` agents"
        )
