"""Run of an attribution: its plan, its cost, coalitions kept on disk, and the summary of the results.

Every finished coalition and edge is a file, written atomically. A run that was killed continues with the next one.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from baselines.attribution.coalitions import (
    Coalition,
    CoalitionGames,
    CoalitionResult,
    Floats,
    MakeEnv,
    Marginal,
    Method,
    Replacement,
    as_json,
    coalitions,
    leave_one_out,
    oracle,
    shapley,
    silent,
    untrained,
)
from baselines.attribution.message_influence import Edge, Influence, influence
from baselines.results.statistics import Interval, paired_difference, wilson
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.rollouts.rollout import MAX_TURNS
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.run_folder import json_number, read_metrics, write_json
from marft_agents.trajectory import Trajectory
from marft_envs.game import FlexMG

PLAN_SCHEMA = "marft.attribution.plan/1"
PILOT_EPISODES = 4  # played to measure the cost where the run has no metrics
RECENT_UPDATES = 5  # of a run's metrics, from which the cost is expected
Result = TypeVar("Result", CoalitionResult, Influence)


@dataclass(frozen=True)
class AttributionPlan:
    """Everything that decides the numbers of an attribution.

    Attributes:
        players: Agents whose contributions are measured; the others always play their trained policies.
        method: "shapley" or "loo".
        replace: Name of the replacement: "untrained", "silence" or "oracle".
        edges: Edges whose messages are replaced.
        scenarios: Reset options of each scenario.
        seeds: Seeds of the sampling.
        max_turns: Most turns of an episode; 0: no limit.
        origin: Further facts that decide the numbers: environment, checkpoint, sampling parameters.
    """

    players: tuple[str, ...]
    method: Method
    replace: str
    edges: tuple[Edge, ...]
    scenarios: Sequence[Mapping[str, Any]]
    seeds: tuple[int, ...] = (0,)
    max_turns: int = MAX_TURNS
    origin: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            **self.origin,
            "replace": self.replace,
            "method": self.method,
            "agents": list(self.players),
            "edges": [list(edge) for edge in self.edges],
            "seeds": list(self.seeds),
            "max_turns": self.max_turns,
            "scenarios": [dict(options) for options in self.scenarios],
        }

    def check_folder(self, folder: Path) -> None:
        """Refuse a folder that holds another attribution.

        Raises:
            RunFolderError: A setting differs; the message names the first one.
        """
        file = folder / "plan.json"
        if not file.is_file():
            return
        found = json.loads(file.read_text(encoding="utf-8"))
        wanted = json.loads(json.dumps({"schema": PLAN_SCHEMA, **self.to_dict()}))
        for name in sorted(found.keys() | wanted.keys()):
            if found.get(name) != wanted.get(name):
                raise RunFolderError(
                    f"{folder} holds another attribution: its {name} is {_short(found.get(name))}, "
                    f"this one's {_short(wanted.get(name))}; give another --out"
                )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:80]}..."


# ------------------------------------------------------------------ cost


class EpisodeCost(NamedTuple):
    """Expected cost of an episode in which every turn is generated."""

    tokens: float
    seconds: float
    source: str

    @classmethod
    def of_run(cls, run: Path) -> EpisodeCost | None:
        """Return the cost per training episode in the latest updates of a run; None if its metrics do not tell."""
        try:
            latest = read_metrics(run)[-RECENT_UPDATES:]
            episodes = sum(metrics["team/episodes"] for metrics in latest)
            tokens = sum(metrics["team/tokens"] for metrics in latest)
            seconds = sum(metrics["seconds/rollout"] for metrics in latest)
        except (RunFolderError, KeyError):
            return None
        return cls(tokens / episodes, seconds / episodes, "in training") if episodes else None


@dataclass(frozen=True)
class Cost:
    """Cost of an attribution before it starts.

    Attributes:
        coalitions: Number of coalitions.
        edges: Number of edges whose messages are replaced.
        episodes: Number of episodes of all of them.
        generated: Number of episodes' worth of generation: replayed turns cost none.
        each: Cost of an episode in which every turn is generated.
    """

    coalitions: int
    edges: int
    episodes: int
    generated: float
    each: EpisodeCost

    def __str__(self) -> str:
        tokens, seconds = self.generated * self.each.tokens, self.generated * self.each.seconds
        return (
            f"cost: {self.coalitions} coalitions and {self.edges} edges, {self.episodes} episodes; without replayed "
            f"turns {self.generated:.0f} to generate; about {tokens:,.0f} tokens and {seconds / 60:.1f} min "
            f"({self.each.tokens:.1f} tokens and {self.each.seconds:.2f} s per episode {self.each.source})"
        )


def cost(plan: AttributionPlan, each: EpisodeCost, game: FlexMG | None) -> Cost:
    """Return the cost of an attribution.

    Args:
        plan: Plan of the attribution.
        each: Cost of an episode in which every turn is generated.
        game: The game, for the order of turns; None (not known) counts all turns as generated.
    """
    order = acting_order(game)
    groups = coalitions(plan.players, plan.method)
    shares = [_share(order, frozenset(plan.players) - group, plan.replace == "untrained") for group in groups]
    shares += [_share_after(order, edge) for edge in plan.edges]
    times = len(plan.scenarios) * len(plan.seeds)
    return Cost(len(groups), len(plan.edges), len(shares) * times, sum(shares) * times, each)


def acting_order(game: FlexMG | None) -> list[str]:
    """Return the agents in the order of their turns over all rounds; empty if that is decided during play."""
    if game is None:
        return []
    plans = [game.dependency.plan(game.team.roster, number) for number in range(game.horizon)]
    return [] if any(plan.open for plan in plans) else [agent for plan in plans for agent in plan.order]


def _share(order: Sequence[str], replaced: Coalition, by_model: bool) -> float:
    """Return the share of turns that a model generates; `by_model`: a model also plays the replaced agents."""
    if not order or not replaced:
        return 1.0
    start = next((place for place, agent in enumerate(order) if agent in replaced), len(order))
    return sum(by_model or agent not in replaced for agent in order[start:]) / len(order)


def _share_after(order: Sequence[str], edge: Edge) -> float:
    """Return the share of turns from the reader's first one after the author's."""
    if not order:
        return 1.0
    reading = (place for place, agent in enumerate(order) if agent == edge.reader and edge.author in order[:place])
    return (len(order) - next(reading, len(order))) / len(order)


# ------------------------------------------------------------------ play


def play(
    plan: AttributionPlan,
    replacement: Replacement,
    folder: Path,
    on_end: Callable[[Trajectory], None] = lambda _: None,
) -> tuple[list[CoalitionResult], list[Influence]]:
    """Play all coalitions and edges that are not in the folder yet; return the results of all.

    Args:
        plan: Plan of the attribution.
        replacement: Maps the replaced agents to an environment factory and a policy.
        folder: Folder of the results; one file per coalition and edge.
        on_end: Called with each finished episode.

    Raises:
        RunFolderError: The folder holds another attribution.
        ReplayError: A replayed turn differs from its record.
    """
    plan.check_folder(folder)
    write_json(folder / "plan.json", {"schema": PLAN_SCHEMA, **plan.to_dict()})
    games = CoalitionGames(
        replacement, plan.players, plan.scenarios, plan.seeds, max_turns=plan.max_turns, on_end=on_end
    )
    results: list[CoalitionResult] = []
    for group, file in coalition_files(plan, folder).items():
        whole = results[0] if results else None
        results.append(_kept(file, CoalitionResult, partial(games.play, group, whole)))
    edges = [
        _kept(file, Influence, partial(influence, games, results[0], edge))
        for edge, file in edge_files(plan, folder).items()
    ]
    return results, edges


def coalition_files(plan: AttributionPlan, folder: Path) -> dict[Coalition, Path]:
    """Return the file of each coalition, in the order of play; a 1 in its name stands for a member."""
    return {
        group: folder / "coalitions" / f"{''.join('01'[player in group] for player in plan.players)}.json"
        for group in coalitions(plan.players, plan.method)
    }


def edge_files(plan: AttributionPlan, folder: Path) -> dict[Edge, Path]:
    """Return the file of each edge, by its place in the plan."""
    return {edge: folder / "edges" / f"{place:03}.json" for place, edge in enumerate(plan.edges)}


def missing(plan: AttributionPlan, folder: Path) -> int:
    """Return the number of episodes that are still to be played."""
    files = [*coalition_files(plan, folder).values(), *edge_files(plan, folder).values()]
    return sum(not file.is_file() for file in files) * len(plan.scenarios) * len(plan.seeds)


def _kept(file: Path, kind: type[Result], make: Callable[[], Result]) -> Result:
    """Return the result in a file; make and write it if it is not there yet."""
    if file.is_file():
        return kind.from_dict(json.loads(file.read_text(encoding="utf-8")))
    made = make()
    write_json(file, made.to_dict())
    return made


# ------------------------------------------------------------------ summary


def marginals(plan: AttributionPlan, results: Sequence[CoalitionResult]) -> dict[str, Marginal]:
    """Return the marginal of each player from the results of all coalitions."""
    values = {frozenset(result.players): result.value for result in results}
    return (shapley if plan.method == "shapley" else leave_one_out)(values, plan.players)


def summary(plan: AttributionPlan, results: Sequence[CoalitionResult], edges: Sequence[Influence]) -> dict[str, Any]:
    """Return the results as a record for JSON: contributions, coalitions, influence, with 95 % intervals.

    Raises:
        ValueError: No scenario was scored by all coalitions; the message gives the first cause.
    """
    found = marginals(plan, results)
    scored = int(np.isfinite(sum(marginal.value for marginal in found.values())).sum())
    if not scored:
        cause = next(failure for result in results for failure in result.failures)
        raise ValueError(f"no scenario was played to its end by all coalitions; the first cause: {cause}")
    whole, least = results[0], results[-1]
    return {
        "scored_scenarios": scored,
        "agents": {player: _contribution(marginal) for player, marginal in found.items()},
        "total": _interval(_difference(least.value, whole.value)) if plan.method == "shapley" else None,
        "coalitions": [_coalition(result) for result in results],
        "influence": [_influence(edge) for edge in edges],
    }


def _contribution(marginal: Marginal) -> dict[str, Any]:
    found = _difference(marginal.without, marginal.joined)
    return {**_interval(found), "per_scenario": as_json(marginal.value)}


def _coalition(result: CoalitionResult) -> dict[str, Any]:
    return {
        "players": list(result.players),
        **_interval(_share_of(result.value)),
        "scores": as_json(result.scores),
        "failed": len(result.failures),
        "generated_tokens": result.generated_tokens,
        "seconds": result.seconds,
    }


def _influence(edge: Influence) -> dict[str, Any]:
    changed, before, after = (array.mean(axis=1) for array in (edge.changed, edge.before, edge.success))
    flipped = np.abs(edge.success - edge.before).mean(axis=1)
    return {
        **edge.edge._asdict(),
        "scenarios": int(np.isfinite(changed).sum()),
        "answer_changed": _interval(_share_of(changed)),
        "success_changed": _interval(_share_of(flipped)),
        "success_gain": _interval(_difference(after, before)),
        "per_scenario": {"answer_changed": as_json(changed), "before": as_json(before), "after": as_json(after)},
        "generated_tokens": edge.generated_tokens,
    }


def _share_of(values: Floats) -> Interval:
    """Return the mean over scenarios of values in [0, 1] with its Wilson interval."""
    scored = values[np.isfinite(values)]
    return wilson(float(scored.mean()) if len(scored) else float("nan"), len(scored))


def _difference(without: Floats, joined: Floats) -> Interval:
    """Return the mean difference of two shares [scenarios] with its interval, both within [-1, 1]."""
    return paired_difference(without[None], joined[None]).interval


def _interval(found: Interval) -> dict[str, Any]:
    return {"mean": json_number(found.mean), "interval_95": [json_number(found.low), json_number(found.high)]}


def adapters_sha256(path: Path) -> str:
    """Return the SHA-256 of all adapter weights of a checkpoint, in the order of their folders."""
    digest = hashlib.sha256()
    for file in sorted(path.glob("*/adapter_model.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def replacement(plan: AttributionPlan, make_env: MakeEnv, team: LanguageModelTeam) -> Replacement:
    """Return the replacement that a plan names."""
    if plan.replace == "untrained":
        return untrained(make_env, team)
    return (silent if plan.replace == "silence" else oracle)(make_env, team, team.agents)


def measured_cost(plan: AttributionPlan, make_env: MakeEnv, team: LanguageModelTeam) -> EpisodeCost:
    """Play a few episodes with the whole team and return their mean cost."""
    started = time.perf_counter()
    played = evaluate(make_env, team, plan.scenarios[:PILOT_EPISODES], max_turns=plan.max_turns).trajectories
    seconds = time.perf_counter() - started
    tokens = sum(trajectory.num_tokens for trajectory in played)
    return EpisodeCost(tokens / len(played), seconds / len(played), f"in {len(played)} episodes now")
