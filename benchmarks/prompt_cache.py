"""Rollouts of many turns: a team that keeps its prompts from turn to turn against one that does not.

    python -m benchmarks.prompt_cache [--horizon 8] [--games 8] [--repeats 5] [--json FILE]

A duo of agents with tools plays the world `shop`. Untrained agents seldom call a tool that exists, and their errors
make the prompts longer from round to round. Both ways play the same episodes with the same randomness, alternating, on
one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import marft_envs
from benchmarks.machine import write_record
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import LoraSettings
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import FunctionPolicy, Policy
from marft_agents.policies.team_building import build_team
from marft_agents.rollouts.rollout import collect, training_episodes

ENV = "marft/tools_duo-v0"


def cpu_seconds(policy: Policy, horizon: int, games: int) -> tuple[float, list[int]]:
    """Play the games; return the CPU seconds, and the length of every prompt in tokens."""

    def make() -> Any:
        return marft_envs.make(ENV, data="embedded:shop", split="train", horizon=horizon)

    started = time.process_time()
    played = collect(make, policy, training_episodes(0, 0, games, 1), seed=0)
    return time.process_time() - started, [len(turn.action.prompt_ids) for game in played for turn in game.turns]


def compare(team: LanguageModelTeam, horizon: int, games: int, repeats: int) -> dict[str, Any]:
    """Play both ways, alternating; return CPU seconds of each repetition, their ratio, and the prompts' sizes."""
    ways: dict[str, Policy] = {"kept": team, "not_kept": FunctionPolicy(team.act)}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    prompts: list[int] = []
    for number in range(repeats):
        for name, policy in ways.items():
            spent, prompts = cpu_seconds(policy, horizon, games)
            seconds[name].append(round(spent, 2))
        print(
            f"{number + 1}/{repeats}: " + ", ".join(f"{n} {s[-1]:.1f} CPU s" for n, s in seconds.items()),
            file=sys.stderr,
        )
    ratios = [without / kept for kept, without in zip(seconds["kept"], seconds["not_kept"], strict=True)]
    return {
        "cpu_seconds": seconds,
        "ratio": {"median": median(ratios), "low": min(ratios), "high": max(ratios)},
        "prompts": len(prompts),
        "prompt_tokens_mean": sum(prompts) / len(prompts),
        "prompt_tokens_max": max(prompts),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prompt_cache", description=__doc__)
    parser.add_argument("--model", default="smollm2-135m", help="model of both agents (default: smollm2-135m)")
    parser.add_argument("--dtype", default="float32", help="dtype of the base (default: float32)")
    parser.add_argument("--horizon", type=int, default=8, help="rounds of an episode (default: 8)")
    parser.add_argument("--games", type=int, default=8, help="games side by side (default: 8)")
    parser.add_argument("--max-new-tokens", type=int, default=16, help="longest action, in tokens (default: 16)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each way (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    given = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    agents = marft_envs.make(ENV, data="embedded:shop").possible_agents
    sampling = SamplingParams(max_new_tokens=given.max_new_tokens)
    team = build_team(agents, {"*": given.model}, lora=LoraSettings(), sampling=sampling, dtype=given.dtype)
    figures = compare(team, given.horizon, given.games, given.repeats)
    print(
        "without kept prompts a rollout takes {median:.2f} ({low:.2f} to {high:.2f}) times the CPU".format(
            **figures["ratio"]
        )
    )
    if given.json is not None:
        write_record(given.json, "prompt_cache", figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
