"""All libraries on both games: makes their virtual environments, runs the scripts, prints a table.

    python -m baselines.third_party.run [--only torchrl,sb3] [--games cheap_talk,gsm8k] [--steps N] [--out DIR]

Exit code 1 where a script fails, where the reward does not reach the first speaker, or where an algorithm that must
learn the probe does not beat chance by the margin.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from baselines.third_party.environments import LEARN, LIBRARIES, ROOT, cache_folder, prepare
from baselines.third_party.games import GAMES
from baselines.third_party.outcome import Outcome, read

PROBE = "cheap_talk"
CREDIT = 0.5  # of the reward 1: less has not arrived
TIMEOUT_S = 1_800


@dataclass(frozen=True)
class Run:
    """One script on one game, and how it went.

    Attributes:
        library: Of `LIBRARIES`.
        algorithm: Of its script.
        game: Of `GAMES`.
        outcome: None where the script failed.
        fault: Why this run does not pass; empty where it does.
    """

    library: str
    algorithm: str
    game: str
    outcome: Outcome | None
    fault: str = ""


def judge(library: str, outcome: Outcome) -> str:
    """Say what is wrong with an outcome; nothing where it is as it must be."""
    faults = []
    if outcome.credit is not None and not outcome.credit > CREDIT:
        faults.append(f"the reward does not reach the first speaker (credit {outcome.credit:.2f})")
    bound = outcome.chance + LEARN
    if outcome.game == PROBE and outcome.algorithm in LIBRARIES[library].must_learn and outcome.success < bound:
        faults.append(f"success {outcome.success:.2f}, wanted {bound:.2f}")
    return "; ".join(faults)


def play(library: str, games: Sequence[str], steps: int | None, seed: int, folder: Path) -> Iterator[Run]:
    """Run the scripts of a library on some games."""
    python = prepare(LIBRARIES[library].environment, cache_folder() / LIBRARIES[library].environment)
    for script, algorithm in LIBRARIES[library].runs:
        for game in games:
            name = f"{library}_{algorithm}_{game}"
            command = [str(python), "-m", f"baselines.third_party.{script}", "--algorithm", algorithm, "--game", game]
            command += ["--seed", str(seed), "--json", str(folder / f"{name}.json")]
            command += [] if steps is None else ["--steps", str(steps)]
            failed = _execute(command, folder / f"{name}.log")
            if failed:
                yield Run(library, algorithm, game, None, failed)
            else:
                outcome = read(folder / f"{name}.json")
                yield Run(library, algorithm, game, outcome, judge(library, outcome))


def _execute(command: Sequence[str], log: Path) -> str:
    """Run a script; return why it failed, nothing where it did not."""
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
    """Draw the runs as a Markdown table."""
    rows = ["| library | algorithm | views | game | success | chance | credit | steps | seconds | |", "|---" * 10 + "|"]
    for run in runs:
        if run.outcome is None:
            rows.append(f"| {run.library} | {run.algorithm} | | {run.game} | | | | | | {run.fault} |")
            continue
        one = run.outcome
        credit = "unseen" if one.credit is None else f"{one.credit:.2f}"
        rows.append(
            f"| {one.library} {one.version} | {one.algorithm} | {one.wrapper} | {one.game} | {one.success:.2f} | "
            f"{one.chance:.2f} | {credit} | {one.steps} | {one.seconds:.0f} | {run.fault or 'ok'} |"
        )
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and print the table."""
    options = _parser().parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="third_party_")) if options.out is None else options.out
    folder.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    for library in options.only:
        try:
            for run in play(library, options.games, options.steps, options.seed, folder.resolve()):
                print(
                    run.outcome or f"{library} {run.algorithm} on {run.game}: {run.fault}", file=sys.stderr, flush=True
                )
                runs.append(run)
        except subprocess.CalledProcessError as error:
            log = cache_folder() / LIBRARIES[library].environment / "install.log"
            runs.append(Run(library, "", "", None, f"pip failed with exit code {error.returncode}, see {log}"))
    print(table(runs))
    return int(any(run.fault for run in runs))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run the algorithms of other libraries in our environments.")
    parser.add_argument("--only", type=_names(LIBRARIES), default=list(LIBRARIES), metavar="A,B", help="libraries")
    parser.add_argument("--games", type=_names(GAMES), default=list(GAMES), metavar="A,B")
    parser.add_argument("--steps", type=int, help="of each run, instead of what its script finds enough")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, metavar="DIR", help="for the outcomes and logs; default a temporary one")
    return parser


def _names(known: Iterable[str]) -> Callable[[str], list[str]]:
    allowed = list(known)

    def names(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"found {', '.join(unknown)}, wanted some of {', '.join(allowed)}")
        return text.split(",")

    return names


if __name__ == "__main__":
    sys.exit(main())
