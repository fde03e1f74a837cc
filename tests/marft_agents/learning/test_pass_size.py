"""Size of passes: bounds on distinct tokens, defaults by device, and updates that run out of memory."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.learning import pass_size
from marft_agents.learning.learner import Learner
from marft_agents.learning.pass_size import PassSize, bytes_per_token, fitted
from marft_agents.learning.settings import LearnerSettings
from marft_agents.runs import checkpoint
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import word_team
from tests.helpers.naive import adapters, play

MARKET = ("buyer_0", "seller_0")
STEPS = {"policy_lr": 1e-2, "critic_lr": 1e-2, "ppo_epochs": 2, "mini_batches": 2}
GIB = 2**30


def distinct(sequences):
    """Return the number of distinct non-empty prefixes."""
    return len({tuple(s[: n + 1]) for s in sequences for n in range(len(s))})


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=20),
    st.integers(1, 6) | st.none(),
    st.integers(1, 25) | st.none(),
    st.integers(1, 2),
)
def test_passes_hold_every_sequence_once_within_the_bounds(drawn, most, tokens, factor):
    sequences = [np.array(s, np.int32) for s in drawn]
    size = PassSize(most, tokens)
    passes = size.plan(sequences, factor=factor)
    assert sorted(itertools.chain(*passes)) == list(range(len(sequences)))
    for part in passes:
        held = distinct([drawn[i] for i in part])
        assert most is None or len(part) <= factor * most
        assert tokens is None or held <= factor * tokens or len(part) == 1
    assert size.largest[0] == max(distinct([drawn[i] for i in part]) for part in passes)
    if most is None and tokens is None:
        assert len(passes) == 1


def fail_at(team, number, *, backward):
    """Let the pass of this number run out of memory once, in its forward or its backward part; return the calls."""
    calls = []

    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    def count(module, _inputs, output):
        calls.append(torch.is_grad_enabled())
        if len(calls) != number + 1:
            return
        hidden = output[0]
        if not backward:
            fail()
        if hidden.requires_grad:
            hidden.register_hook(fail)

    for base in team.bases:
        base.trunk.register_forward_hook(count)
    return calls


def learned(trajectories, changes, number=None, *, backward=False):
    team = word_team(MARKET, stir=0.3)
    learner = Learner(team, LearnerSettings(**{**STEPS, **changes}))
    calls = fail_at(team, -1 if number is None else number, backward=backward)
    metrics = learner.update(trajectories)
    return learner, adapters(team), metrics, calls


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("backward", [False, True])
def test_an_update_that_runs_out_of_memory_equals_one_with_smaller_passes(backward, every):
    trajectories = play(word_team(MARKET, stir=0.3))
    _, _, _, calls = learned(trajectories, {})
    chosen = [n for n, with_gradient in enumerate(calls) if with_gradient or not backward]
    assert len(chosen) > 4
    for number in chosen[::every]:
        with pytest.warns(RuntimeWarning, match="out of memory in a pass of up to"):
            learner, found, metrics, _ = learned(trajectories, {}, number, backward=backward)
        tokens = learner.settings.micro_batch_tokens
        assert tokens == learner.pass_size.tokens
        plain, wanted, told, _ = learned(trajectories, {"micro_batch_tokens": tokens})
        assert metrics == told
        for policy, name in ((p, n) for p in MARKET for n in wanted[p]):
            assert torch.equal(found[policy][name], wanted[policy][name])
        for ours, theirs in zip(learner.critic.heads, plain.critic.heads, strict=True):
            assert all(map(torch.equal, ours.parameters(), theirs.parameters()))
        assert learner.generator.bit_generator.state == plain.generator.bit_generator.state


def test_a_single_sequence_that_does_not_fit_is_an_error():
    trajectories = play(word_team(MARKET, stir=0.3))
    with pytest.raises(SettingsError, match=r"of 1 sequence, which cannot be cut: give --gradient-checkpointing 1"):
        learned(trajectories, {"micro_batch_tokens": 1}, 0)


def test_smaller_passes_are_kept_by_checkpoints(tmp_path):
    trajectories = play(word_team(MARKET, stir=0.3))
    with pytest.warns(RuntimeWarning, match="out of memory"):
        learner, *_ = learned(trajectories, {}, 0)
    checkpoint.save(tmp_path, learner.team, learner)
    other = Learner(word_team(MARKET), LearnerSettings(**STEPS))
    assert other.settings.micro_batch_tokens is None
    checkpoint.load(tmp_path, other.team, other)
    assert other.pass_size.tokens == learner.pass_size.tokens is not None
    assert other.settings == learner.settings


def test_on_a_cpu_the_sizes_are_constants():
    found = Learner(word_team(MARKET), LearnerSettings()).settings
    assert (found.micro_batch, found.micro_batch_tokens, found.gradient_checkpointing) == (16, None, 0.5)
    given_sizes = LearnerSettings(micro_batch=3, micro_batch_tokens=100, gradient_checkpointing=0.25)
    assert Learner(word_team(MARKET), given_sizes).settings == given_sizes


def card(total, weights, monkeypatch):
    """Return a team with a base in bfloat16 on a card, in a shape for which a token takes 80 kB without recomputing."""
    shape = SimpleNamespace(hidden_size=1000, intermediate_size=4000, num_hidden_layers=1)
    parameter = SimpleNamespace(numel=lambda: weights // 2, element_size=lambda: 2)
    peft = SimpleNamespace(parameters=lambda: [parameter], config=shape)
    base = SimpleNamespace(device=torch.device("cuda", 0), dtype=torch.bfloat16, peft=peft)
    monkeypatch.setattr(pass_size, "total_memory", lambda _: total)
    return SimpleNamespace(bases=[base], windows={"actor_0": 2048})


def test_the_bytes_of_a_token_by_hand():
    shape = SimpleNamespace(hidden_size=1000, intermediate_size=4000, num_hidden_layers=3)
    assert bytes_per_token(shape, torch.bfloat16, 0.0) == 2 * 3 * (16_000 + 16_000 + 1_000)
    assert bytes_per_token(shape, torch.float32, 0.5) == 4 * 3 * (16_000 + 1_000)
    assert bytes_per_token(shape, torch.float32, 1.0) == 4 * 3 * 1_000


@pytest.mark.parametrize(
    ("total", "share"),
    [(80 * GIB, 0.0), (3 * GIB, 0.0), (int(1.7 * GIB), 0.5), (int(1.1 * GIB), 1.0)],
)
def test_on_a_gpu_the_sizes_follow_from_its_total_memory(total, share, monkeypatch):
    team = card(total, GIB, monkeypatch)
    found = fitted(LearnerSettings(), team)
    assert found.micro_batch is None
    assert found.gradient_checkpointing == share
    stored = 2 * ((1 - share) * 32_000 + 1_000)
    assert found.micro_batch_tokens == int((total - GIB) / 2 / stored)
    assert fitted(found, team) == found  # a resume keeps what was resolved
    assert fitted(LearnerSettings(gradient_checkpointing=0.5), team).gradient_checkpointing == 0.5
