"""Measured cost of staleness: success of a probe game whose episodes are played some updates before they train.

    python -m benchmarks.staleness --out docs/benchmarks/results/staleness.json
    python -m benchmarks.staleness --out docs/benchmarks/results/staleness.json --table

A duo of `tiny-words` learns the game `copy` with MARFT-A. With staleness S the episodes of update u are played by the
adapters of update max(0, u - S), the oldest that `--max-staleness S` would still train on. Cluster, clock and number of
workers play no part. Runs are added to the file one by one, and those that it holds are not repeated.
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch

import marft_envs
from baselines.experiment.source_commit import source_commit
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.base_settings import LoraSettings
from marft_agents.policies.team_building import build_team
from marft_agents.rollouts.prompt_groups import Experience, PromptGroup, gather
from marft_agents.rollouts.rollout_source import GroupPlayer, Rollout
from marft_agents.rollouts.rollout_workers import inexact
from marft_agents.runs.run_folder import write_json
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer, group_settings

GAME = "baselines.probes.digit_games:probe/copy_duo-v0"
STALENESS = (0, 1, 2, 4)
LEARNED = 0.9  # mean success of `WINDOW` updates
WINDOW = 5
SETTINGS = LearnerSettings(
    level="action",
    policy_lr=5e-3,
    critic_lr=1e-2,
    discount=1.0,
    entropy_bonus=0.1,
    ppo_epochs=2,
    micro_batch=256,
    value_epochs=2,
    value_mini_batches=1,
)


class LateRollouts:
    """Rollout source of this process whose episodes are all played S updates before they are trained on.

    Args:
        player: Plays the prompt groups.
        staleness: S, >= 0.
    """

    def __init__(self, player: GroupPlayer, staleness: int) -> None:
        self.player, self.staleness = player, staleness
        self._played: deque[Experience] = deque()

    def rollout(self, update: int) -> Rollout:
        """Play the episodes of update u + S with the current adapters; return those of update u."""
        while len(self._played) <= self.staleness:
            self._played.append(gather(self._draw, update + len(self._played), self.player.grouping))
        return Rollout(self._played.popleft(), 0.0, {})

    def _draw(self, numbers: Sequence[int]) -> list[PromptGroup]:
        groups = self.player.play(numbers)
        return [inexact(group) for group in groups] if self.staleness else groups

    def state_dict(self) -> Mapping[str, Any]:
        """Return no state: these runs are not resumed."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore nothing."""


def learn(staleness: int, seed: int, updates: int, groups: int) -> dict[str, Any]:
    """Train a team from random weights; return the success of each update and the share of capped weights."""
    make_env = partial(marft_envs.make, GAME)
    agents = make_env().possible_agents
    sampling, device = SamplingParams(max_new_tokens=1), torch.device("cpu")
    team = build_team(agents, {"*": "tiny-words"}, lora=LoraSettings(), sampling=sampling, seed=seed, device=device)
    learner = Learner(team, SETTINGS, seed=seed, total_updates=updates)
    schedule = TrainingSchedule(updates=updates, groups=groups, group_size=1, num_envs=groups, seed=seed)
    player = GroupPlayer(make_env, team, team, group_settings(schedule, learner.settings), num_envs=groups)
    trainer = Trainer(make_env, team, learner, schedule, rollouts=LateRollouts(player, staleness))
    steps = [trainer.step() for _ in range(updates)]
    capped = [value for step in steps for name, value in step.items() if name.endswith("/importance_capped")]
    return {
        "staleness": staleness,
        "seed": seed,
        "success": [round(step["team/success"], 4) for step in steps],
        "capped": round(mean(capped), 4) if capped else 0.0,
        "commit": source_commit(),
    }


def learned_after(success: Sequence[float]) -> int | None:
    """Return the number of updates after which the mean success of the last `WINDOW` is `LEARNED`; None: never."""
    found = (end for end in range(WINDOW, len(success) + 1) if mean(success[end - WINDOW : end]) >= LEARNED)
    return next(found, None)


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the runs as a table in Markdown."""
    lines = [
        "| staleness | updates until 0.9, by seed | mean success of all updates | capped weights |",
        "|---|---|---|---|",
    ]
    for staleness in sorted({run["staleness"] for run in runs}):
        members = [run for run in runs if run["staleness"] == staleness]
        needed = ", ".join(str(learned_after(run["success"]) or "never") for run in members)
        overall, capped = (mean(mean(run["success"]) for run in members), mean(run["capped"] for run in members))
        lines.append(f"| {staleness} | {needed} | {overall:.2f} | {capped:.1%} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="file of the runs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--groups", type=int, default=64, help="episodes of an update")
    parser.add_argument("--table", action="store_true", help="print the table of a finished file, and do nothing else")
    chosen = parser.parse_args(arguments)
    record: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {"runs": []}
    if not chosen.table:
        torch.set_num_threads(1)
        about = {"game": GAME, "updates": chosen.updates, "groups": chosen.groups}
        if record.setdefault("about", about) != about:
            parser.error(f"{chosen.out} holds runs of {record['about']}, wanted {about}: give another --out")
        done = {(run["staleness"], run["seed"]) for run in record["runs"]}
        for seed in range(chosen.seeds):
            for staleness in STALENESS:
                if (staleness, seed) not in done:
                    record["runs"].append(learn(staleness, seed, chosen.updates, chosen.groups))
                    write_json(chosen.out, record)
    print(table(record["runs"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
