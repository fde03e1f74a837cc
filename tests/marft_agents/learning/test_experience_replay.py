"""Replay of solved actions: nothing changes with a share of 0, else the mean NLL joins the step; resume is exact."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning import experience_replay
from marft_agents.learning.batch import build_batch
from marft_agents.learning.experience_replay import ReplayPools
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.learning.supervised import demonstration
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Action
from tests.helpers.fakes import CopyDigit, word_team
from tests.helpers.naive import BRIEF_CRITIC, DESCENT, adapters, assert_stepped_along, gradient, logprobs, moved, play
from tests.helpers.run_outcome import outcome

MARKET = ("buyer_0", "seller_0")
SAMPLING = SamplingParams(temperature=0.7, max_new_tokens=4)


def shown(team, agent="buyer_0", texts=("a", "a b", "0")):
    return [demonstration(team, agent, f"digit {n}", text) for n, text in enumerate(texts)]


def updated(**settings):
    """Return team, metrics and the learner's state after an update that has demonstrations to replay."""
    team = word_team(MARKET, sampling=SAMPLING, stir=0.3)
    learner = Learner(team, LearnerSettings(policy_lr=0.01, mini_batches=2, **settings))
    learner.replay = ReplayPools(learner.settings.replay_share, {"buyer_0": shown(team)})
    metrics = learner.update(play(team))
    return adapters(team), metrics, learner.state_dict()


def test_a_share_of_zero_changes_no_bit():
    plain = word_team(MARKET, sampling=SAMPLING, stir=0.3)
    learner = Learner(plain, LearnerSettings(policy_lr=0.01, mini_batches=2))
    wanted = learner.update(play(plain))
    after, metrics, state = updated(replay_share=0.0)
    assert not moved(adapters(plain), after)
    assert metrics == wanted
    assert state.keys() == learner.state_dict().keys() == {"updates", "generator", "critic", "optimizers"}
    other, _, _ = updated(replay_share=0.5)
    assert moved(after, other) == {"buyer_0"}, "the pool is used as soon as there is a share"


def test_a_step_follows_the_plain_gradient_plus_share_times_the_mean_nll():
    team = word_team(MARKET, sampling=SAMPLING, stir=0.3)
    settings = LearnerSettings(replay_share=0.5, **DESCENT)
    trajectories, lessons = play(team), shown(team)
    wanted = {policy: gradient(team, trajectories, policy, settings) for policy in MARKET}
    base = team.local_agent("buyer_0").base
    tensors = base.parameters("buyer_0")
    scored = torch.cat([logprobs(base, "buyer_0", action, SAMPLING)[0] for action in lessons])
    pulls = torch.autograd.grad(-0.5 * scored.mean(), list(tensors.values()))
    for name, pull in zip(tensors, pulls, strict=True):
        wanted["buyer_0"][name] = wanted["buyer_0"][name] + pull
    before = adapters(team)
    learner = Learner(team, settings)
    learner.replay = ReplayPools(0.5, {"buyer_0": lessons})  # fewer than half of the actions: all are drawn
    metrics = learner.update(trajectories)
    for policy in MARKET:
        assert_stepped_along(before[policy], adapters(team)[policy], wanted[policy])
    assert metrics["buyer_0/replay_nll"] == pytest.approx(-scored.mean().item(), rel=1e-4)
    assert "seller_0/replay_nll" not in metrics


def test_draws_are_a_share_and_a_function_of_their_place():
    team = word_team(MARKET)
    pools = ReplayPools(0.25, {"buyer_0": shown(team, texts=("a", "b", "0", "1", "2", "3", "4", "a b"))})
    assert len(pools.draw("buyer_0", 9, 0, 0)) == 3
    draws = [[action.text for action in pools.draw("buyer_0", 8, update, 0)] for update in range(6)]
    assert draws == [[action.text for action in pools.draw("buyer_0", 8, update, 0)] for update in range(6)]
    assert len({tuple(draw) for draw in draws}) > 1
    assert pools.draw("seller_0", 8, 0, 0) == ReplayPools(0.0, {"buyer_0": shown(team)}).draw("buyer_0", 8, 0, 0) == []


