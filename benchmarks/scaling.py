"""Simulated throughput of training with many rollout workers, from measured times of playing and learning.

    python -m benchmarks.scaling measure --out times.json [--groups 16] [--model smollm2-135m]
    python -m benchmarks.scaling simulate times.json --out scaling.json --plot scaling.png
    python -m benchmarks.scaling plan scaling.json [--workers 1000] [--nodes 125]

`measure` plays prompt groups of the quickstart's duo one by one and runs updates on them, with one thread.
`simulate` runs the suite's own scheduler of rollouts (`WorkerRollouts`) in simulated time, on workers and a learner
that take the measured times. Each update trains on 256 prompt groups. A learner of N ranks is taken to be N times as
fast, without the cost of reducing gradients.
`plan` computes from the same file what a number of workers needs: learners, prompt groups and bytes.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from baselines.experiment.source_commit import source_commit
from marft_agents.rollouts.prompt_groups import GroupSettings, PromptGroup
from marft_agents.rollouts.rollout_settings import RolloutSettings
from marft_agents.rollouts.rollout_workers import Played, WorkerRollouts
from marft_agents.trajectory import Trajectory

GROUPS = 256  # prompt groups of an update
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
STALENESS = (0, 1, 2, 4)
RANKS = (1, 8, 64)
UPDATES = 8
WARMUP = 3  # updates before the clock starts
MODELS = {  # layers, width, width of keys and values; from the published configurations
    "SmolLM2-135M": (30, 576, 192),
    "Qwen2.5-7B": (28, 3584, 512),
    "Llama-3.1-8B": (32, 4096, 1024),
    "Llama-3.1-70B": (80, 8192, 1024),
}
LORA_RANKS = (8, 32)


@dataclass(frozen=True)
class Times:
    """Measured times and sizes.

    Attributes:
        play_s: CPU seconds that a worker took to play each prompt group.
        learn_s: CPU seconds of an update for each prompt group in it.
        adapter_bytes: Size of the team's adapters, as they are published.
        group_bytes: Mean size of a prompt group's records, as a worker returns them.
        about: Model, team, episodes of a prompt group, commit.
    """

    play_s: Sequence[float]
    learn_s: float
    adapter_bytes: int
    group_bytes: float
    about: Mapping[str, Any]


def measure(model: str, groups: int, updates: int) -> Times:
    """Play prompt groups one by one, and run updates on them."""
    import torch

    from baselines.experiment.environments import factory
    from baselines.quickstart import experiment
    from marft_agents.policies.adapter_files import pack_adapters
    from marft_agents.rollouts.rollout_source import GroupPlayer
    from marft_agents.runs.trainer import group_settings

    torch.set_num_threads(1)
    plan = experiment(0, model=model)
    make_env = factory(plan.env, plan.keywords)
    _, team, learner = plan.build(torch.device("cpu"), make_env)
    player = GroupPlayer(make_env, team, team, group_settings(plan.schedule, learner.settings))
    play_s, learn_s, played = list[float](), list[float](), list[PromptGroup]()
    for number in range(groups):
        started = time.process_time()
        played += player.play([number])
        play_s.append(time.process_time() - started)
    for _ in range(updates):
        started = time.process_time()
        learner.update([trajectory for group in played for trajectory in group.trained])
        learn_s.append((time.process_time() - started) / groups)
    return Times(
        play_s,
        mean(learn_s),
        sum(map(len, pack_adapters(team).values())),
        mean(len(pickle.dumps(group)) for group in played),
        {
            "model": model,
            "env": plan.env,
            "episodes_per_group": plan.schedule.group_size,
            "groups": groups,
            "commit": source_commit(),
        },
    )


# ------------------------------------------------------------------ simulation

EPISODE = Trajectory(seed=0, group=0, turns=(), terminated=True, truncated=False)


class TimedWorkers:
    """Workers that only tell how long playing takes; implements `rollout_workers.Workers`.

    Args:
        count: Number of workers.
        play_s: Measured seconds of a prompt group; the n-th group takes the n-th of them, in a cycle.
    """

    def __init__(self, count: int, play_s: Sequence[float]) -> None:
        self.count, self._play_s = count, play_s
        self._version = 0

    def publish(self, version: int) -> None:
        """Take the version of all later calls of `play`."""
        self._version = version

    def play(self, numbers: Sequence[int]) -> Played:
        """Return prompt groups without turns, and their time."""
        seconds = sum(self._play_s[number % len(self._play_s)] for number in numbers)
        return Played(self._version, [PromptGroup((EPISODE,), (EPISODE,), (), (False,))] * len(numbers), seconds)


Play = Callable[[Sequence[int]], Played]


class SimulatedThreads:
    """Executor in simulated time: a call of `play` ends after the seconds that it returns.

    Args:
        count: Number of calls at a time; further ones wait for their turn.

    Attributes:
        now: Simulated seconds so far.
    """

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self._idle = count
        self._waiting: deque[tuple[Future[Played], Play, Sequence[int]]] = deque()
        self._ends: list[tuple[float, int, Future[Played], Played]] = []  # a heap
        self._started = itertools.count()

    def submit(self, play: Play, numbers: Sequence[int]) -> Future[Played]:
        """Start a call as soon as a thread is idle."""
        future: Future[Played] = Future()
        self._waiting.append((future, play, numbers))
        self._start()
        return future

    def map(self, play: Play, parts: Iterable[Sequence[int]]) -> Iterator[Played]:
        """Yield the results of calls in order."""
        for future in [self.submit(play, part) for part in parts]:
            while not future.done():
                self.step()
            yield future.result()

    def step(self) -> Future[Played]:
        """Advance to the end of the next call."""
        self.now, _, future, played = heapq.heappop(self._ends)
        future.set_result(played)
        self._idle += 1
        self._start()
        return future

    def sleep(self, seconds: float) -> None:
        """Advance by a time, in which calls end and start."""
        until = self.now + seconds
        while self._ends and self._ends[0][0] <= until:
            self.step()
        self.now = until

    def _start(self) -> None:
        while self._idle and self._waiting:
            future, play, numbers = self._waiting.popleft()
            self._idle -= 1
            played = play(numbers)
            heapq.heappush(self._ends, (self.now + played.seconds, next(self._started), future, played))


class SimulatedRollouts(WorkerRollouts):
    """The scheduler of rollouts in simulated time; arguments as for `WorkerRollouts`."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.clock = SimulatedThreads(self.workers.count)
        self._threads: Any = self.clock

    def _finished(self, timeout: float | None) -> Iterable[Future[Played]]:
        return [self.clock.step()] if timeout is None else [future for future in self._flying if future.done()]


