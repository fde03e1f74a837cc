"""`marft bench`: train and play the arms of a plan, and print their table."""

from __future__ import annotations

import argparse
import os
import shlex
from functools import partial
from importlib import resources
from pathlib import Path

from baselines.bench.forecast import forecast, time_unknown
from baselines.bench.plan import BenchPlan
from baselines.bench.plan_errors import PlanError
from baselines.bench.plan_file import read_plan
from baselines.bench.run import Bench, add_records, failures, open_folder, run_bench
from baselines.bench.run_unit import Folder
from baselines.bench.units import units_of
from baselines.cli.progress import TrainingDisplay
from baselines.cli.settings_flags import count
from baselines.cli.terminal import say, stoppable
from baselines.results.bench_records import read_records
from marft_agents.runs.folder_lock import RunFolderError, owned
from marft_common.close_names import close_or_all

PLANS = resources.files("baselines").joinpath("experiments", "bench")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft bench`."""
    parser.add_argument(
        "plan", metavar="PLAN", help=f"a plan in TOML, or one that comes with marft: {', '.join(bundled_plans())}"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the results (default: a new one, runs/bench-NAME)"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the results in DIR (default: the newest runs/bench-NAME); failed cells run again",
    )
    parser.add_argument(
        "--records",
        type=Path,
        metavar="FILE",
        help="take the cells of this export of `python -m baselines.cli.bench_table` as done: those of another "
        "machine, or of a folder that is gone",
    )
    parser.add_argument(
        "--jobs",
        type=count,
        default=1,
        metavar="N",
        help="cells at a time; without --ray in processes that share cores and GPU (default: 1)",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run N cells at a time as tasks of a Ray cluster: local (start one here), auto (join this machine's), or "
        "the HOST:PORT of its head",
    )
    parser.add_argument(
        "--worker-cpus", type=count, default=1, metavar="N", help="cores and threads of each task, with --ray"
    )
    parser.add_argument(
        "--worker-gpus", type=float, default=0.0, metavar="N", help="GPUs of each task, with --ray; may be a fraction"
    )
    parser.add_argument(
        "--keep-checkpoints", action="store_true", help="keep the trained teams after their last cell is done"
    )
    parser.add_argument(
        "--tasks",
        default=[],
        type=lambda text: text.split(","),
        metavar="NAME,...",
        help="run these tasks of the plan only; the others may run elsewhere, in folders of their own",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check the plan, print its trainings and cells and a forecast of tokens and core hours, and run nothing",
    )
    parser.set_defaults(run=run)


def bundled_plans() -> list[str]:
    """Return the names of the plans that come with marft."""
    files = PLANS.iterdir() if PLANS.is_dir() else ()
    return sorted(f"bench/{file.name.removesuffix('.toml')}" for file in files if file.name.endswith(".toml"))


def run(arguments: argparse.Namespace) -> int:
    """Run `marft bench`; return 1 if a cell failed."""
    plan = read_plan(_plan_file(arguments.plan))
    if arguments.check:
        return _check(plan, arguments)
    if arguments.out is None:
        arguments.out = chosen_folder(plan.name, resume=arguments.resume)
        say(f"results: {arguments.out}", flush=True)
    with owned(arguments.out):
        return _run_plan(plan, arguments)


def _plan_file(name: str) -> Path:
    """Return the path of a plan that is a file, or comes with marft."""
    path, known = Path(name), bundled_plans()
    if not path.exists() and name.removesuffix(".toml") in known:
        return Path(str(PLANS.joinpath(f"{path.name.removesuffix('.toml')}.toml")))
    if not path.exists():
        raise PlanError(f"{name}: there is no such file; wanted a plan in TOML{close_or_all(name, known)}")
    return path


def chosen_folder(name: str, *, resume: bool) -> Path:
    """Return runs/bench-NAME, or with a number behind it where that exists; on resume the last one that exists."""
    first = Path("runs", f"bench-{name}")
    number, folder, newest = 1, first, first
    while folder.exists():
        number, newest = number + 1, folder
        folder = first.with_name(f"{first.name}-{number}")
    return newest if resume else folder


def _check(plan: BenchPlan, arguments: argparse.Namespace) -> int:
    """Print the units of a plan and the forecast of those that are not done."""
    say("\n".join(units_of(plan, arguments.tasks)))
    out = arguments.out or chosen_folder(plan.name, resume=True)
    if (out / "plan.json").is_file():
        try:
            open_folder(plan, out, resume=True)
        except RunFolderError:
            out = out / plan.checksum  # the results are those of another plan: of this one nothing is done
    bench = Bench(plan, Folder(out), "", tasks=arguments.tasks)
    if arguments.records:
        counted = bench.costs.add_records([], read_records([arguments.records]))
        bench.costs.sources.append(f"measured: {counted} cells of {arguments.records}")
    _say_forecast(bench, arguments)
    return 0


def _say_forecast(bench: Bench, arguments: argparse.Namespace) -> None:
    """Print the size of the units that are not done."""
    if arguments.ray:
        bench.costs.sources.append("on a cluster: times are measured as units end")
    else:
        time_unknown(bench.costs, bench.left, bench.works)
    say(forecast(bench.plan, bench.left, bench.costs, bench.works), flush=True)


def _run_plan(plan: BenchPlan, arguments: argparse.Namespace) -> int:
    """Run the units of a plan that are not done; return 1 if one failed."""
    from baselines.bench.ray_units import run_on_ray
    from baselines.results.table_text import save_tables
    from marft_agents.rollouts.rollout_settings import RolloutSettings

    folder = open_folder(plan, arguments.out, resume=arguments.resume)
    if arguments.records:
        add_records(plan, folder, arguments.records)
    of_each = {"worker_cpus": arguments.worker_cpus, "worker_gpus": arguments.worker_gpus}
    words = ["marft", "bench", arguments.plan, "--out", str(arguments.out), "--jobs", str(arguments.jobs)]
    if arguments.tasks:
        words += ["--tasks", ",".join(arguments.tasks)]
    if arguments.ray:
        words += ["--ray", arguments.ray, "--worker-cpus", str(arguments.worker_cpus)]
    command = shlex.join(words)
    bench = Bench(
        plan,
        folder,
        command,
        keep_checkpoints=arguments.keep_checkpoints,
        tasks=arguments.tasks,
        jobs=arguments.jobs,
        tell=partial(say, flush=True),
        progress=TrainingDisplay(),
    )
    say(f"{plan.name}: {len(bench.units)} trainings and cells, {len(bench.done)} done; {os.cpu_count()} cores")
    if bench.left:
        _say_forecast(bench, arguments)
    going_on = [*words, "--resume"]
    if arguments.ray and arguments.worker_gpus:
        going_on += ["--worker-gpus", str(arguments.worker_gpus)]
    if arguments.keep_checkpoints:
        going_on.append("--keep-checkpoints")
    with stoppable(going_on, arguments.out / "plan.json"):
        if arguments.ray:
            run_on_ray(bench, RolloutSettings(arguments.ray, arguments.jobs, **of_each))
        else:
            run_bench(bench, arguments.jobs)
    say(save_tables([arguments.out], arguments.out, plan.reference))
    for line in failures(bench):
        say(f"failed: {line}", error=True)
    return 1 if bench.failed else 0
