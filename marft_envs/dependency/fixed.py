"""Dependencies with the same edges in every round: a preset, or a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import combinations, pairwise, permutations
from typing import Any, Literal

from marft_envs.dependency.base import Dependency, DependencyError, Edge, Roster, RoundPlan, Said, check_reach
from marft_envs.dependency.ordering import make_plan

Matrix = tuple[tuple[int, ...], ...]
Delayed = Matrix | Literal["all"] | None


@dataclass(frozen=True)
class Fixed(Dependency):
    """The same edges in every round.

    Attributes:
        kind: "independent" (no edges: a DEC-POMDP), "chain" (each sees its predecessor), "full" (each sees
            all before it) or "matrix".
        rows: D for kind "matrix": `rows[i][j]` is 1 where j sees i.
        agents: Names of the rows and columns of `rows` and `delayed`; None is team order.
        active: Agents that act; None is all. Chain and full run over the active agents in team order.
        delayed: E, visible from the next round on; "all": every agent sees everything of earlier rounds.
    """

    kind: Literal["independent", "chain", "full", "matrix"]
    rows: Matrix | None = None
    agents: tuple[str, ...] | None = None
    active: tuple[str, ...] | None = None
    delayed: Delayed = None

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan a round; all rounds are alike."""
        return _plan_fixed(self, roster)

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check as in `Dependency`; independent agents are allowed to be unseen, since the user asked for that."""
        check_reach([self.plan(roster)], roster, horizon, unheard_allowed=self.kind == "independent")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        plain = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                plain[field.name] = _plain(value)
        return plain


# Kept, since every game of a run asks for the same plan in every round.
@lru_cache(maxsize=256)
def _plan_fixed(dependency: Fixed, roster: Roster) -> RoundPlan:
    _check_names(dependency.active, roster, "active")
    labels = dependency.agents or roster.agents
    _check_names(labels, roster, "agents")
    later: Iterable[Edge] = ()
    if dependency.delayed == "all":
        later = permutations(roster.agents, 2)
    elif dependency.delayed is not None:
        later = _edges(dependency.delayed, labels, "delayed")
    acting = [agent for agent in roster.agents if dependency.active is None or agent in dependency.active]
    edges: Iterable[Edge]
    if dependency.kind == "chain":
        edges = pairwise(acting)
    elif dependency.kind == "full":
        edges = combinations(acting, 2)  # (i, j) with i before j
    elif dependency.rows is not None:
        edges = _edges(dependency.rows, labels, "D")
    else:
        edges = ()
    return make_plan(roster, list(edges), active=acting, later=list(later))


def _edges(rows: Matrix, labels: Sequence[str], what: str) -> list[Edge]:
    if len(rows) != len(labels):
        raise DependencyError(
            f"{what} is {len(rows)}x{len(rows)} but has {len(labels)} agents ({', '.join(labels)}): "
            "give one row and column for each agent, or `agents` naming the rows"
        )
    edges = []
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            if entry:  # j sees i
                edges.append((labels[i], labels[j]))
    return edges


def _check_names(names: Sequence[str] | None, roster: Roster, what: str) -> None:
    for name in names or ():
        if name not in roster.agents:
            raise DependencyError(f"{what}: unknown agent {name!r}; the team has {', '.join(roster.agents)}")
    if names and len(set(names)) < len(names):
        raise DependencyError(f"{what}: an agent is named twice in {list(names)}")


def as_matrix(rows: Any, what: str) -> Matrix:
    """Read a square matrix of zeros and ones with an empty diagonal.

    Args:
        rows: Nested sequences or an array.
        what: Name of the matrix in error messages.

    Raises:
        DependencyError: It is none.
    """
    plain = rows.tolist() if hasattr(rows, "tolist") else rows  # an array gives numbers of Python
    try:
        taken = [tuple(row) for row in plain]
    except TypeError as error:
        raise DependencyError(f"{what}: expected rows of zeros and ones, got {rows!r}") from error
    for place, row in enumerate(taken):
        if len(row) != len(taken):
            raise DependencyError(f"{what} must be square: {len(taken)} rows, but row {place} has {len(row)} entries")
        if any(entry not in (0, 1) for entry in row):  # equal to, so `true` and 1.0 pass and become 1
            raise DependencyError(f"{what} must hold zeros and ones: row {place} is {list(row)}")
        if row[place]:
            raise DependencyError(
                f"{what}[{place}][{place}] = 1, but no agent sees itself: the diagonal must be 0 "
                "(an agent's own earlier actions are always shown to it)"
            )
    if not taken:
        raise DependencyError(f"{what} is empty: give one row for each agent")
    return tuple(tuple(int(entry) for entry in row) for row in taken)


def as_delayed(value: Any) -> Delayed:
    """Read a delayed matrix, "all" or None.

    Raises:
        DependencyError: It is none of these.
    """
    if isinstance(value, str):
        if value != "all":
            raise DependencyError(f"delayed: expected a matrix or 'all', got {value!r}")
        return "all"
    return None if value is None else as_matrix(value, "delayed")


def as_names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    """Read a list of agent names, or None.

    Raises:
        DependencyError: It is anything else.
    """
    if names is None:
        return None
    taken = None if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if taken is None or not all(isinstance(name, str) for name in taken):
        raise DependencyError(f"expected a list of agent names, got {names!r}")
    return taken


def _plain(value: Any) -> Any:
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def independent(*, active: Iterable[str] | None = None, delayed: Any = None) -> Fixed:
    """Make a dependency without edges in a round: all agents act simultaneously."""
    return Fixed("independent", None, None, as_names(active), as_delayed(delayed))


def chain(*, active: Iterable[str] | None = None, delayed: Any = None) -> Fixed:
    """Make a chain: each agent sees the one before it."""
    return Fixed("chain", None, None, as_names(active), as_delayed(delayed))


def full(*, active: Iterable[str] | None = None, delayed: Any = None) -> Fixed:
    """Make the chain of the MARFT reference: each agent sees all before it in team order."""
    return Fixed("full", None, None, as_names(active), as_delayed(delayed))


def matrix(
    rows: Any,
    *,
    agents: Iterable[str] | None = None,
    active: Iterable[str] | None = None,
    delayed: Any = None,
) -> Fixed:
    """Make a dependency from D itself: nested sequences or an array, `rows[i][j]` is 1 where agent j sees agent i.

    Raises:
        DependencyError: Not square, not binary, or with an agent that would see itself.
    """
    return Fixed("matrix", as_matrix(rows, "D"), as_names(agents), as_names(active), as_delayed(delayed))
