"""Tests of the update metrics against values computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from marft_agents.learning.batch import build_batch
from marft_agents.learning.settings import LearnerSettings
from marft_agents.learning.update_metrics import UpdateStatistics
from marft_agents.trajectory import Action, SampledTurn, Trajectory


def sample(tokens, credit, *, stopped=True, values=(), returns=()):
    """Return an action with its number of tokens, its credit and what the critic says of it."""
    action = Action("x", np.zeros(1, np.int32), np.zeros(tokens, np.int32), np.zeros(tokens, np.float32), stopped)
    return SampledTurn("a_0", action, 0.0), credit, values, returns


def batch_of(samples):
    turns, credit, values, returns = zip(*samples, strict=True)
    batch = build_batch([Trajectory(0, 0, turns, True, False)], {}, LearnerSettings())
    flat = {"credit": credit, "values": values, "returns": returns}
    return batch._replace(**{name: np.concatenate([np.array(x, float) for x in own]) for name, own in flat.items()})


def test_means_extremes_and_shares_by_hand():
    statistics = UpdateStatistics()
    nothing = torch.zeros(0)
    statistics.add(torch.tensor([0.1, -0.3]), kl=torch.tensor([1.0, 2.0]), nll=nothing)
    statistics.add(torch.tensor([0.2]), kl=torch.tensor([6.0]), nll=nothing, z=torch.tensor([7]))
    statistics.grad_norms.append(2.0)
    statistics.add(torch.tensor([-0.7]), kl=torch.tensor([0.0]), nll=nothing)  # after a step
    statistics.grad_norms.append(5.0)
    statistics.add(torch.tensor([0.6]), kl=torch.tensor([1.0]), nll=nothing)
    statistics.stopped = True
    samples = [
        sample(2, [1.0], values=[0.5], returns=[1.0]),
        sample(5, [0.0], stopped=False, values=[0.5], returns=[3.0]),
        sample(2, [-4.0], values=[3.5], returns=[5.0]),
        sample(3, [9e-7], values=[], returns=[]),
    ]
    found = statistics.summary("a", batch_of(samples))
    residuals, returns, credit = [0.5, 2.5, 1.5], [1.0, 3.0, 5.0], [1.0, 0.0, -4.0, 9e-7]
    assert found == {
        "a/kl": pytest.approx(2.0),  # over all decisions, whatever the micro-batches
        "a/z": 7.0,
        "a/kl_stopped": 1.0,
        "a/ratio_max": pytest.approx(math.exp(0.6)),
        "a/ratio_min": pytest.approx(math.exp(-0.7)),
        "a/first_pass_log_ratio_max": pytest.approx(0.3),
        "a/grad_norm": 3.5,
        "a/tokens_mean": 3.0,
        "a/cap_hit_share": 0.25,
        "a/advantage_mean": pytest.approx(np.mean(credit)),
        "a/advantage_std": pytest.approx(np.std(credit)),
        "a/advantage_min": -4.0,
        "a/advantage_max": 1.0,
        "a/advantage_zero_share": 0.5,
        "a/return_mean": 3.0,
        "a/return_std": pytest.approx(np.std(returns)),
        "a/explained_variance": pytest.approx(1 - np.var(residuals) / np.var(returns)),
    }


def test_a_first_pass_that_only_went_down_is_seen_and_none_is_0():
    statistics = UpdateStatistics()
    statistics.add(torch.tensor([-0.5, 0.1]))
    found = statistics.summary("a", batch_of([sample(1, [0.0])]))
    assert found["a/first_pass_log_ratio_max"] == 0.5
    assert (found["a/kl_stopped"], found["a/grad_norm"], found["a/advantage_zero_share"]) == (0, 0, 1)
    assert "a/return_mean" not in found
    later = UpdateStatistics()
    later.grad_norms.append(1.0)
    later.add(torch.tensor([-0.5]))
    assert later.summary("a", batch_of([sample(1, [0.0])]))["a/first_pass_log_ratio_max"] == 0