def test_pools_grow_with_solved_actions_distinct_and_newest(monkeypatch):
    monkeypatch.setattr(experience_replay, "MOST_KEPT", 3)
    team = word_team(CopyDigit.speakers, stir=0.3)
    trajectories = play(team, CopyDigit, episodes=30)
    batch = build_batch(trajectories, team.policies, LearnerSettings())
    assert 0 < batch.positive.sum() < len(batch.positive)
    pools = ReplayPools(1.0)
    pools.add(batch)
    pools.add(batch)
    kept = pools.draw("actor_0", 100, 0)
    solved = [a for a, good, p in zip(batch.actions, batch.positive, batch.policy, strict=True) if good and p == 1]
    distinct = {(a.prompt_ids.tobytes(), a.token_ids.tobytes()) for a in solved}
    assert {(a.prompt_ids.tobytes(), a.token_ids.tobytes()) for a in kept} <= distinct
    assert len(kept) == min(3, len(distinct)) > 0
    unused = ReplayPools(0.0)
    unused.add(batch)
    assert unused.state_dict() == {}


def test_an_action_that_is_solved_again_is_among_the_newest(monkeypatch):
    monkeypatch.setattr(experience_replay, "MOST_KEPT", 3)
    pools = ReplayPools(1.0)
    for tokens in "ABCAD":
        pools.add(_solved(_action(np.array([ord(tokens)], np.int32))))
    assert [chr(action.token_ids[0]) for action in pools.draw("a", 3, 0)] == ["C", "A", "D"]


def _action(token_ids, prompt_ids=None, support=None):
    prompt_ids = np.zeros(2, np.int32) if prompt_ids is None else prompt_ids
    return Action("", prompt_ids, token_ids, np.zeros(len(token_ids), np.float32), True, support=support)


def _solved(*actions):
    """Return what `ReplayPools.add` reads of a batch whose actions are all of policy "a" and solved."""
    count = len(actions)
    return SimpleNamespace(positive=np.ones(count), policies=["a"], policy=[0] * count, actions=actions)


def test_solved_episodes_are_replayed_in_later_updates_and_a_resume_is_exact(tmp_path):
    def run(folder, updates):
        team = word_team(CopyDigit.speakers, sampling=SamplingParams(top_k=12, max_new_tokens=2), stir=0.2)
        settings = LearnerSettings(policy_lr=1e-2, mini_batches=2, replay_share=0.5, **BRIEF_CRITIC)
        learner = Learner(team, settings, seed=4, total_updates=4)
        done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
        records = RunFolder(folder, {}, resume_at=done)
        schedule = TrainingSchedule(updates=updates, groups=3, group_size=2)  # two actions per prompt
        Trainer(CopyDigit, team, learner, schedule, folder=records).run()
        records.close()
        return (checkpoint.resolve(folder) / checkpoint.LEARNER_FILE).read_bytes()

    whole = run(tmp_path / "whole", 3)
    run(tmp_path / "halves", 2)
    assert run(tmp_path / "halves", 3) == whole
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "halves")
    first, *later = read_metrics(tmp_path / "whole")
    assert not any(name.endswith("replay_nll") for name in first)
    assert all(np.isfinite(line["actor_0/replay_nll"]) for line in later)


def test_the_state_of_a_pool_is_the_same_bytes_however_its_arrays_lie_in_memory():
    """Arrays of another process are read-only parts of one buffer."""

    def state(alone):
        buffer = np.arange(12, dtype=np.int32)
        buffer.flags.writeable = False
        parts = [buffer[start : start + 3] for start in (0, 3, 0, 6)]
        prompt, first, other, support = [part.copy() for part in parts] if alone else parts
        pools = ReplayPools(1.0)
        pools.add(_solved(*(_action(token_ids, prompt, (support,) * 3) for token_ids in (first, other))))
        file = io.BytesIO()
        torch.save(pools.state_dict(), file)
        return file.getvalue()

    assert state(alone=False) == state(alone=True)


def test_a_negative_share_is_refused():
    with pytest.raises(SettingsError, match="replay_share"):
        LearnerSettings(replay_share=-0.1)
