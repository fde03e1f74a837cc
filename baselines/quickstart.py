"""Quickstart experiment: train a pretrained two-agent team on word problems, evaluate before and after.

`python -m baselines.quickstart` (or `make quickstart`) plays one problem with the untrained duo reasoner -> actor of
SmolLM2-135M-Instruct, and prints what the agents say. It evaluates the duo on 200 held-out problems of the embedded set
`stories`, with greedy decoding. It trains the duo with MARFT-A on the 600 training problems under one shared reward: 1
for a right answer, else 0. Then it evaluates again on the same held-out problems, prints both results with 95 %
intervals, plots the learning curve and writes `report.html`. All the while the report is served on this machine, and
follows the training. Training uses no task of the test split. The same command goes on where the last one stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import shlex
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from rich.table import Table

from baselines import report
from baselines.cli.evaluate import evaluate_with_bar
from baselines.cli.main import guarded
from baselines.cli.progress import TrainingDisplay
from baselines.cli.report import say_written
from baselines.cli.terminal import say, say_loading
from baselines.experiment.config_trust import Uses
from baselines.experiment.environments import factory, scenarios, settings_of
from baselines.experiment.evaluation import save_evaluation
from baselines.experiment.experiment import DEFAULT_MODEL, Experiment
from baselines.experiment.learning_curve import Points, draw_curve
from baselines.experiment.scenario_lists import scenario_list
from baselines.report.server import Server, View
from baselines.results.statistics import check_installed, paired_difference
from baselines.results.visible_console import TABLE_WIDTH, console
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import Dtype
from marft_agents.runs.evaluation import Evaluation, Interval
from marft_agents.runs.folder_lock import RunFolderError, owned
from marft_agents.runs.run_folder import EVALUATION_FILE, check_free, read_metrics, write_json
from marft_agents.trajectory import Trajectory
from marft_envs import Team

if TYPE_CHECKING:  # it imports torch, which is said first
    from marft_agents.policies.language_model import LanguageModelTeam

ENVIRONMENT = "marft/gsm8k_duo-v0"
UPDATES = 12
SUMMARY = "quickstart.json"


def experiment(seed: int, *, model: str = DEFAULT_MODEL, dtype: Dtype = "auto", **changes: Any) -> Experiment:
    """Return the experiment of the quickstart.

    Args:
        seed: Seed of all random numbers in the run.
        model: Model name of both agents.
        dtype: Dtype of the frozen model, see `build_team`.
        **changes: Settings that differ from the preset "laptop", by field name.
    """
    return Experiment(
        ENVIRONMENT,
        keywords={"data": "embedded:stories", "split": "train", "team": Team.preset("laptop_duo").to_dict()},
        models=model,
        dtype=dtype,
        seed=seed,
        **{"updates": UPDATES, **changes},
    )


def greedy(plan: Experiment) -> SamplingParams:
    """Return the sampling parameters of the evaluations."""
    return dataclasses.replace(plan.sampling, temperature=0.0)


def evaluate_held_out(plan: Experiment, team: LanguageModelTeam, limit: int | None, title: str) -> Evaluation:
    """Evaluate a team on the test split with greedy decoding."""
    make_env = factory(plan.env, {**plan.keywords, "split": "test"})
    env = make_env()
    options, agents = scenarios(env, limit), len(env.possible_agents)
    player = team.under(greedy(plan))
    return evaluate_with_bar(make_env, player, options, seeds=[plan.schedule.seed], title=title, agents=agents)


def run(plan: Experiment, out: Path, *, limit: int | None = None) -> dict[str, Any]:
    """Evaluate, train and evaluate again; write all results under `out`.

    A quickstart that was stopped there goes on: its first evaluation is kept if it had ended, and its updates up to the
    newest checkpoint.

    Returns:
        "before", "after" and "paired_gain", each with its 95 % interval. Also the seed, the number of updates and the
        minutes taken.

    Raises:
        RunFolderError: The folder holds a finished quickstart, or a run with other settings.
    """
    with owned(out):
        _check_own(plan, out)
        check_installed()
        if not (out / "config.json").is_file():
            write_json(out / "config.json", plan.to_dict(), own=True)  # makes it a run, which the report can show
        with _served(out):
            return _run(plan, out, limit)


def _check_own(plan: Experiment, out: Path) -> None:
    """Raise RunFolderError if a folder holds results of anything but this quickstart, stopped before its end."""
    if not (out / "config.json").is_file():
        check_free(out)
        return
    if (out / SUMMARY).is_file():
        raise RunFolderError(f"{out} already holds a finished quickstart; give another --out, or remove it first")
    found = Experiment.load(out, Uses(only=()))
    length = dataclasses.replace(found.schedule, updates=plan.schedule.updates)
    if dataclasses.replace(found, schedule=length, learner=plan.learner, engine=plan.engine) != plan:
        raise RunFolderError(f"{out} holds a run with other settings; give another --out, or the flags of that run")


def _run(plan: Experiment, out: Path, limit: int | None) -> dict[str, Any]:
    started = time.perf_counter()
    say_loading(plan.models.values())
    from marft_agents.runs import checkpoint

    first = _record(plan, None, limit)
    if _is_kept(out / "before", first):
        say(f"{out}: the evaluation before training is done already, the training goes on", flush=True)
    else:
        _, untrained, _ = plan.build()
        one = evaluate_held_out(plan, untrained, 1, "one episode before training")
        say(f"before training: {_told(one.trajectories[0])}", flush=True)
        before = evaluate_held_out(plan, untrained, limit, "held-out problems before training")
        save_evaluation(out / "before", before, first)
        say(f"held-out problems solved before training: {before.accuracy}", flush=True)
        del untrained
    plan.run(out, TrainingDisplay(), resume=checkpoint.latest(out / "checkpoints") is not None)
    _, team, _ = plan.build()
    checkpoint.load_adapters(out, team)
    after = evaluate_held_out(plan, team, limit, "held-out problems after training")
    save_evaluation(out / "after", after, _record(plan, checkpoint.resolve(out), limit))
    summary = _report(plan, out)
    summary["adapters"] = str(checkpoint.resolve(out))
    summary["minutes"] = (time.perf_counter() - started) / 60
    write_json(out / SUMMARY, summary)
    say("all of it to read, episodes before and after training side by side:", flush=True)
    say_written(report.write(out))
    return summary


def _is_kept(folder: Path, record: Mapping[str, Any]) -> bool:
    """Return True if a folder holds an evaluation of the same record, apart from the number of updates to come."""
    file = folder / EVALUATION_FILE
    if not file.is_file():
        return False
    found, wanted = json.loads(file.read_text(encoding="utf-8")), json.loads(json.dumps(record))
    return all(found.get(key) == value for key, value in wanted.items() if key != "experiment")


@contextlib.contextmanager
def _served(out: Path) -> Iterator[None]:
    """Serve the report on this machine's own address, where it follows the evaluations and the training."""
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