@dataclass(frozen=True)
class Point:
    """Simulated run.

    Attributes:
        workers: Number of rollout workers.
        max_staleness: Updates that workers may play ahead.
        ranks: Speed of the learner, as a multiple of the measured one.
        groups_per_s: Prompt groups trained on per simulated second.
        learner_busy: Share of the time that the learner works.
        staleness: Mean versions between playing and training.
        dropped: Share of the played episodes that were dropped as too old.
    """

    workers: int
    max_staleness: int
    ranks: int
    groups_per_s: float
    learner_busy: float
    staleness: float
    dropped: float


def simulate(times: Times, workers: int, max_staleness: int, ranks: int) -> Point:
    """Run some updates; return their throughput."""
    learn_s = times.learn_s * GROUPS / ranks
    settings = RolloutSettings("local", rollout_workers=workers, max_staleness=max_staleness, rollout_chunk=1)
    grouping = GroupSettings(seed=0, groups=GROUPS, group_size=1)
    source = SimulatedRollouts(
        TimedWorkers(workers, times.play_s), grouping, settings, max_updates=WARMUP + UPDATES + max_staleness
    )
    started, ages, dropped = 0.0, list[float](), 0.0
    for update in range(WARMUP + UPDATES):
        if update == WARMUP:
            started, ages, dropped = source.clock.now, [], 0.0
        found = source.rollout(update)
        ages.append(found.metrics.get("team/staleness_mean", 0.0))
        dropped += found.metrics.get("team/episodes_dropped", 0.0)
        source.clock.sleep(learn_s)
    seconds = source.clock.now - started
    trained = UPDATES * GROUPS
    return Point(
        workers,
        max_staleness,
        ranks,
        groups_per_s=trained / seconds,
        learner_busy=UPDATES * learn_s / seconds,
        staleness=mean(ages),
        dropped=dropped / (trained + dropped),
    )


def simulate_all(times: Times) -> Iterator[Point]:
    """Yield the points of the plot, and print a line for each."""
    for ranks, staleness, workers in itertools.product(RANKS, STALENESS, WORKERS):
        point = simulate(times, workers, staleness, ranks)
        print(" ".join(f"{name}={value:.4g}" for name, value in asdict(point).items()), flush=True)
        yield point


