"""CPU time of a training of `shards`, rollouts and updates apart, and the minutes that a budget of tokens takes.

    python -m benchmarks.shards [--readers 4] [--lines 4] [--updates 3] [--threads 2] [--json FILE]

The first update is left out: it allocates the buffers. The minutes are the CPU time of the main thread over the tokens
generated in the same updates. The other threads of a product run beside the main one and waiting takes no CPU time
(`OMP_WAIT_POLICY=PASSIVE`), so a machine whose cores are free takes about as long, and a busy one does not spoil the
figure by much.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import write_record

MODEL = "smollm2-135m"
BUDGET = 40_000  # generated tokens
PHASES = ("rollout", "update")


@dataclass(frozen=True)
class Spent:
    """CPU seconds of a phase: those of the process, and those of its main thread."""

    process: float
    main_thread: float

    @classmethod
    def so_far(cls) -> Spent:
        """Read both clocks."""
        return cls(time.process_time(), time.thread_time())

    def until(self, end: Spent) -> Spent:
        """Return the seconds from here to `end`."""
        return Spent(end.process - self.process, end.main_thread - self.main_thread)


def measure(readers: int, lines: int, updates: int, threads: int, model: str = MODEL) -> dict[str, Any]:
    """Train for some updates, and one more before them; return seconds by phase, tokens, and minutes of the budget.

    Args:
        readers: Readers of the team, 2, 4 or 8.
        lines: Lines of a part.
        updates: Updates that are measured.
        threads: Threads of torch.
        model: Name of the model.
    """
    import torch

    from baselines.experiment.experiment import Experiment
    from marft_agents.rollouts.rollout_source import GroupPlayer, LocalRollouts
    from marft_agents.runs.trainer import group_settings

    torch.set_num_threads(threads)
    plan = Experiment(
        f"marft/shards_readers{readers}-v0",
        keywords={"lines": lines},
        models=model,
        algorithm="marft-a",
        max_new_tokens=8,
    )
    make_env, team, learner = plan.build(torch.device("cpu"))
    rollouts = LocalRollouts(GroupPlayer(make_env, team, team, group_settings(plan.schedule, learner.settings)))
    seconds = {phase: list[Spent]() for phase in PHASES}
    tokens = list[int]()
    for update in range(updates + 1):
        start = Spent.so_far()
        trained = rollouts.rollout(update).experience.trained
        played = Spent.so_far()
        learner.update(trained)
        spent = {"rollout": start.until(played), "update": played.until(Spent.so_far())}
        count = sum(len(turn.action.token_ids) for game in trained for turn in game.turns)
        print(f"update {update}: {count} tokens, {spent}", flush=True)
        if update:
            tokens.append(count)
            for phase in PHASES:
                seconds[phase].append(spent[phase])
    team.close()
    per_token = {
        clock: sum(getattr(each, clock) for phase in PHASES for each in seconds[phase]) / sum(tokens)
        for clock in ("process", "main_thread")
    }
    return {
        "readers": readers,
        "lines": lines,
        "threads": threads,
        "tokens": tokens,
        "seconds": {
            phase: {clock: [round(getattr(each, clock), 2) for each in seconds[phase]] for clock in per_token}
            for phase in PHASES
        },
        "cpu_seconds_per_1000_tokens": round(1000 * per_token["process"], 1),
        "budget_tokens": BUDGET,
        "minutes": round(BUDGET * per_token["main_thread"] / 60, 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the minutes of the budget."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards", description=__doc__)
    parser.add_argument("--readers", type=int, default=4, help="readers of the team (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=4, help="lines of a part (default: %(default)s)")
    parser.add_argument("--updates", type=int, default=3, help="updates to measure (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    chosen = parser.parse_args(arguments)
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch is loaded
    found = measure(chosen.readers, chosen.lines, chosen.updates, chosen.threads)
    print(f"{found['budget_tokens']} tokens take {found['minutes']} minutes of {found['threads']} free cores")
    if chosen.json:
        write_record(chosen.json, "shards", {"model": MODEL, **found})


if __name__ == "__main__":
    main()
