"""Turns per CPU-second of the environments, and the time to import them.

    python -m baselines.benchmarks.envs [--seconds 1.0] [--json]

All measurements use a constant action and a trivial grader, so they show the cost of the game alone. They use the CPU
time of this process, so that other load has little effect. A turn is one iteration of a policy's loop. It includes the
observation (`last()` or the return value of the view) and the action. Final steps and the reset of a game count too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from marft_envs import FlexMG, SharedPolicyEnv, Task, Team, TurnParallel
from marft_envs.tasks.math import MathTasks

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


def make_bare(team: str, horizon: int, **kwargs: Any) -> FlexMG:
    """Make an unwrapped game with a trivial grader."""
    tasks = [Task(str(number), "What is 12 + 7?" * 8, "19", "train") for number in range(100)]
    trivial = MathTasks("bench", tasks, grader=lambda response, gold: Wrong())
    return FlexMG(trivial, Team.preset(team), horizon=horizon, **kwargs)


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
        actions, turns = dict.fromkeys(env.agents, ACTION), 0
        while env.agents:
            env.step(actions)
            turns += 1
        yield turns


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
    """Play games until `seconds` of CPU time are spent, after one warm-up game."""
    next(games)  # warm-up: fills the caches
    turns, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        turns += next(games)
    return Row(what, turns, spent)


def _rows(seconds: float) -> Iterator[Row]:
    def wrapped(env: FlexMG) -> Any:
        return OrderEnforcingWrapper(env)

    views: tuple[tuple[str, Callable[[FlexMG], Iterator[int]]], ...] = (
        ("bare", play_aec),
        ("make (AEC)", lambda env: play_aec(wrapped(env))),
        ("TurnParallel", lambda env: play_parallel(TurnParallel(wrapped(env)))),
        ("SharedPolicyEnv", lambda env: play_shared(SharedPolicyEnv(wrapped(env)))),
    )
    for team, horizon in (("solo", 1), ("duo", 1), ("trio", 2), ("octet", 1), ("octet", 4)):
        for name, play in views:
            yield measure(f"{team}, horizon {horizon}, {name}", play(make_bare(team, horizon)), seconds)
    tailed = make_bare("trio", 2, communication="tail:100")
    yield measure("trio, horizon 2, make (AEC), tail:100", play_aec(wrapped(tailed)), seconds)


def import_times() -> dict[str, Any]:
    """Return the import time of `marft_envs` in a new process, in seconds, and the heavy modules it loaded."""
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)
    wall, cpu, torch, sympy = done.stdout.split()
    return {"wall_s": float(wall), "cpu_s": float(cpu), "torch": torch == "True", "sympy": sympy == "True"}


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return exit code 1 if a limit is missed, else 0.

    Limits: 10,000 turns per CPU-second for environments from `make`, 1.5 s for the import, and no import of torch.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds for each figure")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    imported, rows = import_times(), []
    for row in _rows(options.seconds):
        rows.append(row)
        if not options.json:
            print(f"{row.what:40} {row.turns_per_cpu_s:>10,.0f} turns per CPU-second", flush=True)
    if options.json:
        figures = [asdict(row) | {"turns_per_cpu_s": row.turns_per_cpu_s} for row in rows]
        print(json.dumps({"turns": figures, "import": imported}, indent=2))
    else:
        print(f"import marft_envs: {imported['wall_s']:.2f} s ({imported['cpu_s']:.2f} s CPU)")
        print(f"torch loaded: {imported['torch']}, sympy loaded: {imported['sympy']}")
    slow = [row for row in rows if "make (AEC)" in row.what and row.turns_per_cpu_s < 10_000]
    return int(bool(slow or imported["torch"] or imported["wall_s"] > 1.5))


if __name__ == "__main__":
    sys.exit(main())
