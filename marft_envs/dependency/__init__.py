"""The dependency function D of a team, as one small immutable object.

`D_t(a^i, a^j) = 1` says that in round t the action of agent j depends on (sees) the action of agent i. In a
matrix that is row i, column j. D determines the turn order, the layers of agents that may generate at the
same time, and the content of each observation (`base.py`). Actions of an earlier round s stay visible to j where
D_s(i, j) = 1. The optional matrix `delayed` adds edges that count from the next round on and may point
backwards. An agent always sees its own earlier actions.

Source: MARFT, the Flex-MG ⟨V, N, S, O, A, T, R, γ, D⟩.

| module | holds |
|---|---|
| `base` | what every dependency has: the team's roster, the plan of a round, the base class |
| `ordering` | the plan of a round from its edges: topological order, cycles |
| `fixed`, `schedule`, `routed` | the kinds: constant edges; by round or by state; chosen by an orchestrator |
| `kinds` | the kinds by name, and their JSON form; `register_kind` adds one |
| `drawing` | Mermaid, DOT, PNG and SVG |

Examples:
    >>> team = Roster(("planner_0", "solver_0", "actor_0"), frozenset({"actor_0"}))
    >>> full().plan(team).edges
    (('planner_0', 'solver_0'), ('planner_0', 'actor_0'), ('solver_0', 'actor_0'))
    >>> matrix([[0, 0, 1], [0, 0, 1], [0, 0, 0]]).plan(team).layers
    (('planner_0', 'solver_0'), ('actor_0',))
"""

from typing import TYPE_CHECKING, Any

from marft_envs.dependency.base import Dependency, DependencyError, Roster, RoundPlan, Said
from marft_envs.dependency.fixed import Fixed, chain, full, independent, matrix
from marft_envs.dependency.kinds import as_dependency, from_dict, handoff, maker_of, register_kind
from marft_envs.dependency.routed import Routed, routed
from marft_envs.dependency.time_varying import STATE_KEYS, Schedule, Stateful, StateTable, by_state, schedule

__all__ = [
    "STATE_KEYS",
    "Dependency",
    "DependencyError",
    "Fixed",
    "Roster",
    "RoundPlan",
    "Routed",
    "Said",
    "Schedule",
    "StateTable",
    "Stateful",
    "as_dependency",
    "by_state",
    "chain",
    "from_dict",
    "full",
    "handoff",
    "independent",
    "matrix",
    "register_kind",
    "routed",
    "schedule",
]

register_kind("independent", independent, optional=("active", "delayed"))
register_kind("chain", chain, optional=("active", "delayed"))
register_kind("full", full, optional=("active", "delayed"))
register_kind("matrix", matrix, required=("rows",), optional=("agents", "active", "delayed"))
register_kind("schedule", schedule, required=("steps",), optional=("after", "by"))
register_kind("by_state", by_state, required=("rules", "default"))
register_kind(
    "routed",
    routed,
    required=("by",),
    optional=("max_active", "max_edges", "default", "broadcast", "reports", "answer_by"),
)

if not TYPE_CHECKING:  # else every misspelt name would pass the type checker

    def __getattr__(name: str) -> Any:
        if name == "Handoff":  # the kind lives beside the tools, which load on first use
            return maker_of("handoff")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
