"""Objectives by numbers worked by hand."""

import math

import pytest
import torch

from marft_agents.objectives import action_divisors, action_log_ratios, clipped_surrogate, kl_estimate, value_loss


def test_action_log_ratios_sum_the_tokens_of_each_action():
    new = torch.tensor([-1.0, -2.0, -3.0])
    old = torch.tensor([-1.5, -2.0, -2.0])
    owners = torch.tensor([0, 0, 1])
    lengths, words = torch.tensor([2, 1]), torch.tensor([4, 0])
    by = {
        kind: action_log_ratios(new, old, owners, action_divisors(lengths, words, kind)).tolist()
        for kind in ("sum", "token", "word")
    }
    assert by == {"sum": [0.5, -1.0], "token": [0.25, -1.0], "word": [0.125, -1.0]}  # no words count as one


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped"),
    [
        (1.0, 2.0, -2.0, False),
        (1.5, 2.0, -2.4, True),  # 1.2 * 2
        (1.5, -2.0, 3.0, False),  # the clip never hides a worsening
        (0.5, 2.0, -1.0, False),
        (0.5, -2.0, 1.8, True),  # 0.9 * 2
        (1.5, 0.0, 0.0, False),
    ],
)
def test_clipped_surrogate(ratio, advantage, loss, clipped):
    log_ratio = torch.tensor([math.log(ratio)], requires_grad=True)
    found = clipped_surrogate(log_ratio, torch.tensor([advantage]), clip_low=0.1, clip_high=0.2)
    assert found.losses.item() == pytest.approx(loss)
    assert found.clipped.item() is clipped
    found.losses.sum().backward()
    assert log_ratio.grad.item() == pytest.approx(0.0 if clipped else -ratio * advantage)


def test_value_loss_is_quadratic_then_linear():
    losses = value_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 10.0]), huber_delta=2.0)
    assert losses.tolist() == [0.5, 2.0 * (10 - 1)]  # delta * (|error| - delta / 2)


def test_kl_estimates_at_a_known_ratio_and_in_expectation():
    log_ratio = torch.tensor([math.log(2.0)])
    assert kl_estimate(log_ratio, "k1").item() == pytest.approx(-math.log(2))
    assert kl_estimate(log_ratio, "k2").item() == pytest.approx(math.log(2) ** 2 / 2)
    assert kl_estimate(log_ratio, "k3").item() == pytest.approx(1 - math.log(2))
    old, new = torch.tensor([0.5, 0.5]), torch.tensor([0.8, 0.2])
    exact = (old * (old / new).log()).sum().item()
    for kind in ("k1", "k3"):  # both are unbiased under samples of the old law
        assert (old * kl_estimate((new / old).log(), kind)).sum().item() == pytest.approx(exact, abs=1e-6)
