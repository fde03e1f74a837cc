"""Chained GAE against a brute-force sum, at every place where an episode can end; normalisation; intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.advantages import chain_steps, explained_variance, gae, normalise
from marft_agents.batch import estimate, links
from marft_agents.evaluation import Evaluation, paired_difference, wilson
from marft_agents.records import Action, Trajectory, Turn
from marft_agents.settings import LearnerSettings

NUMBERS = st.floats(-2, 2, width=32)


def brute_force(rewards, values, discounts, lambdas, bootstrap):
    """A_k = sum over j >= k of (product of gamma*lambda from k to j-1) * delta_j, written out as double loops."""
    following = [*values[1:], bootstrap]
    deltas = [r + g * v1 - v for r, g, v1, v in zip(rewards, discounts, following, values, strict=True)]
    sums = []
    for k in range(len(values)):
        total, weight = 0.0, 1.0
        for j in range(k, len(values)):
            total += weight * deltas[j]
            weight *= discounts[j] * lambdas[j]
        sums.append(total)
    return sums


@st.composite
def chains(draw):
    turns = draw(st.integers(1, 7))
    return {
        "rewards": draw(st.lists(NUMBERS, min_size=turns, max_size=turns)),
        "lengths": draw(st.lists(st.integers(1, 5), min_size=turns, max_size=turns)),
        "discount": draw(st.floats(0.5, 1)),
        "trace_decay": draw(st.floats(0, 1)),
        "terminated": draw(st.booleans()),
        "bootstrap": draw(NUMBERS),
    }


@settings(deadline=None)
@given(chain=chains(), token_level=st.booleans(), data=st.data())
def test_chained_gae_is_the_brute_force_sum(chain, token_level, data):
    lengths = chain["lengths"] if token_level else [1] * len(chain["rewards"])
    rewards, discounts, lambdas = chain_steps(
        chain["rewards"],
        lengths,
        discount=chain["discount"],
        trace_decay=chain["trace_decay"],
        terminated=chain["terminated"],
    )
    values = np.asarray(data.draw(st.lists(NUMBERS, min_size=sum(lengths), max_size=sum(lengths))))
    found = gae(rewards, values, discounts, lambdas, chain["bootstrap"])
    np.testing.assert_allclose(found, brute_force(rewards, values, discounts, lambdas, chain["bootstrap"]), atol=1e-9)


def test_numbers_worked_by_hand():
    # two turns, gamma 0.5, lambda 0.5, reward 1 at the end, V = 0.2 then 0.4, terminated:
    # delta_1 = 1 - 0.4 = 0.6; delta_0 = 0 + 0.5*0.4 - 0.2 = 0; A_0 = 0 + 0.25*0.6 = 0.15
    steps = chain_steps([0, 1], [1, 1], discount=0.5, trace_decay=0.5, terminated=True)
    np.testing.assert_allclose(gae(steps[0], np.array([0.2, 0.4]), steps[1], steps[2], 99.0), [0.15, 0.6])
    # the same cut by the horizon with V = 2 after it: delta_1 = 1 + 0.5*2 - 0.4 = 1.6; A_0 = 0.4
    steps = chain_steps([0, 1], [1, 1], discount=0.5, trace_decay=0.5, terminated=False)
    np.testing.assert_allclose(gae(steps[0], np.array([0.2, 0.4]), steps[1], steps[2], 2.0), [0.4, 1.6])


def test_inside_a_turn_nothing_is_discounted():
    rewards, discounts, lambdas = chain_steps([1, 2], [3, 2], discount=0.9, trace_decay=0.8, terminated=True)
    assert rewards.tolist() == [0, 0, 1, 0, 2]
    assert discounts.tolist() == [1, 1, 0.9, 1, 0]
    assert lambdas.tolist() == [1, 1, 0.8, 1, 0.8]


def test_every_token_of_a_turn_shares_its_return_when_values_are_zero():
    rewards, discounts, lambdas = chain_steps([0, 1], [3, 2], discount=0.9, trace_decay=1.0, terminated=True)
    np.testing.assert_allclose(gae(rewards, np.zeros(5), discounts, lambdas, 0.0), [0.9, 0.9, 0.9, 1, 1])


# ------------------------------------------------------------------ episodes


def action(tokens):
    return Action("x", np.zeros(1, np.int32), np.zeros(tokens, np.int32), np.zeros(tokens, np.float32), True)


def episode(turns, **changes):
    made = tuple(Turn(agent, action(tokens), reward, number) for number, (agent, tokens, reward) in enumerate(turns))
    return Trajectory(**{"seed": 0, "group": 0, "turns": made, "terminated": True, "truncated": False, **changes})


def test_estimate_runs_each_chain_by_itself_and_normalises_per_agent():
    episodes = [
        episode([("a_0", 2, 0.0), ("b_0", 1, 1.0)]),
        episode([("a_0", 1, 0.0), ("b_0", 3, 0.0)]),
        episode([("a_0", 1, 0.0)], terminated=False, truncated=True),
    ]
    chain = links(episodes)
    plain = LearnerSettings(discount=1.0, trace_decay=1.0)
    samples = estimate(episodes, chain, [np.zeros(1)] * 5, {2: 0.5}, plain)
    assert [s.agent for s in samples] == ["a_0", "b_0", "a_0", "b_0", "a_0"]
    assert [s.returns.tolist() for s in samples] == [[1.0], [1.0], [0.0], [0.0], [0.5]]
    for agent in ("a_0", "b_0"):
        own = np.concatenate([s.advantages for s in samples if s.agent == agent])
        assert abs(own.mean()) < 1e-9
        assert own.std() == pytest.approx(1)


def test_group_centring_compares_episodes_of_one_task_draw_only():
    """An easy draw (returns 1, 1) teaches nothing; a mixed one (1, 0) teaches, scaled over the agent's batch."""
    returns, groups = [1.0, 1.0, 1.0, 0.0], [0, 0, 1, 1]
    episodes = [episode([("a_0", 1, r)], group=g) for r, g in zip(returns, groups, strict=True)]
    samples = estimate(episodes, links(episodes), [np.zeros(1)] * 4, {}, LearnerSettings(centring="group"))
    scale = np.std([0, 0, 0.5, -0.5])
    assert [s.advantages.item() for s in samples] == pytest.approx([0, 0, 0.5 / scale, -0.5 / scale])
    assert [s.returns.item() for s in samples] == returns


