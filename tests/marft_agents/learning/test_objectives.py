"""Objectives by numbers worked by hand."""

import math

import pytest
import torch

from marft_agents.learning.objectives import (
    action_divisors,
    action_log_ratios,
    averaging_shares,
    clipped_surrogate,
    kl_estimate,
    preceding_ratios,
    truncated_importance,
    value_loss,
    widening_clip,
)


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


@pytest.mark.parametrize(
    ("value", "target", "loss", "slope"),
    [
        (0.1, 1.0, 0.9**2 / 2, -0.9),  # within the clip
        (0.5, 1.0, 0.8**2 / 2, 0.0),  # held at 0.2: no further that way
        (0.5, 0.0, 0.5**2 / 2, 0.5),  # the clip never hides a worsening
        (-0.5, -1.0, 0.8**2 / 2, 0.0),
        (0.0, 1.0, 0.5, -1.0),  # where nothing has moved yet it is the plain loss
        (0.5, 9.0, 2 * (8.8 - 1), 0.0),  # linear from 2 on
    ],
)
def test_value_loss_of_clipped_predictions(value, target, loss, slope):
    values = torch.tensor([value], requires_grad=True)
    found = value_loss(values, torch.tensor([target]), huber_delta=2.0, before=torch.zeros(1), clip=0.2)
    found.sum().backward()
    assert found.item() == pytest.approx(loss)
    assert values.grad.item() == pytest.approx(slope)


def test_kl_estimates_at_a_known_ratio_and_in_expectation():
    log_ratio = torch.tensor([math.log(2.0)])
    assert kl_estimate(log_ratio, "k1").item() == pytest.approx(-math.log(2))
    assert kl_estimate(log_ratio, "k2").item() == pytest.approx(math.log(2) ** 2 / 2)
    assert kl_estimate(log_ratio, "k3").item() == pytest.approx(1 - math.log(2))
    old, new = torch.tensor([0.5, 0.5]), torch.tensor([0.8, 0.2])
    exact = (old * (old / new).log()).sum().item()
    for kind in ("k1", "k3"):  # both are unbiased under samples of the old policy
        assert (old * kl_estimate((new / old).log(), kind)).sum().item() == pytest.approx(exact, abs=1e-6)


# ------------------------------------------------------------------ averaging and weights


def test_losses_are_averaged_over_tokens_over_actions_or_by_a_constant():
    losses = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0])]
    lengths = torch.tensor([3, 1])
    found = {}
    for kind in ("decision", "sequence", "constant"):
        shares = averaging_shares(lengths, kind, limit=8).repeat_interleave(lengths)
        found[kind] = ((shares * torch.cat(losses)).sum() / 4).item()
    assert found["decision"] == pytest.approx((1 + 2 + 3 + 10) / 4)
    assert found["sequence"] == pytest.approx((2 + 10) / 2)
    assert found["constant"] == pytest.approx((6 / 8 + 10 / 8) / 2)
    assert averaging_shares(lengths, "decision", limit=8).tolist() == [
        1,
        1,
    ]  # nothing is rounded where nothing is changed


def test_the_ratio_of_gspo_is_the_geometric_mean_of_the_tokens():
    ratios = torch.tensor([2.0, 0.5, 4.0, 3.0])
    owners, lengths = torch.tensor([0, 0, 0, 1]), torch.tensor([3, 1])
    divisors = action_divisors(lengths, lengths, "token")
    found = action_log_ratios(ratios.log(), torch.zeros(4), owners, divisors).exp()
    assert found.tolist() == pytest.approx([4 ** (1 / 3), 3])


def test_importance_is_cut_at_the_cap_and_carries_no_bias_below_it():
    old, sampled = torch.tensor([0.6, 0.1, 0.3]).log(), torch.tensor([0.2, 0.2, 0.3]).log()
    assert truncated_importance(old, sampled, cap=2.0).tolist() == pytest.approx([2.0, 0.5, 1.0])
    sampling, engine = torch.tensor([0.7, 0.3]), torch.tensor([0.5, 0.5])
    value = torch.tensor([1.0, -2.0])
    weights = truncated_importance(sampling.log(), engine.log(), cap=2.0)
    assert (engine * weights * value).sum().item() == pytest.approx((sampling * value).sum().item())


def test_the_clip_widens_along_the_agents_to_the_whole_bound():
    assert [widening_clip(k, 4, 0.5) for k in (1, 2, 3, 4)] == [0.625, 0.75, 0.875, 1.0]
    assert [widening_clip(k, 3, 1.0) for k in (1, 2, 3)] == [1, 1, 1]
    assert widening_clip(1, 1, 0.0) == 1


@pytest.mark.parametrize(
    ("preceding", "advantage", "loss", "clipped"),
    [
        (1.05, 2.0, -2.1, False),
        (2.0, 2.0, -2.2, False),  # held at 1.1: half of the upper bound
        (0.1, -2.0, 1.9, False),  # held at 0.95: half of the lower bound
    ],
)
def test_a2po_leaves_half_of_the_clip_to_the_agent(preceding, advantage, loss, clipped):
    bounds = {"clip_low": 0.1, "clip_high": 0.2}
    held = preceding_ratios(torch.tensor([preceding]), **bounds)
    found = clipped_surrogate(torch.zeros(1), torch.tensor([advantage]), preceding=held, **bounds)
    assert found.losses.item() == pytest.approx(loss)
    assert found.clipped.item() is clipped
    # the joint ratio 1.15 * 1.1 is beyond the bound though the agent's own is not
    joint = clipped_surrogate(
        torch.tensor([math.log(1.15)]), torch.ones(1), preceding=torch.tensor([1.1]), clip_low=0.2, clip_high=0.2
    )
    assert joint.losses.item() == pytest.approx(-1.2)
    assert joint.clipped.item()
