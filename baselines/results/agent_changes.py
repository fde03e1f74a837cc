"""Changes of each agent between two evaluations: tokens, tools, hand-off loops; and the terms of the team's reward.

Only records are read: no environment is made and no model is loaded. `policy_divergence` compares the policies
themselves.

- tokens: sampled tokens of a turn, the mean over an episode.
- tool selection: share of each tool among the calls of an agent, over all episodes. The distance of two selections is
  their total variation distance, the sum over tools of |a - b| / 2: 0 for equal ones, 1 for no tool in common.
- hand-off loops: share of the episodes with a loop that the agent is part of. A loop is a run of more than two
  consecutive hand-offs between the same two agents, in which each returns the one before
  (`marft_common.hand_off_runs`): a pass and its return are work, a second pass to and fro is a loop.
- terms: mean of each term of the team reward before weighting, of environments that report terms.

Differences are B - A, paired over scenarios, with a 95 % interval that holds for these two teams.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from baselines.experiment.record_shapes import EPISODE, mismatch
from baselines.results.comparison import ComparisonError, Evaluated, Grid
from baselines.results.statistics import PairedDifference, paired_difference
from marft_agents.trajectory import TERM
from marft_common.hand_off_runs import loops

EPISODES = "episodes.jsonl"
TEAM = "team"  # key of what all agents do together
UNREADABLE = "(unreadable)"  # a call that names no tool


class Change(NamedTuple):
    """A mean before and after.

    Attributes:
        a: Mean of side A; NaN without episodes.
        b: Mean of side B, likewise.
        difference: B - A, paired over scenarios.
    """

    a: float
    b: float
    difference: PairedDifference

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; numbers that are not finite are null."""
        numbers = {"a": self.a, "b": self.b}
        numbers |= {name: getattr(self.difference, name) for name in ("mean", "low", "high", "p_value")}
        return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


@dataclass(frozen=True)
class AgentChange:
    """Change of one agent, or of the team.

    Attributes:
        tokens: Sampled tokens of a turn; None where no policy counts tokens.
        tools: Share of each tool in the calls of side A and of side B, by tool; None for a side without calls.
        loops: Share of the episodes with a hand-off loop; None where nobody hands off on either side.
    """

    tokens: Change | None
    tools: Mapping[str, tuple[float | None, float | None]]
    loops: Change | None

    @property
    def distance(self) -> float | None:
        """Total variation distance of both selections of tools; None where a side has no calls."""
        distance = 0.0
        for a, b in self.tools.values():
            if a is None or b is None:
                return None
            distance += abs(a - b) / 2
        return distance if self.tools else None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "tokens": None if self.tokens is None else self.tokens.to_dict(),
            "tools": {tool: list(shares) for tool, shares in self.tools.items()},
            "tools_distance": self.distance,
            "loops": None if self.loops is None else self.loops.to_dict(),
        }


@dataclass
class _Side:
    """Values of one evaluation: by agent and scenario, with one value for each of its episodes."""

    tokens: dict[str, dict[int, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    loops: dict[str, dict[int, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    terms: dict[str, dict[int, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    calls: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    handoffs: int = 0


def agent_changes(a: Evaluated, b: Evaluated) -> tuple[dict[str, AgentChange], dict[str, Change]]:
    """Compare what each agent does in two evaluations of the same scenarios.

    Args:
        a: Evaluation of side A, with its episodes.jsonl beside it.
        b: Evaluation of side B, likewise.

    Returns:
        Changes by agent, in the order of play, the team's last; and those of the terms of the reward, by term.

    Raises:
        ComparisonError: An episodes.jsonl is missing, or is no record of episodes.
    """
    count = len(a.grids["success"])
    before, after = _read(a), _read(b)

    def change(one: Mapping[int, list[float]], other: Mapping[int, list[float]]) -> Change:
        grids = [_grid(values, count) for values in (one, other)]
        means = [float(np.nanmean(grid)) if np.isfinite(grid).any() else math.nan for grid in grids]
        return Change(means[0], means[1], paired_difference(grids[0][None], grids[1][None]))

    agents: dict[str, AgentChange] = {}
    for agent in [*(name for name in {**before.tokens, **after.tokens} if name != TEAM), TEAM]:
        tokens = change(before.tokens[agent], after.tokens[agent])
        named = sorted({**before.calls[agent], **after.calls[agent]})
        tools = {tool: (_share(before.calls[agent], tool), _share(after.calls[agent], tool)) for tool in named}
        handed = before.handoffs or after.handoffs
        agents[agent] = AgentChange(
            tokens if tokens.a or tokens.b else None,
            tools,
            change(before.loops[agent], after.loops[agent]) if handed else None,
        )
    terms = {name: change(before.terms[name], after.terms[name]) for name in {**before.terms, **after.terms}}
    return agents, terms


def _read(one: Evaluated) -> _Side:
    side = _Side()
    for episode in _episodes(one):
        scenario = int(episode["group"] or 0)
        sampled: dict[str, list[float]] = defaultdict(list)
        for turn in episode["turns"]:
            for agent in (turn["agent"], TEAM):
                sampled[agent].append(float(turn.get("tokens") or 0))
        for agent, tokens in sampled.items():
            side.tokens[agent][scenario].append(float(np.mean(tokens)))
        for name, value in _terms(episode).items():
            side.terms[name][scenario].append(value)
        passes = []
        for event in _events(episode):
            agent = str(event.get("agent", ""))
            if event.get("kind") == "call":
                for key in (agent, TEAM):
                    side.calls[key][str(event.get("name") or UNREADABLE)] += 1
            elif event.get("kind") == "hand_off" and "to" in event:
                passes.append((agent, str(event["to"])))
        side.handoffs += len(passes)
        looping = {agent for loop in loops(passes) for agent in loop[0]}
        for agent in sampled:
            side.loops[agent][scenario].append(float(agent in looping or (agent == TEAM and bool(looping))))
    return side


def _episodes(one: Evaluated) -> Iterator[dict[str, Any]]:
    """Yield the recorded episodes of an evaluation that did not fail."""
    file = one.path.parent / EPISODES
    try:
        lines = file.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise ComparisonError(f"{file} cannot be read: {error.strerror or error}; --by agent needs it") from error
    for number, line in enumerate(lines, start=1):
        try:
            episode: dict[str, Any] = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ComparisonError(f"{file}:{number} is not JSON: {error}") from error
        if (wrong := mismatch(episode, EPISODE)) is not None:
            raise ComparisonError(f"{file}:{number}: {wrong}")
        if episode.get("failure") is None:
            yield episode


def _terms(episode: Mapping[str, Any]) -> dict[str, float]:
    told = (episode.get("game") or {}).get("terms")
    if told is None:  # an environment without a record of its own
        infos = episode["infos"]
        told = {name.removeprefix(TERM): value for name, value in infos.items() if name.startswith(TERM)}
    return {name: float(value) for name, value in told.items() if value is not None}


def _events(episode: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for outcome in (episode.get("game") or {}).get("outcomes") or ():
        for event in (outcome or {}).get("events") or ():
            if isinstance(event, Mapping):
                yield event


def _grid(values: Mapping[int, list[float]], count: int) -> Grid:
    """Return the mean of each scenario over its episodes, float64 [scenarios]; NaN where it has none."""
    means: Grid = np.full(count, math.nan)
    for scenario, found in values.items():
        if 0 <= scenario < count:
            means[scenario] = np.mean(found)
    return means


def _share(calls: Counter[str], tool: str) -> float | None:
    return calls[tool] / calls.total() if calls else None