def test_untrained_turns_pass_their_reward_to_the_trained_turn_before_them():
    turns = [("a_0", 1, 0.0), ("scripted_0", 0, 0.25), ("b_0", 1, 0.5), ("scripted_0", 0, 1.0)]
    chain = links([episode(turns), episode(turns, failure="broken")])
    assert [(link.turn.agent, link.turn.reward) for link in chain] == [("a_0", 0.25), ("b_0", 1.5)]


def test_equal_advantages_teach_nothing():
    assert normalise(np.full(4, 3.0)).tolist() == [0, 0, 0, 0]
    assert normalise(np.zeros(0)).tolist() == []
    assert normalise(np.array([1.0, 3.0])).tolist() == [-1, 1]


def test_explained_variance():
    returns = np.array([0.0, 1.0])
    assert explained_variance(returns, returns) == 1
    assert explained_variance(np.full(2, 0.5), returns) == 0
    assert explained_variance(returns, np.ones(2)) == 0


# ------------------------------------------------------------------ intervals


def test_wilson_is_the_published_interval():
    assert wilson(0.0, 10).low == 0
    assert wilson(0.0, 10).high == pytest.approx(0.2775, abs=1e-4)  # Wilson 1927, as tabulated
    assert wilson(1.0, 10).low == pytest.approx(0.7225, abs=1e-4)


def test_paired_difference_by_hand_and_its_refusal():
    before = Evaluation(np.array([[0.0], [0.0], [1.0], [1.0]]), ())
    after = Evaluation(np.array([[1.0], [1.0], [1.0], [0.0]]), ())
    gain = paired_difference(after, before)  # gains 1, 1, 0, -1: mean 0.25, sd 0.957
    assert gain.mean == 0.25
    assert gain.high == pytest.approx(0.25 + 1.96 * 0.9574 / 2, abs=1e-3)
    with pytest.raises(ValueError, match="same scenarios: found 4 and 1"):
        paired_difference(after, Evaluation(np.zeros((1, 1)), ()))


def test_failed_episodes_are_unscored_not_wrong():
    result = Evaluation(np.array([[1.0, np.nan], [np.nan, np.nan]]), ())
    assert result.per_scenario.tolist() == [1.0]
    assert result.accuracy.mean == 1.0
