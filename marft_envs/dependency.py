"""The dependency function D of a team, as one small immutable object.

`D_t(a^i, a^j) = 1` says that in round t the action of agent j depends on (sees) the action of agent i. In a
matrix that is row i, column j. D determines the turn order, the layers of agents that may generate at the
same time, and the content of each observation (`plan.py`). Actions of an earlier round s stay visible to j where
D_s(i, j) = 1. The optional matrix `delayed` adds edges that count from the next round on and may point
backwards. An agent always sees its own earlier actions.

Source: MARFT, the Flex-MG ⟨V, N, S, O, A, T, R, γ, D⟩.

Example:
    >>> team = Roster(("planner_0", "solver_0", "actor_0"), frozenset({"actor_0"}))
    >>> full().plan(team).edges
    (('planner_0', 'solver_0'), ('planner_0', 'actor_0'), ('solver_0', 'actor_0'))
    >>> matrix([[0, 0, 1], [0, 0, 1], [0, 0, 0]]).plan(team).layers
    (('planner_0', 'solver_0'), ('actor_0',))
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from marft_envs.fixed import Fixed, as_delayed, as_matrix, as_names
from marft_envs.handoff import Handoff
from marft_envs.plan import Dependency, DependencyError, Roster, RoundPlan, Said, check_reach
from marft_envs.routing import Routed

__all__ = [
    "Dependency",
    "DependencyError",
    "Fixed",
    "Handoff",
    "Roster",
    "RoundPlan",
    "Routed",
    "Schedule",
    "Stateful",
    "as_dependency",
    "by_state",
    "chain",
    "from_dict",
    "full",
    "handoff",
    "independent",
    "matrix",
    "routed",
    "schedule",
]


@dataclass(frozen=True)
class Schedule(Dependency):
    """A dependency that changes from round to round.

    Attributes:
        steps: One dependency per round.
        after: Rounds after the last step: "repeat" it for ever, or "cycle" through all again.
    """

    steps: tuple[Dependency, ...]
    after: Literal["repeat", "cycle"] = "repeat"

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan with the step of the round."""
        place = round % len(self.steps) if self.after == "cycle" else min(round, len(self.steps) - 1)
        return self.steps[place].plan(roster, round, turns)

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check all rounds together, as in `Dependency`; if all are independent, no action needs to be seen."""
        used = self.steps[:horizon]
        fixed = [step for step in used if isinstance(step, Fixed)]
        for step in used:
            if step not in fixed:
                step.check(roster, horizon)
        if len(fixed) == len(used):
            free = all(step.kind == "independent" for step in fixed)
            check_reach([step.plan(roster) for step in fixed], roster, horizon, unheard_allowed=free)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"kind": "schedule", "steps": [step.to_dict() for step in self.steps], "after": self.after}


@dataclass(frozen=True)
class Stateful(Dependency):
    """A dependency chosen by a function of the game so far, at the start of each round.

    Attributes:
        rule: Maps the round (from 0) and all turns of earlier rounds to the dependency of the round. It must
            be pure: a replay calls it again.
    """

    rule: Callable[[int, Sequence[Said]], Dependency]

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Call the rule and plan with the dependency it returns."""
        return self._choose(round, [turn for turn in turns if turn.round < round]).plan(roster, round, turns)

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check the first round only: the others are not known."""
        self._choose(0, ()).check(roster, 1)

    def _choose(self, round: int, turns: Sequence[Said]) -> Dependency:
        return as_dependency(self.rule(round, turns), f"the rule's answer for round {round}")

    def to_dict(self) -> dict[str, Any]:
        """Raise an error: a rule is code and has no JSON form.

        Raises:
            DependencyError: Always.
        """
        raise DependencyError(f"a dependency with a rule ({self.rule!r}) is code and cannot be written as JSON")


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
    """Make a dependency from D itself: nested sequences or an array, rows[i][j] = 1 where agent j sees agent i.

    Raises:
        DependencyError: Not square, not binary, or with an agent that would see itself.
    """
    return Fixed("matrix", as_matrix(rows, "D"), as_names(agents), as_names(active), as_delayed(delayed))


def schedule(steps: Iterable[Dependency | str | Mapping[str, Any]], *, after: str = "repeat") -> Schedule:
    """Make a schedule of one dependency for each round; `after` the last, "repeat" it or "cycle".

    Raises:
        DependencyError: No list, no step in it, or another word for `after`.
    """
    if isinstance(steps, str | Mapping) or not isinstance(steps, Iterable):
        raise DependencyError(f"steps: expected a list of dependencies, one for each round, got {steps!r}")
    taken = tuple(as_dependency(step, f"steps[{place}]") for place, step in enumerate(steps))
    if not taken:
        raise DependencyError("a schedule needs at least one step")
    if after not in ("repeat", "cycle"):
        raise DependencyError(f"after the last step of a schedule comes 'repeat' or 'cycle', not {after!r}")
    return Schedule(taken, "cycle" if after == "cycle" else "repeat")


def routed(
    *,
    by: str,
    max_active: int | None = None,
    max_edges: int | None = None,
    default: Sequence[str] | None = None,
    broadcast: bool = True,
    reports: bool = True,
) -> Routed:
    """Let the orchestrator `by` act first in each round and choose who sees whom (`routing.py`)."""
    return Routed(by, max_active, max_edges, as_names(default), broadcast, reports)


def handoff(*, start: str | None = None, sees: str = "handoff") -> Handoff:
    """Let one agent hold control, from `start` on, until its action hands it to another (`handoff.py`)."""
    return Handoff(start, sees)


def by_state(rule: Callable[[int, Sequence[Said]], Dependency]) -> Stateful:
    """Let a pure function of round and turns so far choose the dependency of each round.

    Raises:
        DependencyError: The rule is no function.
    """
    if not callable(rule):
        raise DependencyError(f"by_state: expected a function of (round, turns), got {rule!r}")
    return Stateful(rule)


def as_dependency(value: object, where: str = "dependency") -> Dependency:
    """Convert a dependency, its JSON form, or the name of a preset ("independent", "chain", "full") to a dependency.

    Raises:
        DependencyError: It is none of these.
    """
    if isinstance(value, Dependency):
        return value
    if isinstance(value, str):
        return from_dict({"kind": value}, where)
    if isinstance(value, Mapping):
        return from_dict(value, where)
    raise DependencyError(
        f"{where}: expected a Dependency, the name of a preset or its JSON form, got {type(value).__name__}"
    )


_MAKERS: dict[str, tuple[Callable[..., Dependency], tuple[str, ...], tuple[str, ...]]] = {
    "independent": (independent, (), ("active", "delayed")),
    "chain": (chain, (), ("active", "delayed")),
    "full": (full, (), ("active", "delayed")),
    "matrix": (matrix, ("rows",), ("agents", "active", "delayed")),
    "schedule": (schedule, ("steps",), ("after",)),
    "routed": (routed, ("by",), ("max_active", "max_edges", "default", "broadcast", "reports")),
    "handoff": (handoff, (), ("start", "sees")),
}


def from_dict(value: Mapping[str, Any], where: str = "dependency") -> Dependency:
    """Read the JSON form.

    Args:
        value: JSON form `{"kind": ..., ...}`, as written by `to_dict`.
        where: Place named in error messages, e.g. "team.json: dependency".

    Raises:
        DependencyError: Unknown kind, missing or unknown key, or a value that its preset refuses.
    """
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _MAKERS:
        close = difflib.get_close_matches(str(kind), _MAKERS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise DependencyError(f"{where}.kind: found {kind!r}, wanted one of {', '.join(_MAKERS)}{hint}")
    maker, required, optional = _MAKERS[kind]
    given = {key: item for key, item in value.items() if key != "kind"}
    if missing := [key for key in required if key not in given]:
        raise DependencyError(f"{where}: a dependency of kind {kind!r} needs the key {missing[0]!r}")
    if unknown := [key for key in given if key not in required + optional]:
        raise DependencyError(f"{where}: unknown key {unknown[0]!r}; kind {kind!r} takes {list(required + optional)}")
    positional = [given.pop(key) for key in required if kind != "routed"]
    try:
        return maker(*positional, **given)
    except (DependencyError, TypeError) as error:
        raise DependencyError(f"{where}: {error}") from error
