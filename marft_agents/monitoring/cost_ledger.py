"""Cost accounting of episodes: tokens, turns, calls and seconds, per agent and for the team.

All episodes count: failed ones, further prompt groups and branches. Turns and tokens of a branch count from its
branched turn on: those before it are replayed, not generated. The environment repeats its work in a replay, so its
calls and seconds count in full.

*Ideal-cache tokens* are the tokens that an ideal KV cache computes: each distinct prefix once, and every output. The
cache starts empty with each episode and is never evicted. Agents that play the same weights share it; adapters do
not, even on one base. A prompt costs its tokens after the longest prefix that it shares with an
earlier prompt and output in this cache. The replayed turns of a branch are in its cache.

The *critical path* is the number of output tokens that parallel execution must still generate one after the other: the
sum over rounds and layers of the longest action of each layer.

None means that nothing counted a quantity, 0 that the count is zero. A sum leaves None out.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from marft_agents.metric_names import metric_prefix
from marft_agents.models.prefix_tree import common_prefix
from marft_agents.monitoring.tool_statistics import tool_use
from marft_agents.trajectory import SampledTurn, Trajectory


@dataclass(frozen=True)
class AgentLedger:
    """Counts of one agent, or sums over agents.

    Attributes:
        turns: Actions that it generated, including one that the environment failed on.
        prompt_tokens: Tokens of all its prompts.
        output_tokens: Tokens that it sampled, end tokens included; of a remote agent as its server reports them. None
            for actions without tokens (scripted, or remote without a report).
        ideal_cache_tokens: Tokens that an ideal KV cache computes, outputs included; see the module.
        tool_calls: Calls that it made, readable or not. None where the environment records no episodes; those of
            failed episodes are not recorded.
        tool_failures: Calls whose status is not "ok": unreadable, unknown, invalid, refused or failed.
    """

    turns: int = 0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    ideal_cache_tokens: int | None = None
    tool_calls: int | None = None
    tool_failures: int | None = None

    def __add__(self, other: AgentLedger) -> AgentLedger:
        return AgentLedger(**_sums(self, other))


@dataclass(frozen=True)
class Ledger:
    """Counts of any number of episodes.

    Attributes:
        agents: Counts by agent, for agents that acted.
        episodes: Episodes that were played, branches and failed ones included.
        failed: Episodes that failed for reasons outside of the agents.
        critical_path_tokens: Sum over episodes of the output tokens on their critical path; see the module.
        judge_calls: Rounds that the task judged. None where the environment records no episodes.
        seconds_generation: Wall-clock seconds in which policies answered.
        seconds_environment: Seconds of environment steps, the judge's included, added up over games. With background
            steps they may exceed the wall-clock time.
        seconds_update: Wall-clock seconds of the learner's update.
    """

    agents: Mapping[str, AgentLedger] = field(default_factory=dict)
    episodes: int = 0
    failed: int = 0
    critical_path_tokens: int | None = None
    judge_calls: int | None = None
    seconds_generation: float | None = None
    seconds_environment: float | None = None
    seconds_update: float | None = None

    @property
    def team(self) -> AgentLedger:
        """Sums over the agents."""
        return reduce(add, self.agents.values(), AgentLedger())

    def __add__(self, other: Ledger) -> Ledger:
        agents = dict(self.agents)
        for agent, counts in other.agents.items():
            agents[agent] = agents.get(agent, AgentLedger()) + counts
        return Ledger(**_sums(self, other) | {"agents": agents})

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; "team" holds the sums over the agents for the reader."""
        plain = dataclasses.asdict(self)
        agents = plain.pop("agents")
        return plain | {"team": dataclasses.asdict(self.team), "agents": agents}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Ledger:
        """Read the JSON form.

        Raises:
            ValueError: The record is not that of a ledger.
        """
        try:
            plain = {name: value for name, value in record.items() if name != "team"}
            agents = {agent: AgentLedger(**counts) for agent, counts in plain["agents"].items()}
            return cls(**plain | {"agents": agents})
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"this is no record of a ledger: {type(error).__name__}: {error}") from error

    def metrics(self) -> dict[str, float]:
        """Return the counts as metrics `{prefix}/{measure}_sum` and the seconds as `seconds/{part}`, without None.

        `marft_agents.metric_names` defines each measure, under `LEDGER` and `TEAM_LEDGER`.
        """
        found = self.team_metrics("team")
        for agent, counts in self.agents.items():
            found |= _named(metric_prefix(agent), dataclasses.asdict(counts))
        seconds = {"generation": self.seconds_generation, "environment": self.seconds_environment}
        seconds["update"] = self.seconds_update
        return found | {f"seconds/{part}": value for part, value in seconds.items() if value is not None}

    def team_metrics(self, prefix: str) -> dict[str, float]:
        """Return the team's counts as metrics `{prefix}/{measure}_sum`, without None."""
        own = {
            "episodes": self.episodes,
            "episodes_failed": self.failed,
            "critical_path_tokens": self.critical_path_tokens,
            "judge_calls": self.judge_calls,
        }
        return _named(prefix, dataclasses.asdict(self.team) | own)