def draw(points: Sequence[Point], times: Times, path: Path) -> Path:
    """Plot the throughput over the number of workers, with a panel for each speed of the learner."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(RANKS), 4), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    for axes, ranks in zip(figure.subplots(1, len(RANKS), sharey=True), RANKS, strict=True):
        ideal = [workers / mean(times.play_s) for workers in WORKERS]
        axes.plot(WORKERS, ideal, color="grey", linestyle=":", label="workers alone")
        axes.axhline(ranks / times.learn_s, color="grey", linestyle="--", label="learner alone")
        for place, staleness in enumerate(STALENESS):
            shown = [point for point in points if (point.ranks, point.max_staleness) == (ranks, staleness)]
            axes.plot(
                [point.workers for point in shown],
                [point.groups_per_s for point in shown],
                "o-",
                color=f"C{place}",
                label=f"staleness at most {staleness}",
            )
        axes.set(xscale="log", yscale="log", xlabel="rollout workers", title=f"learner x {ranks}")
        axes.set_xticks(WORKERS, map(str, WORKERS))
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("prompt groups per second")
    figure.axes[0].legend(fontsize=8)
    with path.open("wb") as stream:
        canvas.print_png(stream)
    return path


def table(points: Sequence[Point], workers: Sequence[int] = (1, 8, 64, 256)) -> str:
    """Return the points as a table in Markdown: throughput, and the share of the time that the learner works."""
    shown_counts = " | ".join("1 worker" if count == 1 else f"{count} workers" for count in workers)
    lines = [
        f"| learners | staleness | {shown_counts} |",
        f"|---|---|{'---|' * len(workers)}",
    ]
    for ranks, staleness in itertools.product(RANKS, STALENESS):
        shown = {p.workers: p for p in points if (p.ranks, p.max_staleness) == (ranks, staleness)}
        cells = [f"{shown[n].groups_per_s:.3g} ({shown[n].learner_busy:.0%})" for n in workers]
        lines.append(f"| {ranks} | {staleness} | {' | '.join(cells)} |")
    return "\n".join(lines)


# ------------------------------------------------------------------ plan


def lora_bytes(model: str, rank: int) -> int:
    """Return the bytes of a float32 LoRA adapter on the query and value projections of a model of `MODELS`."""
    layers, width, narrow = MODELS[model]
    return 4 * layers * rank * ((width + width) + (width + narrow))


def plan(times: Times, workers: int, nodes: int, agents: int, max_staleness: int) -> str:
    """Return as Markdown what a number of workers needs, by the measured times.

    Args:
        times: Measured times of one worker and one learner.
        workers: Number of rollout workers, W.
        nodes: Number of machines that they are on.
        agents: Number of adapters that are trained.
        max_staleness: Updates that workers may play ahead, S.
    """
    play_s, learn_s = mean(times.play_s), times.learn_s
    groups = -(-2 * workers // (1 + max_staleness))
    update_s = groups * play_s / workers
    lines = [
        "| quantity | formula | value |",
        "|---|---|---|",
        f"| prompt groups of an update | G >= W / (1 + S), here twice that | {groups:,} |",
        f"| time of an update | G t_play / W | {update_s:.3g} s |",
        f"| learners that keep up | W t_learn / t_play | {-(-workers * learn_s // play_s):,.0f} |",
        f"| workers that one learner keeps busy | t_play / t_learn | {play_s / learn_s:.3g} |",
        f"| records to rank 0, per update | G b_group | {_size(groups * times.group_bytes)} |",
        f"| records to rank 0, per second | W b_group / t_play | {_size(workers * times.group_bytes / play_s)} |",
        "",
        f"| model | LoRA rank | one adapter | {agents} adapters, to each node | out of rank 0's node, at most |",
        "|---|---|---|---|---|",
    ]
    for model in MODELS:
        for rank in LORA_RANKS:
            one = lora_bytes(model, rank)
            sizes = " | ".join(_size(size) for size in (one, agents * one, nodes * agents * one))
            lines.append(f"| {model} | {rank} | {sizes} |")
    return "\n".join(lines)


def _size(count: float) -> str:
    """Return a number of bytes as text.

    Examples:
        >>> _size(1_843_200), _size(512)
        ('1.84 MB', '0.512 kB')
    """
    unit = "GB" if count >= 1e9 else "MB" if count >= 1e6 else "kB"
    return f"{count / {'GB': 1e9, 'MB': 1e6, 'kB': 1e3}[unit]:.3g} {unit}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    measured = actions.add_parser("measure", help="measure the times of one worker and of the learner")
    measured.add_argument("--model", default="smollm2-135m")
    measured.add_argument("--groups", type=int, default=16, help="prompt groups to play, one by one")
    measured.add_argument("--updates", type=int, default=2, help="updates on all of them")
    measured.add_argument("--out", type=Path, required=True)
    simulated = actions.add_parser("simulate", help="simulate 1 to 256 workers")
    simulated.add_argument("times", type=Path)
    simulated.add_argument("--out", type=Path, required=True)
    simulated.add_argument("--plot", type=Path)
    planned = actions.add_parser("plan", help="compute what a number of workers needs")
    planned.add_argument("scaling", type=Path, help="file that simulate wrote")
    planned.add_argument("--workers", type=int, default=1000)
    planned.add_argument("--nodes", type=int, default=125, help="machines that the workers are on")
    planned.add_argument("--agents", type=int, default=2, help="adapters that are trained")
    planned.add_argument("--max-staleness", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if chosen.action == "plan":
        times = Times(**json.loads(chosen.scaling.read_text())["times"])
        print(plan(times, chosen.workers, chosen.nodes, chosen.agents, chosen.max_staleness))
        return 0
    if chosen.action == "measure":
        times = measure(chosen.model, chosen.groups, chosen.updates)
        chosen.out.write_text(json.dumps(asdict(times), indent=1))
        spread = stdev(times.play_s) / mean(times.play_s) if len(times.play_s) > 1 else 0.0
        print(f"play {mean(times.play_s):.2f} s a group (cv {spread:.2f}), learn {times.learn_s:.2f} s a group")
        return 0
    times = Times(**json.loads(chosen.times.read_text()))
    points = list(simulate_all(times))
    chosen.out.write_text(json.dumps({"times": asdict(times), "points": [asdict(p) for p in points]}, indent=1))
    if chosen.plot:
        draw(points, times, chosen.plot)
    print(table(points))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
