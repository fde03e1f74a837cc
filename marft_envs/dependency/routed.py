"""Routing by an orchestrator agent: acting agents and visibility chosen anew in each round.

The orchestrator acts first. Its action holds a route, either as a JSON object with the key "act" (the last one in
its text counts; other objects may be tool calls)

    {"act": ["solver_0", "actor_0"], "see": {"actor_0": ["solver_0"]}}

or, without such an object, as the last line of the form `-> solver_0, actor_0`. The arrow may be missing where the
whole action is names. A name may leave out its number where only one agent has that role.

Without "see" each agent sees all that are named before it; with "see", exactly the agents listed there. With an
answering agent of its own (`answer_by`) a route names the others only, perhaps nobody. They act at the same time,
unless "see" says otherwise, and the answering agent acts last and sees them all.

A missing route, or one outside the limits, is never an error: the default route is taken and the fault is reported.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any, TypeGuard

from marft_envs.dependency.base import Dependency, DependencyError, Edge, Roster, RoundPlan, Said
from marft_envs.dependency.fixed import as_names
from marft_envs.dependency.ordering import make_plan

_LINE = re.compile(r"^[ \t]*->(.*)$", re.MULTILINE)
_OBJECT = re.compile(r'\{\s*"')  # not the braces of LaTeX, nor an empty object
_KEYS = {"act", "see"}
_SEARCHED_CHARS = 4096
_TRIED_OBJECTS = 256


@dataclass(frozen=True)
class Route:
    """The agents that act after the orchestrator, and the pairs (seen, seeing); None if the route leaves them out."""

    act: tuple[str, ...]
    edges: frozenset[Edge] | None = None


class RouteError(ValueError):
    """Text holds no route within the limits; becomes the fault of a plan, never leaves this module."""


@dataclass(frozen=True)
class Routed(Dependency):
    """A dependency that the orchestrator's own action decides.

    Attributes:
        by: The orchestrator; acts first in every round.
        max_active: Most agents that a route may name; None is no limit.
        max_edges: Most pairs of a route that see each other, those from the orchestrator not counted; None is no
            limit.
        default: Agents that act after a route that is refused, as a chain; with `answer_by` at the same time. None
            takes the team order up to the last agent that answers, cut from the front to `max_active`.
        broadcast: All acting agents see the orchestrator's action of the round; otherwise only those that "see"
            lists it for.
        reports: From the next round on, the orchestrator sees all actions of a round.
        answer_by: Agent that acts last in every round and sees all that act; None leaves it to the routes to name
            agents that answer.
    """

    by: str
    max_active: int | None = None
    max_edges: int | None = None
    default: tuple[str, ...] | None = None
    broadcast: bool = True
    reports: bool = True
    answer_by: str | None = None

    def __post_init__(self) -> None:
        for name, limit, least in (("max_active", self.max_active, 1), ("max_edges", self.max_edges, 0)):
            if limit is not None and (type(limit) is not int or limit < least):
                raise DependencyError(
                    f"routed.{name}: found {limit!r}, wanted a whole number of at least {least}; or leave it out"
                )
        for name, switch in (("broadcast", self.broadcast), ("reports", self.reports)):
            if not isinstance(switch, bool):
                raise DependencyError(f"routed.{name}: found {switch!r}, wanted true or false")

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan for the orchestrator alone; once it has acted in this round, plan for the agents it names."""
        for turn in reversed(turns):
            if turn.round != round:
                break
            if turn.agent == self.by:
                return _plan_routed(self, roster, turn.action)
        return make_plan(roster, (), active=(self.by,), open=True)

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check the orchestrator's name, that an answering agent can act, and the default route against the limits.

        Raises:
            DependencyError: They do not fit the team.
        """
        if self.by not in roster.agents:
            raise DependencyError(f"routed by {self.by!r}: unknown agent; the team has {', '.join(roster.agents)}")
        if self.answer_by is not None and (self.answer_by == self.by or self.answer_by not in roster.answering):
            others = ", ".join(sorted(roster.answering - {self.by})) or "nobody"
            raise DependencyError(
                f"routed.answer_by: found {self.answer_by!r}, wanted an agent other than {self.by!r} that answers "
                f"({others}); give its profile `answers: true`"
            )
        if not roster.answering - {self.by}:
            raise DependencyError(
                f"no agent that answers can be routed to: agents {list(roster.agents)}, of which answer "
                f"{sorted(roster.answering)}; give a profile other than {self.by!r} `answers: true`"
            )
        try:
            self._admit(self._fallback(roster), roster)
        except RouteError as error:
            raise DependencyError(f"the default route is not within the limits: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        plain: dict[str, Any] = {
            "kind": "routed",
            "by": self.by,
            "broadcast": self.broadcast,
            "reports": self.reports,
        }
        if self.max_active is not None:
            plain["max_active"] = self.max_active
        if self.max_edges is not None:
            plain["max_edges"] = self.max_edges
        if self.answer_by is not None:
            plain["answer_by"] = self.answer_by
        if self.default is not None:
            plain["default"] = list(self.default)
        return plain

    def _fallback(self, roster: Roster) -> Route:
        """Return the route that is taken where the orchestrator's own is refused."""
        act = self.default
        if act is None:
            others = [agent for agent in roster.agents if agent not in (self.by, self.answer_by)]
            if self.answer_by is None:
                # Nobody acts after the last agent that answers: it would be heard by nobody.
                while others[-1] not in roster.answering:
                    others.pop()
            act = tuple(others[-(self.max_active or len(others)) :])
        return Route(act, frozenset(pairwise(act)) if self.answer_by is None else None)

    def _admit(self, route: Route, roster: Roster) -> RoundPlan:
        """Check the route against the limits and return its plan.

        Raises:
            RouteError: It breaks one.
        """
        known = [agent for agent in roster.agents if agent != self.by]
        for agent in route.act:
            if agent not in known:
                raise RouteError(f"{agent!r} cannot be routed to; there are {', '.join(known)}")
        if len(set(route.act)) < len(route.act):
            raise RouteError(f"an agent is named twice in {list(route.act)}")
        # The answering agent need not be named; if it is, it acts last all the same.
        named = tuple(agent for agent in route.act if agent != self.answer_by)
        act = named if self.answer_by is None else (*named, self.answer_by)
        edges = route.edges
        if edges is None and self.answer_by:  # the answering agent puts together what the others found alone
            edges = frozenset()
        elif edges is None:  # a chain in which each sees all before it
            edges = frozenset(combinations(act, 2))
        for seen, viewer in sorted(edges):
            if viewer not in act or seen not in (*act, self.by):
                raise RouteError(f"{viewer!r} cannot see {seen!r}: only agents that act see, and are seen")
        if not roster.answering & set(act):
            raise RouteError(f"nobody in {list(act)} answers; {sorted(roster.answering)} do")
        if self.max_active is not None and len(named) > self.max_active:
            raise RouteError(f"{len(named)} agents are to act, at most {self.max_active} may")
        among = [edge for edge in edges if edge[0] != self.by]
        if self.max_edges is not None and len(among) > self.max_edges:
            raise RouteError(f"{len(among)} pairs are to see each other, at most {self.max_edges} may")
        if self.answer_by is not None:
            edges |= {(agent, self.answer_by) for agent in named}
        # All may see the orchestrator's action, and it may see theirs for its next route.
        told = {(self.by, agent) for agent in act} if self.broadcast else set()
        later = [(agent, self.by) for agent in act] if self.reports else []
        try:
            return make_plan(roster, edges | told, active=(self.by, *act), later=later, opened_by=self.by)
        except DependencyError as error:
            raise RouteError(str(error)) from error


