"""Speed and difficulty of every world: turns per CPU-second, reset time, success of oracle, random actions and a model.

    python -m benchmarks.worlds [--ids ID,...] [--seconds 1.0] [--tasks 20] [--json FILE]
    python -m benchmarks.worlds --model smollm2-135m [--model-tasks 8] [--model-rounds 8] [--limit-s 180]
    python -m benchmarks.worlds --table FILE

The first two measure a representative id of each world, on tasks spread evenly over its split `test`. The third prints
the table of a record. Speeds and resets are CPU time of this process and of the helper processes of a world. A speed is
that of the fastest pass over the tasks. All is played with the evaluation of `marft eval`; nothing is trained. Ctrl-C
ends the games of the model; the figures until then are written. With --ids the record in --json keeps its other rows,
each with the commit that it was measured at.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
from pettingzoo.utils.wrappers import BaseWrapper

from baselines.cli.evaluate import WITHOUT_MODEL
from baselines.experiment.environments import factory, scenarios
from baselines.experiment.gold_answers import ScriptedView
from benchmarks.envs import ACTION
from benchmarks.machine import write_record
from marft_agents.policies.policy import Policy, TimedPolicy
from marft_agents.runs.evaluation import Evaluation, evaluate
from marft_agents.trajectory import Trajectory, score
from marft_envs.environment_capabilities import dependency_game

_T = TypeVar("_T")
GAMES = 4  # of a language model, side by side; more would keep more prompts in memory
SHORT = {"listing": "signature"}  # a shorter listing of tools, for prompts that the model can hold
PACKAGES = {  # extra of marft -> licence and installed size of the package
    "tau2": ("Apache-2.0", "43 MB"),
    "reasoning": ("Apache-2.0", "25 MB"),
    "plancraft": ("MIT", "11 MB"),
    "textworld": ("Apache-2.0", "1.8 MB; Java 180 MB"),
    "agentdojo": ("MIT", "19 MB"),
}
LEFT_OUT = {"marft/codeforces_duo-v1": "its turns wait for a sandboxed judge, which has a benchmark of its own"}


@dataclass(frozen=True)
class World:
    """Row of the table.

    Attributes:
        env: Id of the environment.
        data: Its keyword `data`; None is the default.
        extra: Extra of marft that its package needs; empty if it needs none.
        shown: Keywords that make the prompts of the model shorter.
        window: Context window of the model, in tokens.
    """

    env: str
    data: str | None = None
    extra: str = ""
    shown: Mapping[str, str] = field(default_factory=dict)
    window: int = 2048

    def factory(self, **keywords: Any) -> Callable[[], Any]:
        """Return a function that makes games of the test split."""
        return factory(self.env, {"split": "test", **({"data": self.data} if self.data else {}), **keywords})


WORLDS = (
    *(World(f"marft/{task}_duo-v0") for task in ("math", "gsm8k", "cmath", "aime", "bfcl", "recall")),
    *(World("marft/tools_duo-v0", f"embedded:{name}") for name in ("lookup", "shop", "desk", "travel")),
    *(
        World(f"marft/tau2_{domain}_duo-v0", extra="tau2", shown={"policy": "none", **SHORT}, window=4096)
        for domain in ("telecom", "retail", "airline")
    ),
    *(World(f"marft/reasoning_{name}_duo-v0", extra="reasoning") for name in ("chain_sum", "countdown")),
    *(World(f"marft/plancraft_{team}-v0", extra="plancraft") for team in ("solo", "duo")),
    *(World(f"marft/textworld_{game}_duo-v0", extra="textworld") for game in ("cookingworld", "coin", "sorting")),
    *(
        World(f"marft/agentdojo_{suite}_duo-v0", extra="agentdojo", shown=SHORT, window=4096)
        for suite in ("workspace", "banking")
    ),
)


class RandomValidView(BaseWrapper[str, Any, Any]):
    """View in which the observation of each agent is a random one of its possible actions, as `ScriptedView` shows.

    Args:
        env: AEC environment whose tasks have `valid_actions(session, agent)`.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, "ready_agents": False}
        self._generator = np.random.default_rng(0)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; the same seed gives the same choices."""
        self._generator = np.random.default_rng(seed)
        super().reset(seed, options)

    def observe(self, agent: str) -> Any:
        """Return a possible action; the observation is made too, so that its time counts."""
        self.env.observe(agent)
        game: Any = dependency_game(self.env)
        valid = game.tasks.valid_actions(game.session, agent)
        return valid[self._generator.integers(len(valid))] if valid else ""


class LimitedPolicy(TimedPolicy):
    """Policy that raises TimeoutError before its first call after `limit_s` CPU seconds of this process."""

    def __init__(self, policy: Policy, limit_s: float) -> None:
        super().__init__(policy)
        self._end = time.process_time() + limit_s

    def timed(self, function: Callable[..., _T], *args: Any) -> _T:
        """Call a function, see `TimedPolicy`."""
        if time.process_time() > self._end:
            raise TimeoutError
        return super().timed(function, *args)


def helper_clocks() -> list[int]:
    """Return the CPU clocks of the child processes of this one, such as a world's Java process (Linux; else none)."""
    children = [file.read_text(encoding="ascii").split() for file in Path("/proc/self/task").glob("*/children")]
    return [(~int(pid) << 3) | 2 for some in children for pid in some]  # as clock_getcpuclockid(3) makes them