def ledger_of(
    trajectories: Iterable[Trajectory],
    caches: Mapping[str, Hashable] | None = None,
    *,
    seconds_generation: float | None = None,
    seconds_update: float | None = None,
) -> Ledger:
    """Count what episodes cost.

    Args:
        trajectories: Episodes and branches, each of them once.
        caches: Agent -> key of the KV cache that it shares with agents of the same weights, see
            `LanguageModelTeam.caches`. An agent without a key has a cache of its own.
        seconds_generation: Measured seconds of generation; None: not measured.
        seconds_update: Measured seconds of the update; None: not measured.
    """
    total = reduce(add, (_episode_ledger(trajectory, caches or {}) for trajectory in trajectories), Ledger())
    return dataclasses.replace(total, seconds_generation=seconds_generation, seconds_update=seconds_update)


def _episode_ledger(trajectory: Trajectory, caches: Mapping[str, Hashable]) -> Ledger:
    replayed = trajectory.branch or 0
    turns = [*trajectory.turns, *trajectory.unplayed]
    stored: dict[Hashable, list[bytes]] = defaultdict(list)
    agents = _tool_calls(trajectory)
    for number, turn in enumerate(turns):
        # The keys of agents with a cache of their own are no keys of `caches`.
        key = (caches[turn.agent],) if turn.agent in caches else turn.agent
        counts = _turn_counts(turn, stored[key])
        if number >= replayed:
            agents[turn.agent] = agents.get(turn.agent, AgentLedger()) + counts
    outcomes = _outcomes(trajectory)
    return Ledger(
        agents,
        episodes=1,
        failed=int(trajectory.failure is not None),
        critical_path_tokens=_critical_path(turns[replayed:]),
        judge_calls=None if outcomes is None else sum(outcome is not None for outcome in outcomes),
        seconds_environment=trajectory.step_seconds,
    )


def _turn_counts(turn: SampledTurn, stored: list[bytes]) -> AgentLedger:
    """Return the counts of a turn, and add its tokens to its cache.

    Args:
        turn: Turn to count.
        stored: Sequences in the cache as bytes, sorted; changed in place.
    """
    prompt, output = (np.asarray(ids, np.int32) for ids in (turn.action.prompt_ids, turn.action.token_ids))
    if not len(output):
        return AgentLedger(1, *(turn.action.reported or ()))
    # The longest common prefix with a sorted list is that with a neighbour. The order of bytes is as good as any.
    text = prompt.tobytes()
    place = bisect_left(stored, text)
    neighbours = [np.frombuffer(found, np.int32) for found in stored[max(0, place - 1) : place + 1]]
    shared = max((common_prefix(prompt, found) for found in neighbours), default=0)
    insort(stored, text + output.tobytes())
    return AgentLedger(1, len(prompt), len(output), len(prompt) - shared + len(output))


def _critical_path(turns: Sequence[SampledTurn]) -> int | None:
    """Return the output tokens of an episode on its critical path; None if no turn has tokens.

    A turn without a layer is a layer of its own.
    """
    longest: dict[Hashable, int] = {}
    for number, turn in enumerate(turns):
        layer = (turn.round, turn.layer) if turn.layer is not None else number
        longest[layer] = max(longest.get(layer, 0), turn.action.num_tokens)
    return sum(longest.values()) or None


def _tool_calls(trajectory: Trajectory) -> dict[str, AgentLedger]:
    """Return turns = 0 and the tool calls of each agent in the environment's record; empty without a record."""
    _, agents = tool_use([trajectory])
    return {agent: AgentLedger(0, tool_calls=use.calls, tool_failures=use.failures) for agent, use in agents.items()}


def _outcomes(trajectory: Trajectory) -> Sequence[Mapping[str, Any] | None] | None:
    """Return the outcome of each round from the environment's record; None without a record."""
    return None if trajectory.game is None else trajectory.game.get("outcomes")


def _sums(first: AgentLedger | Ledger, second: AgentLedger | Ledger) -> dict[str, Any]:
    """Return the sum of each count; None is left out."""
    found = {}
    for entry in dataclasses.fields(first):
        if entry.name != "agents":
            a, b = getattr(first, entry.name), getattr(second, entry.name)
            found[entry.name] = b if a is None else a if b is None else a + b
    return found


def _named(prefix: str, counts: Mapping[str, int | None]) -> dict[str, float]:
    """Return counts as metrics, without None."""
    return {f"{prefix}/{name}_sum": float(value) for name, value in counts.items() if value is not None}
