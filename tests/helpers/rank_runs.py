"""Runs of three updates that any number of ranks must end alike.

test_ranks.py, test_ray_ranks.py and test_sharding.py compare them.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import torch
from gymnasium.spaces import Text

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import learner_settings
from marft_agents.learning.distributed import follow, release
from marft_agents.learning.learner import Learner
from marft_agents.learning.ranks import ALONE, Ranks
from marft_agents.learning.sharding import shard
from marft_agents.models.base_settings import LoraSettings
from marft_agents.policies.team_building import build_team
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from tests.helpers.fakes import Market
from tests.helpers.naive import play

STEPS = {"policy_lr": 1e-3, "micro_batch": 5}
RUNS = {
    "marft-a": ("marft-a", {}),
    "marft-t": ("marft-t", {"mini_batches": 2, "ppo_epochs": 2}),
    "grpo": ("grpo", {"kl_weight": 0.1}),
    "happo": ("happo", {"ppo_epochs": 2}),
    "a2po": ("a2po", {"ppo_epochs": 2}),
    "kl-stop": ("marft-a", {"ppo_epochs": 6, "kl_stop": 2e-4, "policy_lr": 3e-3}),
}


class AnyText(Text):
    """A text space that contains every text."""

    def contains(self, x):
        return isinstance(x, str)


class Dense(Market):
    """A market that takes any action and pays it by its text, so that almost all advantages differ."""

    def action_space(self, agent):
        return AnyText(max_length=200)

    def step(self, action):
        agent, alive = self.agent_selection, not self.terminations[self.agent_selection]
        super().step(action)
        if action is not None and alive:
            paid = sum(map(ord, action)) % 5 / 4
            self._cumulative_rewards[agent] += paid - self.rewards[agent]
            self.rewards[agent] = paid


def start(name, ranks=ALONE, *, sharded=False, **more):
    """Return the learner of a run with an untrained team, the same on every rank."""
    algorithm, knobs = RUNS[name]
    sampling = SamplingParams(max_new_tokens=4)
    team = build_team(
        ["buyer_0", "seller_0"], {"*": "tiny"}, lora=LoraSettings(rank=4), sampling=sampling, device=torch.device("cpu")
    )
    if sharded:
        shard(team.bases, ranks)
    return Learner(team, learner_settings(algorithm, **(STEPS | knobs | more)), seed=1, total_updates=3, ranks=ranks)


def finish(learner):
    """Take part in a run; return on rank 0 its trained numbers and the metrics of its updates, else None."""
    if learner.ranks.rank:
        follow(learner)
        return None
    before = numbers(learner)
    lines = []
    schedule = TrainingSchedule(updates=3, groups=2, group_size=3, seed=3)
    trainer = Trainer(lambda: Dense(cut=True), learner.team, learner, schedule)
    trainer.on_update = lambda update, metrics: lines.append(
        {name: value for name, value in metrics.items() if not name.startswith("seconds/")}
    )
    trainer.run()
    release(learner.ranks)
    after = numbers(learner)
    assert all((after[part] - before[part]).abs().max() > 1e-4 for part in before)  # something was learned
    return after, lines


def short_of_memory(learner, *, rank=None, number=0):
    """Update once; the pass of this number on one rank runs out of memory. Return on rank 0 the learner and metrics."""
    passes, score = [], learner.scorer.score

    def scored(*given, **more):
        passes.append(given)
        if learner.ranks.rank == rank and len(passes) == number + 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        return score(*given, **more)

    learner.scorer.score = scored
    if learner.ranks.rank:
        follow(learner)
        return None
    found = learner, learner.update(play(learner.team, lambda: Dense(cut=True), episodes=4)), len(passes)
    release(learner.ranks)
    return found


def numbers(learner):
    """Return all trained weights of a learner by part: each adapter and each value head, flat."""
    found = {}
    for policy, (agent, *_) in learner.team.policies.items():
        tensors = learner.team.local_agent(agent).base.parameters(policy).values()
        found[policy] = torch.cat([tensor.detach().flatten().clone() for tensor in tensors])
    for index, head in enumerate(learner.critic.heads if learner.critic else []):
        found[f"value head {index}"] = torch.cat([tensor.detach().flatten().clone() for tensor in head.parameters()])
    return found


def differences(one, other):
    """Return the largest absolute difference of the weights of each part, and of all metrics together."""
    found = {part: float((one[0][part] - other[0][part]).abs().max()) for part in one[0]}
    assert one[0].keys() == other[0].keys()
    assert [line.keys() for line in one[1]] == [line.keys() for line in other[1]]
    pairs = [(a[name], b[name]) for a, b in zip(one[1], other[1], strict=True) for name in a]
    return found, max(abs(a - b) for a, b in pairs)


class ThreadRanks(Ranks):
    """One of several ranks that are threads of this process; they meet at a barrier."""

    def __init__(self, rank: int, count: int, barrier: threading.Barrier, slots: list) -> None:
        self.rank, self.count = rank, count
        self._barrier, self._slots = barrier, slots

    def _gather(self, value):
        self._slots[self.rank] = value
        self._barrier.wait()
        found = list(self._slots)
        self._barrier.wait()  # nobody writes before all have read
        return found

    def _add_up(self, tensor):
        parts = self._gather(tensor.clone())
        tensor.copy_(sum(parts[1:], start=parts[0]))

    def _broadcast(self, value):
        return self._gather(value)[0]

    def _any(self, flag):
        return any(self._gather(flag))


def by_threads(count, prepare, work):
    """Call work(prepare(ranks)) on so many ranks; return what rank 0 returned, or raise the first error.

    Work is prepared in this thread: models are made with the random generator that all threads share.
    """
    barrier, slots = threading.Barrier(count), [None] * count
    prepared = [prepare(ThreadRanks(rank, count, barrier, slots)) for rank in range(count)]
    results, errors = [None] * count, []

    def run(rank):
        try:
            results[rank] = work(prepared[rank])
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=[rank]) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results[0]


def finish_all(folder, ranks):
    """Take part in all runs as one of the ranks; rank 0 writes what each comes to."""
    for name in RUNS:
        found = finish(start(name, ranks))
        if found is not None:
            torch.save(found, Path(folder, f"{name}.pt"))


def die(folder, ranks):
    """Die as rank 1 in the middle of an update that rank 0 waits for."""
    Path(folder, f"pid-{ranks.rank}").write_text(str(os.getpid()))
    learner = start("grpo", ranks)
    if ranks.rank:
        learner.scorer.score = lambda *arguments, **keywords: os.kill(os.getpid(), signal.SIGKILL)
    else:
        print("rank 0 plays")
    finish(learner)