# Kept, since a plan is asked for after each action of a round, always with the same text of the orchestrator.
@lru_cache(maxsize=512)
def _plan_routed(dependency: Routed, roster: Roster, text: str) -> RoundPlan:
    try:
        return dependency._admit(read_route(text, roster.agents), roster)
    except RouteError as error:
        return replace(dependency._admit(dependency._fallback(roster), roster), fault=str(error))


def read_route(text: str, agents: Sequence[str] = ()) -> Route:
    r"""Find the route in an orchestrator's action.

    Args:
        text: Action of the orchestrator.
        agents: Agents of the team, whose names may leave out the number or the arrow.

    Examples:
        >>> read_route("First solve, then answer.\n-> solver_0, actor_0").act
        ('solver_0', 'actor_0')
        >>> read_route("solver", ["solver_0", "actor_0"]).act
        ('solver_0',)

    Raises:
        RouteError: There is none, or it is not of the form above.
    """
    tail = text[-_SEARCHED_CHARS:]  # bounds the work for any text; a route stands at the end
    spellings = _spellings(agents)
    found = _last_object(tail)
    if found is not None:
        return _from_json(found, spellings)
    if lines := _LINE.findall(tail):
        names = [name.strip() for name in lines[-1].split(",")]
        return Route(tuple(spellings.get(name, name) for name in names))
    words = text.replace(",", " ").split() if len(text) <= _SEARCHED_CHARS else []
    if words and all(word in spellings for word in words):
        return Route(tuple(spellings[word] for word in words))
    raise RouteError('no route found: expected {"act": [...], "see": {...}} or a line "-> a, b"')


