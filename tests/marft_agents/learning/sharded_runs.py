"""Runs of two ranks with sharded bases; test_sharding.py starts this file as rank 1, and is rank 0 itself.

python sharded_runs.py MEETING
"""

from __future__ import annotations

import dataclasses
import sys
from datetime import timedelta

from torch import distributed

from marft_agents.learning import critic
from marft_agents.learning.distributed import follow, release
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.ranks import TorchRanks
from tests.helpers.naive import play
from tests.helpers.rank_runs import Dense, finish, numbers, start

SAME = ("marft-a", "marft-t")


def compare(meeting, rank):
    """Take part in all runs as one of the two ranks; return what each comes to on rank 0, by name and sharding."""
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2, timeout=timedelta(minutes=5))
    try:
        found = {}
        for sharded in (False, True):
            for name in SAME:
                learner = start(name, TorchRanks(), sharded=sharded)
                found[name, sharded] = finish(learner), learner
            found["uneven", sharded] = uneven(
                start("a2po", TorchRanks(), sharded=sharded, micro_batch=1, kl_weight=0.1)
            )
        recomputed = start("marft-a", TorchRanks(), sharded=True, gradient_checkpointing=True)
        found["recomputed", True] = uneven(recomputed)
        found["diverged", True] = diverged(start("marft-a", TorchRanks(), sharded=True))
        return found
    finally:
        distributed.destroy_process_group()


def uneven(learner):
    """Update on one episode, whose three actions two ranks cannot halve; return weights, metrics and empty passes."""
    if learner.ranks.rank:
        follow(learner)
        return None
    empty, scored, ran = [], learner.scorer.score, critic.action_hidden

    def score(base, adapter, actions, **keywords):
        empty.extend([adapter] * (not actions))
        return scored(base, adapter, actions, **keywords)

    def run(trunk, prompts, *others):  # without adapter: values and reference log-probs
        empty.extend([None] * (not prompts))
        return ran(trunk, prompts, *others)

    learner.scorer.score, critic.action_hidden = score, run
    try:
        # A sharded team has no weights of its own to be known by: `policy` leaves out the games that are kept.
        metrics = learner.update(play(learner.team, lambda: Dense(cut=True), episodes=1, policy=learner.team))
    finally:
        critic.action_hidden = ran
    release(learner.ranks)
    return (numbers(learner), [metrics]), empty


def diverged(learner):
    """Update on an action with a log-prob that is not finite, then without it; return the error and the metrics."""
    if learner.ranks.rank:
        follow(learner)
        return None
    played = play(learner.team, lambda: Dense(cut=True), episodes=4, policy=learner.team)
    turns = list(played[0].turns)
    spoiled = dataclasses.replace(turns[0].action, logprobs=turns[0].action.logprobs - 1e9)
    turns[0] = dataclasses.replace(turns[0], action=spoiled)
    error = None
    try:
        learner.update([dataclasses.replace(played[0], turns=tuple(turns)), *played[1:]])
    except DivergenceError as found:
        error = found
    metrics = learner.update(played)
    release(learner.ranks)
    return error, spoiled, metrics


if __name__ == "__main__":
    compare(sys.argv[1], 1)
