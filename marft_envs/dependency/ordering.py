"""Round plan from the edges of a dependency: stable topological order and visibility.

Pure functions on edges. An edge (i, j) means D(a^i, a^j) = 1: agent j sees the action of agent i, so i acts first.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence

from marft_envs.dependency.base import DependencyError, Edge, Roster, RoundPlan


def make_plan(
    roster: Roster,
    edges: Collection[Edge],
    *,
    active: Collection[str] | None = None,
    later: Collection[Edge] = (),
    open: bool = False,  # noqa: A002 - the field of RoundPlan
    fault: str = "",
    opened_by: str = "",
) -> RoundPlan:
    """Build the plan of a round from its edges.

    Args:
        roster: Agents of the team and those that answer.
        edges: D_t as pairs (seen, seeing).
        active: Agents that act; None is all. Edges from agents that do not act have no effect in this round.
        later: Delayed edges, which may point backwards in the order.
        open: As in `RoundPlan`.
        fault: As in `RoundPlan`.
        opened_by: As in `RoundPlan`; it acts first.

    Raises:
        DependencyError: The edges hold a cycle (the message names it), or no agent acts.
    """
    acting = [agent for agent in roster.agents if active is None or agent in active]  # in team order
    if not acting:
        raise DependencyError(f"nobody acts in a round: `active` names none of {', '.join(roster.agents)}")
    sees = _incoming(roster, edges, acting)
    waits_for: dict[str, Collection[str]] = {}
    for agent in acting:
        # Nobody acts before the agent whose action opened the round, even those that do not see it.
        waits_for[agent] = sees[agent] | {opened_by} if opened_by and agent != opened_by else sees[agent]
    order = turn_order(acting, waits_for)
    return RoundPlan(order, sees, _incoming(roster, later, acting), open, fault, opened_by)


def turn_order(agents: Sequence[str], sees: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Sort topologically; ties are broken by team order.

    Examples:
        >>> turn_order(["a_0", "b_0", "c_0"], {"a_0": {"c_0"}, "b_0": set(), "c_0": set()})
        ('b_0', 'c_0', 'a_0')

    Raises:
        DependencyError: There is a cycle.
    """
    place = {agent: index for index, agent in enumerate(agents)}
    waiting = dict.fromkeys(agents, 0)  # number of agents that it sees and that are not in the order yet
    viewers: dict[str, list[str]] = {agent: [] for agent in agents}
    for agent in agents:
        for seen in sees[agent]:
            if seen in place:
                waiting[agent] += 1
                viewers[seen].append(agent)
    # A heap of places, so that of several agents that may act the first in team order comes next.
    ready = [place[agent] for agent in agents if not waiting[agent]]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        order.append(agents[heapq.heappop(ready)])
        for viewer in viewers[order[-1]]:
            waiting[viewer] -= 1
            if not waiting[viewer]:
                heapq.heappush(ready, place[viewer])
    if len(order) < len(agents):
        cycle = _find_cycle([agent for agent in agents if agent not in order], sees)
        raise DependencyError(
            f"the dependency has a cycle: {' -> '.join(cycle)}; in one round an agent can only see who acted "
            "before it. Remove one of these edges, or make it a delayed edge (seen from the next round on)"
        )
    return tuple(order)


def _incoming(roster: Roster, edges: Collection[Edge], acting: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the agents that each agent of the team sees along some edges.

    Agents that do not act see, and are not seen.
    """
    incoming: dict[str, set[str]] = {agent: set() for agent in roster.agents}
    for seen, viewer in edges:
        if seen in acting and viewer in incoming:
            incoming[viewer].add(seen)
    return {agent: frozenset(seen) for agent, seen in incoming.items()}


def _find_cycle(stuck: Sequence[str], sees: Mapping[str, Collection[str]]) -> list[str]:
    """Walk from a blocked agent to one it waits for, until one repeats; return the cycle in edge direction."""
    path = [stuck[0]]
    while True:
        # Every blocked agent waits for another blocked one, or the sort would have taken it.
        seen = next(agent for agent in stuck if agent in sees[path[-1]])
        if seen in path:
            return [seen, *reversed(path[path.index(seen) :])]
        path.append(seen)