def cpu_seconds(helpers: Collection[int]) -> float:
    """Return the CPU time of this process and of helper processes so far, in seconds."""
    return time.process_time() + sum(map(time.clock_gettime, helpers))


def play(env: Any, tasks: Sequence[dict[str, Any]], say: Callable[[Any, int, int], str]) -> Iterator[int]:
    """Play the tasks endlessly; `say` maps observation, number of the task and turn to an action. Yield turns."""
    for number, options in cycle(enumerate(tasks)):
        env.reset(seed=number, options=options)
        turns = 0
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else say(observation, number, turns))
            turns += not (terminated or truncated)
        yield turns


def turns_per_cpu_s(games: Iterator[int], count: int, seconds: float) -> float:
    """Play passes over `count` games for so many CPU seconds; return the speed of the fastest.

    The first pass fills the caches of the world. Those of the processor are cold after each wait for other processes,
    which can make a pass several times slower.
    """
    sum(islice(games, count))
    helpers, fastest = helper_clocks(), 0.0
    now = start = cpu_seconds(helpers)
    while now < start + seconds:
        began, turns = now, sum(islice(games, count))
        now = cpu_seconds(helpers)
        fastest = max(fastest, turns / (now - began))
    return fastest


def reset_ms(env: Any, tasks: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return median and largest CPU time of the first reset to each task, in ms; that to the first starts the world."""
    env.reset(seed=0, options=tasks[0])
    helpers, taken = helper_clocks(), list[float]()
    for options in tasks[1:] or tasks:
        start = cpu_seconds(helpers)
        env.reset(seed=0, options=options)
        taken.append(1000 * (cpu_seconds(helpers) - start))
    return {"median": median(taken), "largest": max(taken)}


def measure(world: World, count: int, seconds: float) -> dict[str, Any]:
    """Return speed, reset time, and success of the oracle and of random actions on `count` tasks."""
    make = world.factory()
    env = make()
    tasks = scenarios(env, count)
    resets = reset_ms(env, tasks)
    oracle = evaluate(partial(ScriptedView.of, make), WITHOUT_MODEL["scripted"](), tasks)
    solutions = [[turn.action.text for turn in played.turns] for played in oracle.trajectories]
    game: Any = dependency_game(env)
    chooses = hasattr(game.tasks, "valid_actions")
    if chooses:
        games = play(RandomValidView(env), tasks, lambda seen, *_: str(seen))
        random = evaluate(lambda: RandomValidView(make()), WITHOUT_MODEL["scripted"](), tasks)
    else:
        games = play(env, tasks, lambda *_: ACTION)
        random = evaluate(make, WITHOUT_MODEL["random"](), tasks)
    speed = turns_per_cpu_s(games, len(tasks), seconds)
    games = play(env, tasks, lambda _, number, turn: solutions[number][turn])
    return {
        "tasks": len(tasks),
        "reset_ms": resets,
        "random_actions": "valid" if chooses else "text",
        "turns_per_cpu_s": {
            "random_valid" if chooses else "constant_text": speed,
            "solution": turns_per_cpu_s(games, len(tasks), seconds),
        },
        "oracle": success(oracle),
        "oracle_rounds": max(turn.round + 1 for played in oracle.trajectories for turn in played.turns),
        "random": success(random),
    }


def measured(world: World, count: int, seconds: float) -> dict[str, Any]:
    """Return the row of a world without a model, and print it; a world whose package is missing says so."""
    row: dict[str, Any] = {"id": world.env, "data": world.data, "extra": world.extra}
    try:
        row |= measure(world, count, seconds)
    except ImportError as error:
        row["missing"] = str(error)
    print(" | ".join(_cells(row)), file=sys.stderr, flush=True)
    return row


def success(result: Evaluation) -> dict[str, float]:
    """Return the share of solved tasks, and the number of episodes that failed (and are not scored)."""
    return {"success": result.accuracy.mean, "failed": result.failures}


def measure_model(world: World, model: str, count: int, rounds: int, limit_s: float) -> dict[str, Any]:
    """Return the success of an untrained model, greedily, in at most `rounds` rounds and `limit_s` CPU seconds.

    After the limit, the episodes that ended until then count. A world is not played if it needs more rounds, or if its
    first prompt is too long.
    """
    from baselines.experiment.trained_team import TeamSettings
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.context_window import ContextSettings

    game: Any = dependency_game(world.factory()())
    context = ContextSettings(world.window)
    settings = TeamSettings({"*": model}, SamplingParams(temperature=0), context, dtype="float32")
    try:
        make = world.factory(horizon=min(rounds, game.settings["horizon"]), **world.shown)
        settings.check(make())
    except ValueError as error:
        return {"not_played": str(error)}
    tasks, ended, stopped = scenarios(game, count), list[Trajectory](), False
    policy, start = settings.load(game.possible_agents), time.process_time()
    try:
        evaluate(make, LimitedPolicy(policy, limit_s), tasks, num_envs=GAMES, on_end=ended.append, patience=math.inf)
    except TimeoutError:
        stopped = True
    finally:
        policy.close()
    scored = [score(played) for played in ended if played.failure is None]
    shortened = any(turn.action.shortened for played in ended for turn in played.turns)
    found = {"tasks": len(tasks), "ended": len(scored), "solved": int(sum(scored)), "failed": len(ended) - len(scored)}
    return {**found, "stopped": stopped, "cpu_s": round(time.process_time() - start), "prompts_shortened": shortened}


def table(record: Mapping[str, Any]) -> str:
    """Return a record as a table in Markdown."""
    model = record["model"]
    titles = ["world", "licence", "installed", "turns per CPU-second", "reset, ms", "oracle", "random"]
    lines = ["| " + " | ".join([*titles, *([model] if model else [])]) + " |"]
    lines.append("|---|---|---|" + "---:|" * (len(titles) - 3 + bool(model)))
    for row in record["worlds"]:
        lines.append("| " + " | ".join([*_cells(row), *([_model_cell(row.get("model"))] if model else [])]) + " |")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> list[str]:
    name = row["id"].removeprefix("marft/").rpartition("-")[0] + (f", `{row['data']}`" if row["data"] else "")
    cells = [name, *PACKAGES.get(row["extra"], ("-", "-"))]
    if "missing" in row:
        return [*cells, f"not installed: `marft[{row['extra']}]`" if row["extra"] else "not installed", "-", "-", "-"]
    speeds = " / ".join(f"{float(f'{speed:.2g}'):,.0f}" for speed in row["turns_per_cpu_s"].values())
    resets = " / ".join(f"{float(f'{value:.2g}'):g}" for value in row["reset_ms"].values())
    random = f"{row['random']['success']:.2f}" + ("*" if row["random_actions"] == "valid" else "")
    return [*cells, speeds, resets, f"{row['oracle']['success']:.2f}", random]


def _model_cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    if "not_played" in found:
        return "not played"
    failed = f", {found['failed']} failed" if found["failed"] else ""
    return f"{found['solved']} of {found['ended']}{failed}" + (", stopped" if found["stopped"] else "")


def chosen(ids: str | None) -> list[World]:
    """Return the worlds of some ids, separated by commas; one that is not in the table has its defaults."""
    if ids is None:
        return list(WORLDS)
    found = [[world for world in WORLDS if world.env == name] or [World(name)] for name in ids.split(",")]
    return [world for some in found for world in some]


def merged(record: Mapping[str, Any], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of an earlier record, those that were measured again replaced, and new ones at the end."""
    new = {(row["id"], row["data"]): row for row in rows}
    kept = [(row["id"], row["data"], {"commit": record["commit"], **row}) for row in record["worlds"]]
    return [new.pop((name, data), row) for name, data, row in kept] + list(new.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the worlds, print a line for each, and the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worlds", description=__doc__)
    parser.add_argument("--ids", metavar="ID,...", help="only these (default: one or two of each world)")
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds of each speed (default: 1)")
    parser.add_argument("--tasks", type=int, default=20, help="tasks of resets, oracle and random (default: 20)")
    parser.add_argument("--model", metavar="NAME", help="also play this model, untrained, in float32")
    parser.add_argument("--model-tasks", type=int, default=8, help="tasks of the model (default: 8)")
    parser.add_argument("--model-rounds", type=int, default=8, help="most rounds of the model's games (default: 8)")
    parser.add_argument(
        "--limit-s", type=float, default=180.0, help="CPU seconds of the model in a world (default: 180)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only print the table of this record")
    given = parser.parse_args(arguments)
    if given.table is not None:
        print(table(json.loads(given.table.read_text(encoding="utf-8"))))
        return 0
    played = chosen(given.ids)
    rows = [measured(world, given.tasks, given.seconds) for world in played]
    try:
        for world, row in zip(played, rows, strict=True):
            if given.model and "missing" not in row:
                row["model"] = measure_model(world, given.model, given.model_tasks, given.model_rounds, given.limit_s)
                print(row["id"], row["data"] or "", _model_cell(row["model"]), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: the worlds after this one are not played by the model", file=sys.stderr)
    if given.ids is not None and given.json is not None and given.json.is_file():
        rows = merged(json.loads(given.json.read_text(encoding="utf-8")), rows)
    record = {"model": given.model, "worlds": rows, "left_out": LEFT_OUT}
    print(table(record))
    if given.json is not None:
        write_record(given.json, "worlds", record)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