def _spellings(agents: Sequence[str]) -> Mapping[str, str]:
    """Return the agent that each spelling means: its name, and its role where no other agent has it."""
    role_of = {agent: agent.rpartition("_")[0] for agent in agents}
    agents_in = Counter(role_of.values())
    spellings = {agent: agent for agent in agents}
    for agent, role in role_of.items():
        if agents_in[role] == 1:
            spellings.setdefault(role, agent)
    return spellings


def _last_object(text: str) -> dict[str, Any] | None:
    """Return the last JSON object with a key of a route that is not inside another; work is bounded for any text."""
    decoder = json.JSONDecoder()
    found, start = None, 0
    for _ in range(_TRIED_OBJECTS):
        opened = _OBJECT.search(text, start)
        if opened is None:
            break
        try:
            value, start = decoder.raw_decode(text, opened.start())
        except (ValueError, RecursionError):
            start = opened.start() + 1  # no object begins here, but one may within it
        else:
            found = value if value.keys() & _KEYS else found  # another object may be a tool call
    return found


def _from_json(value: dict[str, Any], spellings: Mapping[str, str]) -> Route:
    if unknown := sorted(set(value) - _KEYS):
        raise RouteError(f"unknown key {unknown[0]!r} in the route; it has 'act' and 'see'")
    act, see = value.get("act"), value.get("see")
    if not _is_names(act):
        raise RouteError("'act' must be a list of agent names")
    if see is not None and not (isinstance(see, dict) and all(_is_names(seen) for seen in see.values())):
        raise RouteError("'see' must map an agent to the list of agents that it sees")
    named = tuple(spellings.get(name, name) for name in act)
    if see is None:
        return Route(named)
    edges: set[Edge] = set()
    for viewer, names in see.items():
        edges |= {(spellings.get(seen, seen), spellings.get(viewer, viewer)) for seen in names}
    return Route(named, frozenset(edges))


def _is_names(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def routed(
    *,
    by: str,
    max_active: int | None = None,
    max_edges: int | None = None,
    default: Sequence[str] | None = None,
    broadcast: bool = True,
    reports: bool = True,
    answer_by: str | None = None,
) -> Routed:
    """Let the orchestrator `by` act first in each round and choose who sees whom (see above)."""
    return Routed(by, max_active, max_edges, as_names(default), broadcast, reports, answer_by)
