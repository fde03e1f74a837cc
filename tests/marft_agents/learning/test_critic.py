"""Value normalisation against numbers worked by hand, and what it is for."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import learner_settings
from marft_agents.learning.batch import build_batch
from marft_agents.learning.critic import ReturnScale
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from tests.helpers.fakes import word_team
from tests.helpers.naive import play

MARKET = ("buyer_0", "seller_0")


def rich(team, episodes=12):
    """Episodes whose returns are far from 0 and wide apart: 900 and 1,100 in turns."""
    return [
        dataclasses.replace(t, turns=(*t.turns[:-1], dataclasses.replace(t.turns[-1], reward=900.0 + 200 * (i % 2))))
        for i, t in enumerate(play(team, episodes=episodes))
    ]


def test_before_the_first_update_nothing_is_scaled():
    scale, numbers = ReturnScale(), np.array([-3.0, 0.0, 7.0])
    assert scale.normalise(numbers).tolist() == numbers.tolist()
    assert scale.denormalise(numbers).tolist() == numbers.tolist()


def test_one_update_gives_its_mean_and_spread_free_of_the_start():
    scale = ReturnScale()
    scale.update(np.array([1.0, 5.0]))
    assert scale.normalise(np.array([1.0, 3.0, 5.0])) == pytest.approx([-1, 0, 1])
    assert scale.denormalise(np.array([-1.0, 0.0, 1.0])) == pytest.approx([1, 3, 5])


def test_later_updates_count_alike_whatever_their_size():
    scale = ReturnScale()
    scale.update(np.zeros(1))
    scale.update(np.full(9, 4.0))
    # the older one counts 0.99999 times: mean 2, mean square 8, variance 4
    assert scale.denormalise(np.array([0.0, 1.0])) == pytest.approx([2, 4], abs=1e-4)


def test_equal_returns_are_not_blown_up():
    scale = ReturnScale()
    scale.update(np.array([2.0, 2.0]))
    assert scale.normalise(np.array([2.0, 2.1])) == pytest.approx([0, 1], abs=1e-4)  # spread 0.1


def test_small_differences_of_large_returns_stay():
    scale = ReturnScale()
    scale.update(np.array([1e6 - 0.5, 1e6 + 0.5]))  # float32 has steps of 0.06 there
    assert scale.normalise(np.array([1e6 - 0.5, 1e6 + 0.2])) == pytest.approx([-1, 0.4], abs=1e-3)


@pytest.mark.parametrize("value_norm", [True, False])
def test_returns_of_any_size_are_learned_only_with_it(value_norm):
    """Adam steps of 0.01 take a head that says 0 to 1,000 after many thousand, one that says "the mean" at once."""
    team = word_team(MARKET, stir=0.3)
    settings = LearnerSettings(value_norm=value_norm, critic_lr=0.01, discount=1.0, trace_decay=1.0)
    learner = Learner(team, settings)
    for _ in range(3):
        metrics = learner.update(rich(team))
    assert (metrics["critic/value_mean"] == pytest.approx(1000, rel=0.05)) == value_norm


def test_the_scale_resumes_with_the_learner():
    team = word_team(MARKET, stir=0.3)
    settings = learner_settings("mappo", critic_lr=0.01)
    assert settings.value_norm
    learner = Learner(team, settings)
    learner.update(rich(team))
    again = Learner(team, settings)
    again.load_state_dict(learner.state_dict())
    for first, second in zip(learner.critic.scales, again.critic.scales, strict=True):
        assert first.sums.tolist() == second.sums.tolist()
        assert np.abs(first.sums).min() > 0


@pytest.mark.parametrize("knobs", [{}, {"level": "token"}, {"credit": "round"}, {"baseline": "none"}])
def test_values_and_the_kl_penalty_cost_one_pass_of_the_bare_base(knobs):
    team = word_team(MARKET, stir=0.3)
    learner = Learner(team, LearnerSettings(kl_weight=0.1, kl_place="reward", micro_batch=64, **knobs))
    [base] = team.bases
    lora = next(module for module in base.peft.modules() if hasattr(module, "lora_A"))
    played, bare = play(team), []
    base.trunk.register_forward_hook(lambda *_: bare.append(bool(lora.disable_adapters)))
    learner.update(played)
    assert bare.count(True) == 1
    assert bare.count(False) >= len(MARKET)


@pytest.mark.parametrize("sampling", [None, SamplingParams(temperature=0.7, top_k=12, max_new_tokens=4)])
@pytest.mark.parametrize("knobs", [{}, {"level": "token"}, {"credit": "round"}])
def test_the_joint_pass_gives_what_separate_passes_give(sampling, knobs):
    team = word_team(MARKET, sampling=sampling, stir=0.3)
    learner = Learner(team, LearnerSettings(micro_batch=3, **knobs))
    batch = build_batch(play(team), team.policies, learner.settings)
    [wanted], _ = learner.critic.bare_pass(batch)
    [features], reference = learner.critic.bare_pass(batch, reference=True)
    separate = np.concatenate(learner.scorer.logprobs(team.bases[0], None, batch.actions))
    assert features.shape == (batch.num_values.sum(), team.bases[0].hidden_size)
    np.testing.assert_allclose(features, wanted, rtol=0, atol=1e-6 * wanted.abs().max().item())
    np.testing.assert_allclose(reference, separate, rtol=1e-6, atol=1e-6)
    assert np.abs(reference - batch.old).max() > 1e-3  # the adapters are stirred
