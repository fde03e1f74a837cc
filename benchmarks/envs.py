"""Turns per CPU-second of the environments, and the time to import them.

    python -m benchmarks.envs [--seconds 1.0] [--rounds 1] [--json FILE]
    python -m benchmarks.envs --against CHECKOUT

The second command compares with another checkout of this project, slice by slice.

All measurements use a constant action and a trivial grader, so they show the cost of the game alone. They use the CPU
time of this process, so that other load has little effect. A turn is the action of one agent and all that a policy's
loop does for it, observations included. Final steps and the reset of a game count too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import marft_envs
from marft_envs import SharedPolicyEnv, Task, TurnParallel
from marft_envs.environment_capabilities import AnyAEC
from marft_envs.tasks.math import MathTasks
from marft_envs.testing import check_environment

_SLICES_OF_A_PROCESS = 8
GAMES_PER_READING = 8  # of the clock
ACTION = "12 + 7 = 19, so the answer is \\boxed{19}. " * 5
_IMPORT = (
    "import time; wall, cpu = time.perf_counter(), time.process_time(); import marft_envs, sys; "
    "print(time.perf_counter() - wall, time.process_time() - cpu, "
    "'torch' in sys.modules, 'sympy' in sys.modules)"
)


@dataclass(frozen=True)
class Wrong:
    """Constant grade: always wrong."""

    correct: bool = False
    extracted: str = "19"


@dataclass(frozen=True)
class Row:
    """Result of one configuration: description, number of turns, CPU time in seconds."""

    what: str
    turns: int
    cpu_s: float

    @property
    def turns_per_cpu_s(self) -> float:
        """Speed in turns per CPU-second."""
        return self.turns / self.cpu_s


def make(team: str, horizon: int, **kwargs: Any) -> AnyAEC:
    """Make a game with a trivial grader."""
    tasks = [Task(str(number), "What is 12 + 7?" * 8, "19", "train") for number in range(100)]
    trivial = MathTasks("bench", tasks, grader=lambda response, gold: Wrong())
    return marft_envs.make(f"marft/math_{team}-v0", data=trivial, horizon=horizon, **kwargs)


def play_aec(env: Any) -> Iterator[int]:
    """Play endlessly through the AEC interface; yield the number of turns of each game."""
    while True:
        env.reset()
        turns = 0
        for _ in env.agent_iter():
            _, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else ACTION)
            turns += not (terminated or truncated)
        yield turns


def play_parallel(env: Any) -> Iterator[int]:
    """Play endlessly through the parallel view; yield the number of turns of each game."""
    while True:
        env.reset()
        actions = dict.fromkeys(env.agents, ACTION)
        infos: dict[str, dict[str, int]] = {}
        while env.agents:
            infos = env.step(actions)[-1]
        yield next(iter(infos.values()))["turn"]  # a step takes the turns of a whole layer


def play_shared(env: Any) -> Iterator[int]:
    """Play endlessly through the Gymnasium view; yield the number of turns of each game."""
    while True:
        env.reset()
        turns, ended = 0, False
        while not ended:
            _, _, terminated, truncated, _ = env.step(ACTION)
            ended = terminated or truncated
            turns += 1
        yield turns


def measure(what: str, games: Iterator[int], seconds: float) -> Row:
    """Play games until `seconds` of CPU time are spent; reading the clock takes a tenth of a game of one turn."""
    turns, spent, start = 0, 0.0, time.process_time()
    while spent < seconds:
        turns += sum(islice(games, GAMES_PER_READING))
        spent = time.process_time() - start
    return Row(what, turns, spent)


def configurations() -> dict[str, Iterator[int]]:
    """Return the endless games of every configuration, each with its caches filled."""
    views: tuple[tuple[str, Callable[[AnyAEC], Iterator[int]]], ...] = (
        ("bare", lambda env: play_aec(env.unwrapped)),
        ("make (AEC)", play_aec),
        ("TurnParallel", lambda env: play_parallel(TurnParallel(env))),
        ("SharedPolicyEnv", lambda env: play_shared(SharedPolicyEnv(env))),
    )
    games = {
        f"{team}, horizon {horizon}, {name}": play(make(team, horizon))
        for team, horizon in (("solo", 1), ("duo", 1), ("trio", 2), ("octet", 1), ("octet", 4))
        for name, play in views
    }
    games["trio, horizon 2, make (AEC), tail:100"] = play_aec(make("trio", 2, communication="tail:100"))
    for turns in games.values():
        next(turns)
    return games


def serve_slices() -> None:
    """Read a configuration and CPU seconds from each line of the input; print its microseconds per turn."""
    games = configurations()
    for line in sys.stdin:
        what, seconds = json.loads(line)
        print(1e6 / measure(what, games[what], seconds).turns_per_cpu_s, flush=True)


def compare(other: Path, slices: int, seconds: float) -> Iterator[tuple[str, float, float, list[float]]]:
    """Time this code and another checkout in alternating slices, on one core.

    The speed of a shared machine drifts within seconds; short slices side by side meet the same speed. Two processes of
    the same code differ by up to 4 %, by where their memory lies, so every eight slices new ones begin.

    Args:
        other: Root of another checkout of this project.
        slices: Slices of each configuration.
        seconds: CPU seconds of a slice.

    Yields:
        Configuration, median microseconds per turn of the other and of this checkout, and the sorted ratios of their
        speeds (above 1: this one is faster).
    """
    times: dict[str, tuple[list[float], list[float]]] = {what: ([], []) for what in configurations()}
    for first in range(0, slices, _SLICES_OF_A_PROCESS):
        with ExitStack() as stack:
            players = [stack.enter_context(_player(root)) for root in (other.resolve(), Path(__file__).parents[1])]
            for number in range(first, min(first + _SLICES_OF_A_PROCESS, slices)):
                for what, taken in times.items():
                    for place in (0, 1) if number % 2 else (1, 0):
                        taken[place].append(_ask(players[place], what, seconds))
    for what, (before, now) in times.items():
        yield what, median(before), median(now), sorted(old / new for old, new in zip(before, now, strict=True))


def _player(root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", __file__, "--serve-slices"]
    if hasattr(os, "sched_setaffinity"):
        command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
    where = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.Popen(command, cwd=root, env=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(player: subprocess.Popen[str], what: str, seconds: float) -> float:
    assert player.stdin is not None
    assert player.stdout is not None
    print(json.dumps([what, seconds]), file=player.stdin, flush=True)
    return float(player.stdout.readline())


def conformance_cost(team: str) -> dict[str, Any]:
    """Run the conformance kit without its slow rules on `marft/math_TEAM-v0`; return its rules and CPU seconds."""
    env_id, start = f"marft/math_{team}-v0", time.process_time()
    report = check_environment(partial(marft_envs.make, env_id))
    return {"id": env_id, "rules": len(report.checks), "passed": report.passed, "cpu_s": time.process_time() - start}


def import_times() -> dict[str, Any]:
    """Return the import time of `marft_envs` in a new process, in seconds, and the heavy modules it loaded."""
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)
    wall, cpu, torch, sympy = done.stdout.split()
    return {"wall_s": float(wall), "cpu_s": float(cpu), "torch": torch == "True", "sympy": sympy == "True"}


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return exit code 1 if a limit is missed, else 0.

    Limits: 10,000 turns per CPU-second for environments from `make`, all rules of the conformance kit kept, 1.5 s for
    the import, and no import of torch.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds for each figure")
    parser.add_argument("--rounds", type=int, default=1, help="measure everything so often, in turns")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with this checkout of the project")
    parser.add_argument("--slices", type=int, default=40, help="with --against: alternating slices of 0.03 CPU seconds")
    parser.add_argument("--serve-slices", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve_slices:
        serve_slices()
        return 0
    if options.against:
        if not (options.against / "marft_envs" / "__init__.py").is_file():
            parser.error(f"--against: {options.against} is no checkout of this project: it has no marft_envs")
        for what, before, now, ratios in compare(options.against, options.slices, 0.03):
            low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
            print(f"{what:40} {before:6.1f} -> {now:6.1f} us a turn, x {median(ratios):.2f} [{low:.2f}, {high:.2f}]")
        return 0
    imported, rows, games = import_times(), [], configurations()
    for _ in range(options.rounds):
        for what, game in games.items():
            rows.append(row := measure(what, game, options.seconds))
            print(f"{row.what:40} {row.turns_per_cpu_s:>10,.0f} turns per CPU-second", flush=True)
    kits = [conformance_cost(team) for team in ("duo", "octet")]
    for kit in kits:
        print(f"marft check --quick {kit['id']}: {kit['rules']} rules in {kit['cpu_s']:.1f} CPU-seconds")
    print(f"import marft_envs: {imported['wall_s']:.2f} s ({imported['cpu_s']:.2f} s CPU)")
    print(f"torch loaded: {imported['torch']}, sympy loaded: {imported['sympy']}")
    if options.json:
        from benchmarks.machine import write_record  # not above: --against runs this file beside older packages

        figures = [asdict(row) | {"turns_per_cpu_s": row.turns_per_cpu_s} for row in rows]
        write_record(options.json, "envs", {"turns": figures, "conformance": kits, "import": imported})
    slow = [row for row in rows if "make (AEC)" in row.what and row.turns_per_cpu_s < 10_000]
    return int(bool(slow or not all(kit["passed"] for kit in kits) or imported["torch"] or imported["wall_s"] > 1.5))


if __name__ == "__main__":
    sys.exit(main())
