"""Quickstart experiment: train a pretrained two-agent team on word problems, evaluate before and after.

`python -m baselines.quickstart` (or `make quickstart`) evaluates the untrained duo reasoner -> actor of
SmolLM2-135M-Instruct on 200 held-out problems of the embedded set `stories`. It trains the duo with MARFT-A on the 600
training problems under one shared reward: 1 for a right answer, else 0. It evaluates again on the same held-out
problems, prints both results with 95 % intervals, plots the learning curve and writes `report.html`. Training uses no
task of the test split.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baselines.cli.environment_flags import factory, scenarios, settings_of
from baselines.cli.evaluate import evaluate_with_bar, print_results, save
from baselines.cli.main import guarded
from baselines.cli.report import write_report
from baselines.cli.settings_flags import from_record
from baselines.cli.train import train
from baselines.evaluation_scenarios import scenario_list
from baselines.experiment_settings import SETTINGS, Experiment
from baselines.presets import PRESETS
from baselines.report.learning_curve import Points, draw_curve
from marft_agents.generation.sampling import SamplingParams
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.runs import checkpoint
from marft_agents.runs.evaluation import Evaluation, paired_difference
from marft_agents.runs.run_folder import check_free, read_metrics, write_json
from marft_envs import Team

ENVIRONMENT = "marft/gsm8k_duo-v0"
UPDATES = 16


def experiment(seed: int, *, model: str = "smollm2-135m", **changes: Any) -> Experiment:
    """Return the experiment of the quickstart.

    Args:
        seed: Seed of all random numbers in the run.
        model: Model name of both agents.
        **changes: Settings that differ from the preset "laptop", by field name.
    """
    values = {**PRESETS["laptop"], "updates": UPDATES, "seed": seed, **changes}
    parts = {}
    for name, (kind, _) in SETTINGS.items():
        fields = {field.name for field in dataclasses.fields(kind)}
        parts[name] = from_record(kind, {key: value for key, value in values.items() if key in fields})
    return Experiment(
        env=ENVIRONMENT,
        keywords={"data": "embedded:stories", "split": "train", "team": Team.preset("laptop_duo").to_dict()},
        algorithm="marft-a",
        models={"*": model},
        sharing="separate",
        **parts,
    )


def held_out_evaluations(plan: Experiment, team: LanguageModelTeam, limit: int | None) -> dict[str, Evaluation]:
    """Evaluate a team on the test split with greedy decoding and with the sampling parameters of training."""
    make_env = factory(plan.env, {**plan.keywords, "split": "test"})
    options = scenarios(make_env(), limit)
    return {
        name: evaluate_with_bar(
            make_env, team.under(law), options, seeds=[plan.schedule.seed], title=f"{name} evaluation"
        )
        for name, law in decodings(plan).items()
    }


def decodings(plan: Experiment) -> dict[str, SamplingParams]:
    """Return the sampling parameters of both evaluations."""
    return {"greedy": dataclasses.replace(plan.law, temperature=0.0), "sampled": plan.law}


def run(plan: Experiment, out: Path, *, limit: int | None = None) -> dict[str, Any]:
    """Evaluate, train and evaluate again; write all results under `out`.

    Returns:
        For "greedy" and "sampled": before, after and paired gain, each with its 95 % interval. Also the seed, the
        number of updates and the minutes taken.
    """
    check_free(out)
    started = time.perf_counter()
    _, untrained, _ = plan.build()
    before = held_out_evaluations(plan, untrained, limit)
    for name, result in before.items():
        save(out / f"before-{name}", result, _record(plan, name, None, limit))
        print(f"before training, {name}: {result.accuracy}", flush=True)
    del untrained
    train(plan, out)
    _, team, _ = plan.build()
    checkpoint.load_adapters(out, team)
    after = held_out_evaluations(plan, team, limit)
    for name, result in after.items():
        save(out / f"after-{name}", result, _record(plan, name, checkpoint.resolve(out), limit))
    summary = _report(before, after, plan, out)
    summary["minutes"] = (time.perf_counter() - started) / 60
    write_json(out / "quickstart.json", summary)
    print("all of it to read, episodes before and after training side by side:", flush=True)
    write_report(out / "report.html", out)
    return summary


def _record(plan: Experiment, name: str, path: Path | None, limit: int | None) -> dict[str, Any]:
    env = factory(plan.env, {**plan.keywords, "split": "test"})()
    return {
        "env": plan.env,
        "settings": settings_of(env),
        "law": dataclasses.asdict(decodings(plan)[name]),
        "experiment": plan.to_dict(),
        "checkpoint": None if path is None else str(path),
        **scenario_list(env, scenarios(env, limit), plan.env).record(),
    }


def _report(
    before: Mapping[str, Evaluation], after: Mapping[str, Evaluation], plan: Experiment, out: Path
) -> dict[str, Any]:
    rows = {f"before, {name}": result for name, result in before.items()}
    rows |= {f"after, {name}": result for name, result in after.items()}
    gains = {name: paired_difference(after[name], before[name]) for name in after}
    print_results(rows, {f"after, {name}": gain for name, gain in gains.items()})
    for name in after:
        _print_examples(name, before[name], after[name])
    label = f"seed {plan.schedule.seed}"
    draw_curve(
        {label: read_metrics(out)},
        out / "curve.png",
        held_out={label: Points(before["sampled"].accuracy, after["sampled"].accuracy)},
        title="reasoner -> actor, one shared reward: held-out accuracy before and after",
    )
    report: dict[str, Any] = {}
    for name in after:
        report[name] = {
            "before": list(before[name].accuracy),
            "after": list(after[name].accuracy),
            "paired_gain": list(gains[name]),
        }
    report.update(seed=plan.schedule.seed, updates=plan.schedule.updates)
    return report


def _print_examples(name: str, before: Evaluation, after: Evaluation, count: int = 1) -> None:
    """Print up to `count` held-out episodes that succeed only after training (greedy decoding)."""
    if name != "greedy":
        return
    pairs = zip(before.trajectories, after.trajectories, before.scores[:, 0], after.scores[:, 0], strict=True)
    shown = [(old, new) for old, new, was, now in pairs if now > was][:count]
    for old, new in shown:
        for label, trajectory in (("before", old), ("after ", new)):
            print(f"  {label}: " + " | ".join(f"{t.agent}: {t.action.text.strip()}" for t in trajectory.turns))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quickstart from the command line."""
    parser = argparse.ArgumentParser(prog="python -m baselines.quickstart", description=str(__doc__).split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument("--out", type=Path, help="run folder (default: runs/quickstart-seed-N)")
    parser.add_argument("--updates", type=int, default=UPDATES, help=f"training updates (default: {UPDATES})")
    parser.add_argument("--model", default="smollm2-135m", help="model of both agents (default: smollm2-135m)")
    parser.add_argument("--limit", type=int, help="evaluate on N held-out problems only, spread evenly over all")
    given = parser.parse_args(arguments)
    out = given.out or Path("runs") / f"quickstart-seed-{given.seed}"

    def work() -> int:
        plan = experiment(given.seed, model=given.model, updates=given.updates)
        summary = run(plan, out, limit=given.limit)
        print(
            f"{summary['minutes']:.1f} minutes; learning curve {out / 'curve.png'}; adapters {checkpoint.resolve(out)}"
        )
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