def _report(plan: Experiment, out: Path) -> dict[str, Any]:
    """Print the gain, draw the curve and return the summary, from the files of both evaluations."""
    results = {name: _read(out / name) for name in ("before", "after")}
    before, after = results.values()
    gain = paired_difference(before.scores.T, after.scores.T).interval  # of one evaluation seed
    table = Table("evaluation", "accuracy [95 % interval]", "tokens/episode", "ideal cache", "episodes", "failed")
    table.add_column("paired gain [95 % interval]")
    for name, result in results.items():
        table.add_row(name, *result.cells, str(gain) if name == "after" else "")
    console(width=TABLE_WIDTH).print(table)
    solved = zip(before.told, after.told, before.scores[:, 0], after.scores[:, 0], strict=True)
    for old, new in [(old, new) for old, new, was, now in solved if now > was][:1]:
        say(f"  before: {old}\n  after:  {new}")
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


class _Result(NamedTuple):
    """An evaluation, read from its files.

    Attributes:
        scores: Float64 [scenarios, 1]; NaN where the episode failed.
        accuracy: Mean score with its 95 % interval.
        told: What the agents of each episode said, in one line.
        cells: Accuracy, tokens and episodes, as they stand in the printed table.
    """

    scores: npt.NDArray[np.float64]
    accuracy: Interval
    told: list[str]
    cells: list[str]


def _read(folder: Path) -> _Result:
    """Read the files of an evaluation, which an earlier start of the quickstart may have written."""
    record = json.loads((folder / EVALUATION_FILE).read_text(encoding="utf-8"))
    lines = (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    episodes = [json.loads(line)["turns"] for line in lines]
    told = [" | ".join(f"{turn['agent']}: {turn['text'].strip()}" for turn in turns) for turns in episodes]
    scores = np.asarray(record["scores"], np.float64)  # null becomes NaN
    mean = math.nan if record["accuracy"] is None else record["accuracy"]
    accuracy = Interval(mean, *record["interval_95"])
    ledger = record["ledger"]
    computed = f"{ledger['team']['ideal_cache_tokens'] / ledger['episodes']:.1f}"
    tokens = f"{record['tokens_per_episode']:.1f}"
    return _Result(scores, accuracy, told, [str(accuracy), tokens, computed, str(len(told)), str(record["failures"])])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quickstart from the command line."""
    parser = argparse.ArgumentParser(prog="python -m baselines.quickstart", description=str(__doc__).split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of everything random (default: 0)")
    parser.add_argument("--out", type=Path, help="run folder (default: runs/quickstart-seed-N)")
    parser.add_argument("--updates", type=int, default=UPDATES, help=f"training updates (default: {UPDATES})")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="model of both agents (default: %(default)s)")
    parser.add_argument("--dtype", choices=get_args(Dtype), default="auto", help="of the frozen model (default: auto)")
    parser.add_argument("--limit", type=int, help="evaluate on N held-out problems only, spread evenly over all")
    given = parser.parse_args(arguments)
    out = given.out or Path("runs") / f"quickstart-seed-{given.seed}"

    def work() -> int:
        plan = experiment(given.seed, model=given.model, dtype=given.dtype, updates=given.updates)
        try:
            summary = run(plan, out, limit=given.limit)
        except KeyboardInterrupt:
            named = shlex.join(sys.argv[1:] if arguments is None else arguments)
            say(f"stopped; go on with: make quickstart{f' ARGS={shlex.quote(named)}' if named else ''}", error=True)
            raise
        say(f"{summary['minutes']:.1f} minutes; learning curve {out / 'curve.png'}; adapters {summary['adapters']}")
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
