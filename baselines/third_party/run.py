"""Run all third-party libraries on two games in their virtual environments, and print a table.

    python -m baselines.third_party.run [--only torchrl,sb3] [--games cheap_talk-v0,gsm8k-v0] [--steps N] [--jobs N]
        [--out DIR]

The exit code is 1 if a script fails, the reward does not reach the first speaker, or success does not exceed chance by
`LEARN`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from baselines.third_party.games import GAMES
from baselines.third_party.training_script import TrainingResult, read
from baselines.third_party.virtual_environments import LIBRARIES, ROOT, cache_folder, prepare

DEFAULT_GAMES = ("cheap_talk-v0", "gsm8k-v0")
LEARN = 0.2  # minimum success above chance
CREDIT = 0.5  # minimum gap of returns, at a reward of 1
TIMEOUT_S = 1_800


@dataclass(frozen=True)
class Run:
    """Result of one script on one game.

    Attributes:
        library: Name of a library in `LIBRARIES`.
        algorithm: Name of the algorithm in its script.
        game: Name of a game in `GAMES`.
        outcome: Outcome of the training; None if the script failed.
        fault: Reason for failure; empty if the run passes.
    """

    library: str
    algorithm: str
    game: str
    outcome: TrainingResult | None
    fault: str = ""


@dataclass(frozen=True)
class Planned:
    """One script to run on one game, with the interpreter of its virtual environment."""

    library: str
    python: Path
    script: str
    algorithm: str
    game: str


def judge(outcome: TrainingResult) -> str:
    """Return the faults of an outcome as text; empty if it passes."""
    faults = []
    if not outcome.credit > CREDIT:  # `not` also catches NaN
        faults.append(f"the reward does not reach the first speaker (credit {outcome.credit:.2f})")
    bound = outcome.chance + LEARN
    if outcome.success < bound:
        faults.append(f"success {outcome.success:.2f}, wanted {bound:.2f}")
    return "; ".join(faults)


def plan(libraries: Iterable[str], games: Sequence[str]) -> tuple[list[Planned], list[Run]]:
    """Make the virtual environments; return the planned runs, and a failed run for each library not installed."""
    planned, faults = [], []
    for library in libraries:
        environment = LIBRARIES[library].environment
        folder = cache_folder() / environment
        try:
            python = prepare(environment, folder)
        except subprocess.CalledProcessError as error:
            fault = f"pip failed with exit code {error.returncode}, see {folder / 'install.log'}"
            faults.append(Run(library, "", "", None, fault))
        else:
            planned += [Planned(library, python, *run, game) for run in LIBRARIES[library].runs for game in games]
    return planned, faults


def play(one: Planned, steps: int | None, seed: int, folder: Path) -> Run:
    """Run a script; write its outcome and its output to the folder."""
    name = f"{one.library}_{one.algorithm}_{one.game}"
    command = [str(one.python), "-m", f"baselines.third_party.{one.script}", "--algorithm", one.algorithm]
    command += ["--game", one.game, "--seed", str(seed), "--json", str(folder / f"{name}.json")]
    command += [] if steps is None else ["--steps", str(steps)]
    failed = _execute(command, folder / f"{name}.log")
    if failed:
        return Run(one.library, one.algorithm, one.game, None, failed)
    outcome = read(folder / f"{name}.json")
    return Run(one.library, one.algorithm, one.game, outcome, judge(outcome))


def _execute(command: Sequence[str], log: Path) -> str:
    """Run a script; return the reason for failure, or an empty text."""
    settings = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("w", encoding="utf-8") as file:
        try:
            done = subprocess.run(
                command,
                cwd=log.parent,
                env=settings,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"not done after {TIMEOUT_S} s, see {log}"
    return f"exit code {done.returncode}, see {log}" if done.returncode else ""


def table(runs: Iterable[Run]) -> str:
    """Return the runs as a Markdown table."""
    rows = ["| library | algorithm | views | game | success | chance | credit | steps | CPU s | |", "|---" * 10 + "|"]
    for run in runs:
        if run.outcome is None:
            rows.append(f"| {run.library} | {run.algorithm} | | {run.game} | | | | | | {run.fault} |")
            continue
        one = run.outcome
        rows.append(
            f"| {one.library} {one.version} | {one.algorithm} | {one.wrapper} | {one.game} | {one.success:.2f} | "
            f"{one.chance:.2f} | {one.credit:.2f} | {one.steps} | {one.cpu_s:.0f} | {run.fault or 'ok'} |"
        )
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected libraries and games, and print the table."""
    options = _parser().parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="third_party_")) if options.out is None else options.out
    folder.mkdir(parents=True, exist_ok=True)
    planned, runs = plan(options.only, options.games)
    with ThreadPoolExecutor(options.jobs) as pool:
        for run in pool.map(lambda one: play(one, options.steps, options.seed, folder.resolve()), planned):
            said = run.outcome or f"{run.library} {run.algorithm} on {run.game}: {run.fault}"
            print(said, file=sys.stderr, flush=True)
            runs.append(run)
    print(table(runs))
    return int(any(run.fault for run in runs))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run the algorithms of other libraries in our environments.")
    parser.add_argument("--only", type=names(LIBRARIES), default=list(LIBRARIES), metavar="A,B", help="libraries")
    parser.add_argument("--games", type=names(GAMES), default=list(DEFAULT_GAMES), metavar="A,B", help="of `games`")
    parser.add_argument("--steps", type=int, help="of each run, instead of what its script finds enough")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, each of one thread; default 2")
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the outcomes and logs; default a temporary one")
    return parser


def names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a reader of comma-separated names, each one of those known."""
    allowed = list(known)

    def read_names(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"found {', '.join(unknown)}, wanted some of {', '.join(allowed)}")
        return text.split(",")

    return read_names


if __name__ == "__main__":
    sys.exit(main())
