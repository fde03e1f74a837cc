"""Generation time of agents that act at the same time: a layer in one batch against one agent after the other.

    python -m benchmarks.layers [--model tiny] [--games 1] [--max-new-tokens 64] [--repeats 5] [--json FILE]

Each game is a problem of `marft/gsm8k` played by an octet or a dozen. Both ways of one row play the same episodes with
the same randomness, alternating, with one thread; the table has medians. "One by one" is the same environment without
its promise that agents are ready at the same time (`metadata["ready_agents"]`). Random weights (`tiny`) seldom end an
action early.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import marft_envs
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import LoraSettings
from marft_agents.monitoring.cost_ledger import ledger_of
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Policy, Request
from marft_agents.policies.team_building import build_team
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.trajectory import Action

TEAMS: Sequence[tuple[str, Any]] = (("octet", "independent"), ("octet", None), ("dozen", None), ("octet", "chain"))


@dataclass(frozen=True)
class Row:
    """Measured cost of one team.

    Attributes:
        team: Name of the preset.
        dependency: Dependency that replaces the team's own; empty: its own.
        batches: Number of calls of the model in one game, together and one by one.
        seconds: Median seconds of generation for all games, together and one by one.
        cpu_seconds: Median CPU seconds of the rollout, together and one by one.
        output_tokens: Sampled tokens of all games.
        critical_path_tokens: Of these, tokens that must be generated one after the other.
    """

    team: str
    dependency: str
    batches: tuple[int, int]
    seconds: tuple[float, float]
    cpu_seconds: tuple[float, float]
    output_tokens: int
    critical_path_tokens: int


class Timed:
    """Policy that counts the calls and the seconds of another one."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.calls, self.seconds = policy, 0, 0.0

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return the policy's actions."""
        started = time.perf_counter()
        actions = self.policy.act(requests)
        self.calls, self.seconds = self.calls + 1, self.seconds + time.perf_counter() - started
        return actions


def measure(team: str, dependency: Any, players: LanguageModelTeam, games: int, repeats: int) -> Row:
    """Play the same games both ways, alternating."""
    keywords = {} if dependency is None else {"dependency": dependency}

    def make() -> Any:
        return marft_envs.make(f"marft/gsm8k_{team}-v0", **keywords)

    def one_by_one() -> Any:
        env = make()
        env.unwrapped.metadata["ready_agents"] = False
        return env

    episodes = training_episodes(0, 0, games, 1)
    found: dict[Callable[[], Any], list[tuple[int, float, float]]] = {make: [], one_by_one: []}
    played = []
    for _ in range(repeats):
        for factory, runs in found.items():
            policy, started = Timed(players), time.process_time()
            played = collect(factory, policy, episodes, seed=0, num_envs=games, patience=math.inf)
            runs.append((policy.calls, policy.seconds, time.process_time() - started))
    together, apart = found.values()
    cost = ledger_of(played)
    assert cost.team.output_tokens is not None
    assert cost.critical_path_tokens is not None
    return Row(
        team=team,
        dependency=dependency or "",
        batches=(together[0][0], apart[0][0]),
        seconds=(median(run[1] for run in together), median(run[1] for run in apart)),
        cpu_seconds=(median(run[2] for run in together), median(run[2] for run in apart)),
        output_tokens=cost.team.output_tokens,
        critical_path_tokens=cost.critical_path_tokens,
    )


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [
        "| team | calls of the model | generation, s | CPU, s | output tokens | on the critical path |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = f"{row.team}, {row.dependency}" if row.dependency else row.team
        pairs = [
            f"{row.batches[0]} (one by one {row.batches[1]})",
            *(
                f"{one:.2f} (one by one {other:.2f}: x {other / one:.1f})"
                for one, other in (row.seconds, row.cpu_seconds)
            ),
        ]
        share = row.critical_path_tokens / row.output_tokens
        lines.append(
            f"| {name} | {' | '.join(pairs)} | {row.output_tokens} | {row.critical_path_tokens} ({share:.0%}) |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers", description=__doc__)
    parser.add_argument("--model", default="tiny", help="model of all agents (default: tiny)")
    parser.add_argument("--games", type=int, default=1, help="games side by side (default: 1)")
    parser.add_argument("--max-new-tokens", type=int, default=64, help="longest action, in tokens (default: 64)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each way (default: 5)")
    parser.add_argument("--teams", type=int, default=len(TEAMS), help="measure the first N rows (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows")
    given = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    rows = []
    for team, dependency in TEAMS[: given.teams]:
        agents = marft_envs.make(f"marft/gsm8k_{team}-v0").possible_agents
        sampling = SamplingParams(max_new_tokens=given.max_new_tokens)
        players = build_team(agents, {"*": given.model}, lora=LoraSettings(), sampling=sampling)
        rows.append(measure(team, dependency, players, given.games, given.repeats))
    print(table(rows))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
