"""The quickstart on a GPU by parts: import, load, first action, evaluation, updates."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from baselines import quickstart
from baselines.experiment.training import train
from benchmarks.gpu.generation import seconds_of_one
from marft_agents.runs.run_folder import read_metrics

PARTS = ("import", "load", "first_episode", "evaluation", "updates")


def measure(model: str, device: torch.device, *, updates: int, limit: int | None, **changes: Any) -> Mapping[str, Any]:
    """Run the parts of the quickstart once; return the seconds of each.

    Args:
        model: Name of the model of both agents.
        device: Device that the quickstart finds by itself, to wait for its work.
        updates: Number of training updates.
        limit: Held-out problems of the evaluation; None: all.
        **changes: Other settings of the quickstart that differ, for a check of the benchmark itself.
    """
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import baselines.quickstart"], check=True)
    imported = time.perf_counter() - started
    plan = quickstart.experiment(0, model=model, updates=updates, **changes)
    built: list[Any] = []
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        loaded = seconds_of_one(lambda: built.append(plan.build()), device)
        _, team, _ = built[0]
        first = seconds_of_one(lambda: quickstart.evaluate_held_out(plan, team, 1, "first episode"), device)
        evaluated = seconds_of_one(lambda: quickstart.evaluate_held_out(plan, team, limit, "held-out problems"), device)
        trained = seconds_of_one(lambda: train(plan, Path(folder) / "run"), device)
        steps = read_metrics(Path(folder) / "run")
    later = steps[2:] or steps[-1:]
    return {
        **dict(zip((f"{part}_s" for part in PARTS), (imported, loaded, first, evaluated, trained), strict=True)),
        "rollout_s_later": sum(step["seconds/rollout"] for step in later) / len(later),
        "update_s_later": sum(step["seconds/update"] for step in later) / len(later),
    }
