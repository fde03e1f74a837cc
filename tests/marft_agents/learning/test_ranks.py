"""Several ranks equal one: the split of the work, the reductions, and updates of ranks that are threads.

Ranks of a real cluster, on the model `tiny`, are in test_ray_ranks.py.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import learner_settings
from marft_agents.learning.distributed import follow, release
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.learner import Learner
from marft_agents.learning.rank_settings import RankSettings
from marft_agents.learning.ranks import ALONE, LostRankError, OtherRankOutOfMemoryError, Ranks, TorchRanks, is_lost
from marft_agents.policies.adapter_files import pack_adapters
from marft_agents.rollouts.rollout_settings import RolloutSettings
from marft_agents.runs import checkpoint
from marft_agents.runs.ray_ranks import RankError, _cause, _refuse_unshared, check_ranks
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import word_team
from tests.helpers.naive import play
from tests.helpers.rank_runs import Dense, by_threads, numbers, short_of_memory, start

STEPS = {"policy_lr": 1e-3, "micro_batch": 5}


def rank_of(rank, count):
    ranks = Ranks()
    ranks.rank, ranks.count = rank, count
    return ranks


@settings(deadline=None)
@given(st.lists(st.integers(1, 1000), max_size=40), st.integers(1, 9))
def test_every_item_belongs_to_one_rank_and_costs_are_shared(costs, count):
    parts = [rank_of(rank, count).own(costs) for rank in range(count)]
    assert [i for part in parts for i in range(len(costs))[part]] == list(range(len(costs)))
    share = sum(costs) / count
    assert all(sum(costs[part]) <= share + max(costs) for part in parts if costs)


def new_learner(ranks, algorithm, **knobs):
    team = word_team(["buyer_0", "seller_0"], sampling=SamplingParams(max_new_tokens=3), stir=0.1)
    return Learner(team, learner_settings(algorithm, **(STEPS | knobs)), seed=1, total_updates=2, ranks=ranks)


def updated(learner, episodes=4, exact=True):
    """Make two updates on the same episodes; return on rank 0 the learner and the metrics.

    Args:
        learner: of one of the ranks.
        episodes: number of them.
        exact: False marks actions as those of another engine.
    """
    if learner.ranks.rank:
        follow(learner)
        return None
    trajectories = play(learner.team, lambda: Dense(cut=True), episodes=episodes)
    if not exact:
        trajectories = [
            dataclasses.replace(
                t,
                turns=tuple(dataclasses.replace(u, action=dataclasses.replace(u.action, exact=False)) for u in t.turns),
            )
            for t in trajectories
        ]
    lines = [learner.update(trajectories) for _ in range(2)]
    release(learner.ranks)
    return learner, lines


@pytest.mark.parametrize(
    ("algorithm", "knobs", "count", "played"),
    [
        ("marft-a", {"ppo_epochs": 4, "kl_stop": 1e-4}, 2, {}),
        ("marft-t", {"ppo_epochs": 2, "mini_batches": 3, "value_clip": 0.1, "value_norm": True}, 3, {}),
        ("a2po", {"ppo_epochs": 2, "kl_weight": 0.1, "agent_order": "semi-greedy"}, 2, {"exact": False}),
        ("grpo", {"kl_weight": 0.1, "kl_place": "reward", "entropy_bonus": 0.01}, 2, {"exact": False}),
        ("ippo", {}, 5, {"episodes": 1}),  # more ranks than actions: some have nothing to do
    ],
)
def test_several_ranks_learn_what_one_learns(algorithm, knobs, count, played):
    work = partial(updated, **played)
    alone, lines = work(new_learner(ALONE, algorithm, **knobs))
    shared, others = by_threads(count, lambda ranks: new_learner(ranks, algorithm, **knobs), work)
    before, wanted, found = numbers(new_learner(ALONE, algorithm, **knobs)), numbers(alone), numbers(shared)
    for part in wanted:
        assert (wanted[part] - before[part]).abs().max() > 1e-4
        apart = (wanted[part] - found[part]).abs()
        assert apart.quantile(0.999) < 1e-6
        # Adam divides by the size of a gradient: where that nearly vanishes, a processor's rounding shows.
        assert apart.max() < (5e-6 if algorithm == "a2po" else 1e-6)
    for line, other in zip(lines, others, strict=True):
        assert other == pytest.approx(line, rel=1e-5, abs=1e-5)
    if "kl_stop" in knobs:
        assert lines[0]["buyer_0/kl_stopped"] == 1


def test_every_rank_starts_an_update_from_the_state_of_rank_0():
    """So a resume and a rollback need nothing but rank 0."""

    def prepare(ranks):
        learner = new_learner(ranks, "marft-a")
        if not ranks.rank:  # as after a resume
            updated_alone, _ = updated(new_learner(ALONE, "marft-a", policy_lr=1e-2))
            learner.load_state_dict(updated_alone.state_dict())
            learner.step_scale = 0.5
        return learner

    learners = []

    def work(learner):
        learners.append(learner)
        return updated(learner)

    by_threads(2, prepare, work)
    one, other = learners
    assert (one.updates, one.step_scale) == (other.updates, other.step_scale) == (4, 0.5)
    assert pack_adapters(one.team) == pack_adapters(other.team)
    assert repr(one.state_dict()) == repr(other.state_dict())


def test_a_divergence_on_one_rank_is_raised_on_rank_0_with_its_actions():
    found = []

    def spoiled(learner):
        if learner.ranks.rank:
            follow(learner)
            return
        played = play(learner.team, episodes=4)
        members = [(e, k) for e, t in enumerate(played) for k, turn in enumerate(t.turns) if turn.agent == "seller_0"]
        last = max(members, key=lambda place: played[place[0]].turns[place[1]].action.prompt_ids.tolist())
        turns = list(played[last[0]].turns)
        action = turns[last[1]].action
        spoiled_action = dataclasses.replace(action, logprobs=action.logprobs - 1e9)
        turns[last[1]] = dataclasses.replace(turns[last[1]], action=spoiled_action)
        played[last[0]] = dataclasses.replace(played[last[0]], turns=tuple(turns))
        passes = []
        learner.scorer.score = lambda base, policy, actions, score=learner.scorer.score, **k: (
            passes.extend(actions) or score(base, policy, actions, **k)
        )
        try:
            learner.update(played)
        except DivergenceError as error:
            found.append((error, spoiled_action, passes))
        release(learner.ranks)

    by_threads(2, lambda ranks: new_learner(ranks, "marft-a"), spoiled)
    [(error, action, passes)] = found
    assert "policy 'seller_0': the loss is" in str(error)
    assert [rows is action for rows in error.rows.actions] == [True]
    assert not any(scored is action for scored in passes)  # it was on the other rank


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.filterwarnings("ignore:out of memory in a pass of up to:RuntimeWarning")
def test_all_ranks_begin_an_update_again_after_one_ran_out_of_memory(rank):
    knobs = {"ppo_epochs": 2, "kl_weight": 0.1, "micro_batch": 16}
    _, _, count = by_threads(2, lambda ranks: new_learner(ranks, "happo", **knobs), short_of_memory)
    assert count > 4
    for number in range(0, count, 2):  # the pass of the bare base, passes of both epochs, of the ratios
        learners = []

        def prepare(ranks, learners=learners):
            learners.append(new_learner(ranks, "happo", **knobs))
            return learners[-1]

        work = partial(short_of_memory, rank=rank, number=number)
        found, metrics, _ = by_threads(2, prepare, work)
        tokens = found.settings.micro_batch_tokens
        assert [one.pass_size.tokens for one in learners] == [one.settings.micro_batch_tokens for one in learners]
        assert {one.pass_size.tokens for one in learners} == {tokens} != {None}
        wanted, told, _ = by_threads(
            2, lambda ranks, t=tokens: new_learner(ranks, "happo", **knobs, micro_batch_tokens=t), short_of_memory
        )
        assert metrics == told
        assert pack_adapters(found.team) == pack_adapters(wanted.team) == pack_adapters(learners[1].team)
        assert found.generator.bit_generator.state == wanted.generator.bit_generator.state


def test_a_sequence_that_does_not_fit_on_one_rank_ends_all():
    prepared = partial(new_learner, algorithm="grpo", micro_batch_tokens=1)
    ended = []

    def work(learner):
        with pytest.raises(SettingsError, match="of 1 sequence, which cannot be cut") as caught:
            short_of_memory(learner, rank=1)
        ended.append(caught)

    by_threads(2, prepared, work)
    assert len(ended) == 2


SHORT_RANK = """
import sys
from torch import distributed
from tests.helpers.rank_runs import short_of_memory, start
from marft_agents.learning.ranks import TorchRanks
distributed.init_process_group("gloo", init_method=sys.argv[1], rank=1, world_size=2)
short_of_memory(start("happo", TorchRanks()), rank=1, number=3)
distributed.destroy_process_group()
"""


@pytest.mark.long
def test_two_processes_go_on_after_one_ran_out_of_memory(tmp_path):
    meeting = f"file://{tmp_path / 'meeting'}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    other = subprocess.Popen([sys.executable, "-W", "ignore", "-c", SHORT_RANK, meeting], env=environment)
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=2)
    try:
        with pytest.warns(RuntimeWarning, match="the update begins again"):
            found, metrics, _ = short_of_memory(start("happo", TorchRanks()), rank=1)
        assert other.wait() == 0
    finally:
        torch.distributed.destroy_process_group()
        other.kill()
        other.wait()
    checkpoint.save(tmp_path, found.team, found)
    saved = json.loads(next(tmp_path.glob("*/state.json")).read_text())
    assert saved["settings"]["micro_batch_tokens"] == found.pass_size.tokens
    work = partial(start, "happo", micro_batch_tokens=found.pass_size.tokens)
    wanted, told, _ = by_threads(2, lambda ranks: work(ranks=ranks), short_of_memory)
    assert metrics == pytest.approx(told, rel=1e-5, abs=1e-6)
    assert all((value - numbers(wanted)[part]).abs().max() < 1e-6 for part, value in numbers(found).items())


OTHER_RANK = """
import sys, torch
from torch import distributed, nn
from marft_agents.learning.ranks import TorchRanks
distributed.init_process_group("gloo", init_method=sys.argv[1], rank=1, world_size=2)
ranks = TorchRanks()
ranks.add_up(torch.full((2,), 3.0))
ranks.total(torch.zeros(2, dtype=torch.float64).numpy())
ranks.gather("one")
assert ranks.broadcast(None) == "all"
trained, idle = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
trained.grad = torch.tensor([1.0, 2.0])
ranks.add_gradients([trained, idle])
assert trained.grad.tolist() == [1.0, 2.0] and idle.grad is None
ranks.out_of_memory()
assert ranks.gather(None) == ["none", None]
distributed.destroy_process_group()
"""


def test_ranks_of_torch_reduce_gather_and_tell_of_a_lost_one(tmp_path):
    meeting = f"file://{tmp_path / 'meeting'}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    other = subprocess.Popen([sys.executable, "-c", OTHER_RANK, meeting], env=environment)
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=2)
    try:
        ranks = TorchRanks()
        assert (ranks.rank, ranks.count) == (0, 2)
        added = torch.ones(2)
        ranks.add_up(added)
        assert added.tolist() == [4, 4]
        given_numbers = np.array([1.0, math.nan])
        assert ranks.total(given_numbers)[0] == 1
        assert math.isnan(given_numbers[1])
        assert ranks.gather(0) == [0, "one"]
        assert ranks.broadcast("all") == "all"
        parameters = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))]
        ranks.add_gradients(parameters)
        assert parameters[0].grad.tolist() == [1, 2]
        assert parameters[1].grad is None  # Adam would move it along its momentum
        with pytest.raises(OtherRankOutOfMemoryError):
            ranks.add_up(added)
        assert ranks.gather("none") == ["none", None]
        assert other.wait() == 0
        with pytest.raises(LostRankError, match="another rank does not answer"):
            ranks.gather(1)
    finally:
        torch.distributed.destroy_process_group()


def test_a_rank_knows_that_another_one_died():
    """Also within a pass of sharded layers, whose errors are those of the backend."""
    told = "[/w/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:2996"
    assert is_lost(LostRankError("another rank does not answer"))
    assert is_lost(RuntimeError(told))
    assert is_lost(torch.distributed.DistBackendError("NCCL error"))
    assert not is_lost(torch.OutOfMemoryError("CUDA out of memory"))
    assert not is_lost(ValueError(told))


def test_learners_without_a_cluster_are_refused():
    check_ranks(RankSettings(), RolloutSettings())
    check_ranks(RankSettings(learners=2), RolloutSettings("local", rollout_workers=0))
    with pytest.raises(SettingsError, match="learners = 2 are processes of a Ray cluster: give --ray local"):
        check_ranks(RankSettings(learners=2), RolloutSettings())


class Failed(Exception):
    """As Ray Train's `WorkerGroupError`."""

    def __init__(self, worker_failures):
        super().__init__("Training failed")
        self.worker_failures = worker_failures


def test_the_cause_is_the_rank_that_died_or_else_the_first_error():
    late, early = RuntimeError("late"), ValueError("early")
    assert str(_cause(Failed({0: late, 1: OSError("gone")}), {0: late})) == "learner rank 1 died: gone"
    assert _cause(Failed({0: late, 1: early}), {1: early, 0: late}) is early
    assert str(_cause(Failed({}), {})) == "the learners could not start: Training failed"


def test_a_run_folder_that_rank_0_does_not_see_is_refused(tmp_path):
    _refuse_unshared(tmp_path)
    with pytest.raises(RankError, match=r"does not see .*: wanted --out on a file system"):
        _refuse_unshared(tmp_path / "elsewhere" / ".ranks-1")
