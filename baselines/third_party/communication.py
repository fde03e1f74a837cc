"""Measure which libraries learn to communicate: games where the message decides, beside the same games muted.

    python -m baselines.third_party.communication [--only torchrl,sb3] [--worlds tools,cheap_talk] [--seeds N]
        [--steps N] [--jobs N] [--view v1] [--out FILE] [--table]

Each library trains with its MAPPO, or its first algorithm where it has none. Each finished run is one JSON line of the
file. A run that is there is not run again, so that an interrupted command goes on. `--table` only prints the table.
The virtual environments are those of `baselines.third_party.run`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from baselines.results.statistics import grid_mean
from baselines.third_party.games import VIEWS
from baselines.third_party.run import LEARN, Planned, Run, names, plan, play
from baselines.third_party.training_script import TrainingResult
from baselines.third_party.virtual_environments import LIBRARIES, ROOT

WORLDS = ("tools", "cheap_talk")  # of `games.WORLDS`; each has a muted control
STEPS = 8_192
COLUMNS = (
    *("game", "library", "algorithm", "heard", "muted", "chance"),
    *("seeds that communicate", "learned", "steps", "steps/CPU s"),
)
RECORD = ROOT / "docs" / "benchmarks" / "results" / "third_party.jsonl"


class Job(NamedTuple):
    """A run that is still to do, with its seed."""

    planned: Planned
    seed: int


def algorithm_of(library: str) -> str:
    """Return the algorithm that stands for a library: its MAPPO, else the first in the list."""
    offered = [algorithm for _, algorithm in LIBRARIES[library].runs]
    return "mappo" if "mappo" in offered else offered[0]


def game_names(world: str, view: str) -> tuple[str, str]:
    """Return the names of a game and of its muted control."""
    return f"{world}-{view}", f"{world}_muted-{view}"


def read_record(file: Path) -> list[TrainingResult]:
    """Read the runs of a record; a file that does not exist yet holds none.

    Raises:
        ValueError: A line is no outcome of a run.
    """
    results = []
    for number, line in enumerate(file.read_text("utf-8").splitlines() if file.is_file() else (), start=1):
        try:
            results.append(TrainingResult(**json.loads(line)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file}:{number}: {error}; remove the line, and its run is done again") from error
    return results


def open_jobs(planned: Iterable[Planned], done: Iterable[TrainingResult], seeds: int) -> list[Job]:
    """Return the runs that are not in the record, seed by seed, so that an early stop leaves all rows alike."""
    there = {(one.library, one.algorithm, one.game, one.seed) for one in done}
    wanted = [one for one in planned if one.algorithm == algorithm_of(one.library)]
    jobs = [Job(one, seed) for seed in range(seeds) for one in wanted]
    return [
        job
        for job in jobs
        if (LIBRARIES[job.planned.library].distribution, job.planned.algorithm, job.planned.game, job.seed) not in there
    ]


def table(results: Sequence[TrainingResult], view: str, worlds: Sequence[str] = WORLDS) -> str:
    """Return a Markdown table: a row per game and library, with the muted control beside it.

    A seed communicates if its success is `LEARN` above chance and above every muted seed. A library learned to
    communicate if all its seeds do and the intervals over seeds do not touch. Where they do, it is not shown.
    """
    head = (
        "game | library | algorithm | heard | muted | chance | seeds that communicate | learned | steps | steps/CPU s"
    )
    rows = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    for world in worlds:
        games = game_names(world, view)
        for library in LIBRARIES:
            heard, muted = ([one for one in results if _is_of(one, library, game)] for game in games)
            if heard and muted:
                rows.append(_row(heard, muted))
    return "\n".join(rows)


def _is_of(result: TrainingResult, library: str, game: str) -> bool:
    return (result.library, result.algorithm, result.game) == (
        LIBRARIES[library].distribution,
        algorithm_of(library),
        game,
    )


def _row(heard: Sequence[TrainingResult], muted: Sequence[TrainingResult]) -> str:
    one, bound = heard[0], max(heard[0].chance + LEARN, *(each.success for each in muted))
    told = sum(each.success > bound for each in heard)
    with_words, without = (grid_mean([[each.success] for each in runs]) for runs in (heard, muted))
    apart = len(heard) > 1 and len(muted) > 1 and with_words.low > without.high
    verdict = "yes" if apart else "not shown"
    learned = verdict if told == len(heard) else ("in some seeds" if told else "no")
    speed = fmean(each.steps / each.cpu_s for each in (*heard, *muted))
    cells = [
        *(one.game, f"{one.library} {one.version}", one.algorithm),
        *(f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]" for found in (with_words, without)),
        *(f"{one.chance:.2f}", f"{told} of {len(heard)}", learned, str(one.steps), f"{speed:.0f}"),
    ]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the runs that the record lacks, and print the table; the exit code is 1 if a run failed."""
    options = _parser().parse_args(arguments)
    done = read_record(options.out)
    failed = [] if options.table else _train(options, done)
    print(table(read_record(options.out), options.view, options.worlds))
    for run in failed:
        print(f"{run.library} {run.algorithm} {run.game}: {run.fault}", file=sys.stderr)
    return int(bool(failed))


def _train(options: argparse.Namespace, done: Sequence[TrainingResult]) -> list[Run]:
    """Do the runs that are missing, each a line of the record once it is done; return those that failed."""
    games = [game for world in options.worlds for game in game_names(world, options.view)]
    planned, failed = plan(options.only, games)
    planned.sort(key=lambda one: games.index(one.game) // 2)
    logs = Path(tempfile.mkdtemp(prefix="third_party_"))

    def train(job: Job) -> Run:
        folder = logs / f"seed{job.seed}"
        folder.mkdir(exist_ok=True)
        return play(job.planned, options.steps, job.seed, folder)

    with ThreadPoolExecutor(options.jobs) as pool, options.out.open("a", encoding="utf-8") as record:
        for ended in as_completed([pool.submit(train, job) for job in open_jobs(planned, done, options.seeds)]):
            run = ended.result()
            if run.outcome is None:
                failed.append(run)
                continue
            record.write(json.dumps(asdict(run.outcome)) + "\n")
            record.flush()
            print(run.outcome, file=sys.stderr, flush=True)
    return failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure which libraries learn to communicate in our games.")
    parser.add_argument("--only", type=names(LIBRARIES), default=list(LIBRARIES), metavar="A,B", help="libraries")
    parser.add_argument("--worlds", type=names(WORLDS), default=list(WORLDS), metavar="A,B")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N - 1; default 3")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of each run, as the library counts; default {STEPS}")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, each of one thread; default 2")
    parser.add_argument("--view", choices=list(VIEWS), default="v1", help="version of the view; default v1")
    parser.add_argument("--out", type=Path, default=RECORD, metavar="FILE", help="the record; default the one in docs")
    parser.add_argument("--table", action="store_true", help="train nothing, print the table of the record")
    return parser


if __name__ == "__main__":
    sys.exit(main())
