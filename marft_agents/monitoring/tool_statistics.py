"""Tool calls and hand-offs of each agent, read from the environment's records of its games.

A record lists the events of each judged round (`Trajectory.game["outcomes"][round]["events"]`):

- `{"kind": "call", "agent": ..., "status": "ok" | ..., "expected": bool}`: a tool call. `expected` says whether the
  task's reference uses that tool; it is missing where the task states no reference, or no tool could be read.
- `{"kind": "hand_off", "agent": ..., "to": ...}`: control passed on.

A *hand-off loop* is a maximal run of consecutive hand-offs between the same two agents, in which each one returns the
one before, of more than two passes (`marft_common.hand_off_runs`). It counts once for each of the two, and once for the
team.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from marft_agents.trajectory import Trajectory
from marft_common.hand_off_runs import loops


@dataclass
class ToolUse:
    """Counts of one agent or of the team.

    Attributes:
        episodes: Episodes with a record in which the agent acted.
        calls: Tool calls, readable or not.
        failures: Calls whose status is not "ok": unreadable, unknown, invalid, refused or failed.
        choices: Calls of which the task says whether their tool was expected.
        expected: Those whose tool was.
        handoffs: Times that control was passed on.
        loops: Hand-off loops that it was part of.
    """

    episodes: int = 0
    calls: int = 0
    failures: int = 0
    choices: int = 0
    expected: int = 0
    handoffs: int = 0
    loops: int = 0

    @property
    def selection(self) -> float | None:
        """Selection accuracy: share of the choices whose tool was expected; None without choices."""
        return self.expected / self.choices if self.choices else None

    @property
    def loops_per_episode(self) -> float:
        """Mean number of hand-off loops of an episode."""
        return self.loops / self.episodes if self.episodes else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, with the selection accuracy (null without choices)."""
        return vars(self) | {"selection": self.selection}


def tool_use(trajectories: Iterable[Trajectory]) -> tuple[ToolUse, Mapping[str, ToolUse]]:
    """Count the calls and hand-offs of the team, and of each agent that acted.

    Args:
        trajectories: Episodes; those without a record (failed ones, other environments) count nothing.
    """
    team, agents = ToolUse(), defaultdict[str, ToolUse](ToolUse)
    for trajectory in trajectories:
        if trajectory.game is None or "outcomes" not in trajectory.game:
            continue
        for use in (team, *(agents[agent] for agent in {turn.agent: None for turn in trajectory.turns})):
            use.episodes += 1
        passes: list[tuple[str, str]] = []
        for event in _events(trajectory.game):
            own = agents.get(event.get("agent", ""))
            if own is None:  # an event of nobody who acted
                continue
            for use in (team, own):
                _count(use, event)
            if event["kind"] == "hand_off" and "to" in event:
                passes.append((event["agent"], event["to"]))
        for loop in loops(passes):
            team.loops += 1
            for agent in loop[0]:
                agents[agent].loops += 1
    return team, dict(agents)


def _count(use: ToolUse, event: Mapping[str, Any]) -> None:
    if event["kind"] == "hand_off":
        use.handoffs += 1
    elif event["kind"] == "call":
        use.calls += 1
        use.failures += event.get("status") != "ok"
        if (expected := event.get("expected")) is not None:
            use.choices += 1
            use.expected += bool(expected)


def _events(game: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for outcome in game["outcomes"]:
        if outcome is not None:
            yield from outcome.get("events", ())
