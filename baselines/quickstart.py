"""Quickstart experiment: train a pretrained two-agent team on word problems, evaluate before and after.

`python -m baselines.quickstart` (or `make quickstart`) plays one problem with the untrained duo reasoner -> actor of
SmolLM2-135M-Instruct, and prints what the agents say. It evaluates the duo on 200 held-out problems of the embedded set
`stories`, with greedy decoding. It trains the duo with MARFT-A on the 600 training problems under one shared reward: 1
for a right answer, else 0. Meanwhile the report is served on this machine, and follows the training. At the end it
evaluates again on the same held-out problems, prints both results with 95 % intervals, plots the learning curve and
writes `report.html`. Training uses no task of the test split.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from baselines import report
from baselines.cli.evaluate import evaluate_with_bar, print_results
from baselines.cli.main import guarded
from baselines.cli.progress import TrainingDisplay
from baselines.cli.report import say_written
from baselines.cli.terminal import say
from baselines.experiment.environments import factory, scenarios, settings_of
from baselines.experiment.evaluation import save_evaluation
from baselines.experiment.experiment import Experiment
from baselines.experiment.learning_curve import Points, draw_curve
from baselines.experiment.scenario_lists import scenario_list
from baselines.report.server import Server, View
from baselines.results.statistics import check_installed, paired_difference
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.pretrained import Dtype
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.runs import checkpoint
from marft_agents.runs.evaluation import Evaluation
from marft_agents.runs.folder_lock import owned
from marft_agents.runs.run_folder import check_free, read_metrics, write_json
from marft_agents.trajectory import Trajectory
from marft_envs import Team

ENVIRONMENT = "marft/gsm8k_duo-v0"
UPDATES = 12


def experiment(seed: int, *, model: str = "smollm2-135m", dtype: Dtype = "auto", **changes: Any) -> Experiment:
    """Return the experiment of the quickstart.

    Args:
        seed: Seed of all random numbers in the run.
        model: Model name of both agents.
        dtype: Dtype of the frozen model, see `build_team`.
        **changes: Settings that differ from the preset "laptop", by field name.
    """
    return Experiment.of(
        ENVIRONMENT,
        keywords={"data": "embedded:stories", "split": "train", "team": Team.preset("laptop_duo").to_dict()},
        models=model,
        dtype=dtype,
        seed=seed,
        **{"updates": UPDATES, **changes},
    )


def greedy(plan: Experiment) -> SamplingParams:
    """Return the sampling parameters of the evaluations."""
    return dataclasses.replace(plan.law, temperature=0.0)


def evaluate_held_out(plan: Experiment, team: LanguageModelTeam, limit: int | None, title: str) -> Evaluation:
    """Evaluate a team on the test split with greedy decoding."""
    make_env = factory(plan.env, {**plan.keywords, "split": "test"})
    options = scenarios(make_env(), limit)
    return evaluate_with_bar(make_env, team.under(greedy(plan)), options, seeds=[plan.schedule.seed], title=title)


def run(plan: Experiment, out: Path, *, limit: int | None = None) -> dict[str, Any]:
    """Evaluate, train and evaluate again; write all results under `out`.

    Returns:
        "before", "after" and "paired_gain", each with its 95 % interval. Also the seed, the number of updates and the
        minutes taken.
    """
    with owned(out):
        check_free(out)
        check_installed()
        return _run(plan, out, limit)


def _run(plan: Experiment, out: Path, limit: int | None) -> dict[str, Any]:
    started = time.perf_counter()
    _, untrained, _ = plan.build()
    first = evaluate_held_out(plan, untrained, 1, "one episode before training")
    say(f"before training: {_told(first.trajectories[0])}", flush=True)
    before = evaluate_held_out(plan, untrained, limit, "held-out problems before training")
    save_evaluation(out / "before", before, _record(plan, None, limit))
    say(f"held-out problems solved before training: {before.accuracy}", flush=True)
    del untrained
    with _served(out):
        plan.run(out, TrainingDisplay())
    _, team, _ = plan.build()
    checkpoint.load_adapters(out, team)
    after = evaluate_held_out(plan, team, limit, "held-out problems after training")
    save_evaluation(out / "after", after, _record(plan, checkpoint.resolve(out), limit))
    summary = _report(before, after, plan, out)
    summary["minutes"] = (time.perf_counter() - started) / 60
    write_json(out / "quickstart.json", summary)
    say("all of it to read, episodes before and after training side by side:", flush=True)
    say_written(report.write(out))
    return summary


@contextlib.contextmanager
def _served(out: Path) -> Iterator[None]:
    """Serve the report on this machine's own address, where it follows the training."""
    with Server(View(out)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        say(f"watch the team learn, and read its episodes: {server.url}", flush=True)
        try:
            yield
        finally:
            server.shutdown()


def _record(plan: Experiment, path: Path | None, limit: int | None) -> dict[str, Any]:
    env = factory(plan.env, {**plan.keywords, "split": "test"})()
    return {
        "env": plan.env,
        "settings": settings_of(env),
        "law": dataclasses.asdict(greedy(plan)),
        "experiment": plan.to_dict(),
        "checkpoint": None if path is None else str(path),
        **scenario_list(env, scenarios(env, limit), plan.env).record(),
    }


def _report(before: Evaluation, after: Evaluation, plan: Experiment, out: Path) -> dict[str, Any]:
    gain = paired_difference(before.scores.T, after.scores.T).interval  # of one evaluation seed
    print_results({"before": before, "after": after}, {"after": gain})
    solved = zip(before.trajectories, after.trajectories, before.scores[:, 0], after.scores[:, 0], strict=True)
    for old, new in [(old, new) for old, new, was, now in solved if now > was][:1]:
        say(f"  before: {_told(old)}\n  after:  {_told(new)}")
    label = f"seed {plan.schedule.seed}"
    draw_curve(
        {label: read_metrics(out)},
        out / "curve.png",
        held_out={label: Points(before.accuracy, after.accuracy)},
        title="reasoner -> actor, one shared reward: held-out accuracy before and after",
    )
    return {
        "before": list(before.accuracy),
        "after": list(after.accuracy),
        "paired_gain": list(gain),
        "seed": plan.schedule.seed,
        "updates": plan.schedule.updates,
    }


def _told(trajectory: Trajectory) -> str:
    """Return what the agents of an episode said, in one line."""
    return " | ".join(f"{turn.agent}: {turn.action.text.strip()}" for turn in trajectory.turns)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quickstart from the command line."""
    parser = argparse.ArgumentParser(prog="python -m baselines.quickstart", description=str(__doc__).split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument("--out", type=Path, help="run folder (default: runs/quickstart-seed-N)")
    parser.add_argument("--updates", type=int, default=UPDATES, help=f"training updates (default: {UPDATES})")
    parser.add_argument("--model", default="smollm2-135m", help="model of both agents (default: smollm2-135m)")
    parser.add_argument("--dtype", choices=get_args(Dtype), default="auto", help="of the frozen model (default: auto)")
    parser.add_argument("--limit", type=int, help="evaluate on N held-out problems only, spread evenly over all")
    given = parser.parse_args(arguments)
    out = given.out or Path("runs") / f"quickstart-seed-{given.seed}"

    def work() -> int:
        plan = experiment(given.seed, model=given.model, dtype=given.dtype, updates=given.updates)
        summary = run(plan, out, limit=given.limit)
        say(f"{summary['minutes']:.1f} minutes; learning curve {out / 'curve.png'}; adapters {checkpoint.resolve(out)}")
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
