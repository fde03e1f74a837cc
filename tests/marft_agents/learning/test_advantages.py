"""Chained GAE against a brute-force sum, at every place where an episode can end; normalisation; intervals."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.learning.advantages import (
    chain_steps,
    costs_to_go,
    explained_variance,
    gae,
    group_mean,
    leave_one_out,
    length_adaptive_lambda,
    normalise,
    overlong_punishment,
    preceding_lambdas,
)
from marft_agents.learning.batch import build_batch
from marft_agents.learning.settings import LearnerSettings
from marft_agents.runs.evaluation import Evaluation, wilson
from marft_agents.trajectory import Action, SampledTurn, Trajectory
from tests.helpers.rows import credited, rows_of

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


def steps_of(turn_rewards, turn_lengths, *, discount, terminated, **decays):
    """Return the steps of one episode; nothing follows its last turn where it terminated."""
    discounts = np.full(len(turn_rewards), discount)
    discounts[-1] *= not terminated
    return chain_steps(np.array(turn_rewards, float), np.array(turn_lengths), discounts=discounts, **decays)


@settings(deadline=None)
@given(chain=chains(), token_level=st.booleans(), data=st.data())
def test_chained_gae_is_the_brute_force_sum(chain, token_level, data):
    lengths = chain["lengths"] if token_level else [1] * len(chain["rewards"])
    rewards, discounts, lambdas = steps_of(
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
    steps = steps_of([0, 1], [1, 1], discount=0.5, trace_decay=0.5, terminated=True)
    np.testing.assert_allclose(gae(steps[0], np.array([0.2, 0.4]), steps[1], steps[2], 99.0), [0.15, 0.6])
    # the same cut by the horizon with V = 2 after it: delta_1 = 1 + 0.5*2 - 0.4 = 1.6; A_0 = 0.4
    steps = steps_of([0, 1], [1, 1], discount=0.5, trace_decay=0.5, terminated=False)
    np.testing.assert_allclose(gae(steps[0], np.array([0.2, 0.4]), steps[1], steps[2], 2.0), [0.4, 1.6])


def test_inside_a_turn_nothing_is_discounted():
    rewards, discounts, lambdas = steps_of([1, 2], [3, 2], discount=0.9, trace_decay=0.8, terminated=True)
    assert rewards.tolist() == [0, 0, 1, 0, 2]
    assert discounts.tolist() == [1, 1, 0.9, 1, 0]
    assert lambdas.tolist() == [1, 1, 0.8, 1, 0.8]


@pytest.mark.parametrize("inner", [1, [1, 1], 0])
def test_lambda_between_turns_is_kept_where_that_between_tokens_is_a_whole_number(inner):
    _, _, lambdas = steps_of([1, 2], [2, 1], discount=0.9, trace_decay=0.8, terminated=True, token_trace_decays=inner)
    assert lambdas.tolist() == [float(np.max(inner)), 0.8, 0.8]


def test_every_token_of_a_turn_shares_its_return_when_values_are_zero():
    rewards, discounts, lambdas = steps_of([0, 1], [3, 2], discount=0.9, trace_decay=1.0, terminated=True)
    np.testing.assert_allclose(gae(rewards, np.zeros(5), discounts, lambdas, 0.0), [0.9, 0.9, 0.9, 1, 1])


# ------------------------------------------------------------------ episodes


def action(tokens):
    return Action("x", np.zeros(1, np.int32), np.zeros(tokens, np.int32), np.zeros(tokens, np.float32), True)


def episode(turns, **changes):
    made = tuple(
        SampledTurn(agent, action(tokens), reward, number) for number, (agent, tokens, reward) in enumerate(turns)
    )
    return Trajectory(**{"seed": 0, "group": 0, "turns": made, "terminated": True, "truncated": False, **changes})


def test_estimate_runs_each_chain_by_itself_and_normalises_per_agent():
    episodes = [
        episode([("a_0", 2, 0.0), ("b_0", 1, 1.0)]),
        episode([("a_0", 1, 0.0), ("b_0", 3, 0.0)]),
        episode([("a_0", 1, 0.0)], terminated=False, truncated=True),
    ]
    plain = LearnerSettings(discount=1.0, trace_decay=1.0)
    samples = credited(episodes, [np.zeros(1)] * 5, {(2, ""): 0.5}, plain)
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
    samples = credited(episodes, [np.zeros(1)] * 4, {}, LearnerSettings(centring="group"))
    scale = np.std([0, 0, 0.5, -0.5])
    assert [s.advantages.item() for s in samples] == pytest.approx([0, 0, 0.5 / scale, -0.5 / scale])
    assert [s.returns.item() for s in samples] == returns


def test_each_agent_is_centred_by_itself():
    played = [episode([("a_0", 1, 0.0), ("b_0", 1, r)], group=g) for r, g in ((2.0, 0), (4.0, 0), (5.0, 1), (9.0, 1))]
    for centring, means in (("batch", (5, 5, 5, 5)), ("group", (3, 3, 7, 7))):
        plain = LearnerSettings(discount=0.5, trace_decay=1.0, centring=centring, scaling="none")
        samples = credited(played, [np.zeros(1)] * 8, {}, plain)
        for agent, share in (("a_0", 0.5), ("b_0", 1.0)):  # a_0 acts first: half of the return is its credit
            found = [s.advantages.item() for s in samples if s.agent == agent]
            assert found == [share * (r - mean) for r, mean in zip((2, 4, 5, 9), means, strict=True)]
            assert [s.credit.item() for s in samples if s.agent == agent] == [share * r for r in (2, 4, 5, 9)]


def test_untrained_turns_pass_their_reward_to_the_trained_turn_before_them():
    turns = [("a_0", 1, 0.0), ("scripted_0", 0, 0.25), ("b_0", 1, 0.5), ("scripted_0", 0, 1.0)]
    batch = build_batch([episode(turns), episode(turns, failure="broken")], {}, LearnerSettings())
    assert [(row.agent, row.reward) for row in rows_of(batch)] == [("a_0", 0.25), ("b_0", 1.5)]


def test_equal_advantages_teach_nothing():
    assert normalise(np.full(4, 3.0)).tolist() == [0, 0, 0, 0]
    assert normalise(np.zeros(0)).tolist() == []
    assert normalise(np.array([1.0, 3.0])).tolist() == [-1, 1]


def test_explained_variance():
    returns = np.array([0.0, 1.0])
    assert explained_variance(returns, returns) == 1
    assert explained_variance(np.full(2, 0.5), returns) == 0
    assert explained_variance(returns, np.ones(2)) == 0


# ------------------------------------------------------------------ without a critic, and other credit


def test_baselines_of_a_group_by_hand():
    returns = np.array([0.0, 0.0, 3.0])
    assert group_mean(returns).tolist() == [1, 1, 1]
    assert leave_one_out(returns).tolist() == [1.5, 1.5, 0]
    # RLOO is the group mean times G / (G - 1)
    np.testing.assert_allclose(returns - leave_one_out(returns), (returns - group_mean(returns)) * 3 / 2)
    assert (leave_one_out(np.array([2.0])) - 2.0).tolist() == [0]  # nobody to be compared with


def test_lambda_by_length_gives_each_action_traces_of_a_share_of_its_length():
    for length in (40, 400):
        decay = length_adaptive_lambda(length, 0.05)
        assert sum(decay**t for t in range(100_000)) == pytest.approx(0.05 * length)
    assert length_adaptive_lambda(10, 0.05) == 0


def test_costs_to_go():
    assert costs_to_go(np.array([1.0, 2.0, 4.0])).tolist() == [7, 6, 4]


def test_the_overlong_punishment_is_that_of_the_paper():
    # L_max 20480, L_cache 4096: none up to 16384, then linear down to -1
    found = [overlong_punishment(length, 20480, 0.2) for length in (100, 16384, 18432, 20480)]
    assert found == pytest.approx([0, 0, -0.5, -1])
    assert overlong_punishment(20480, 20480, 0.0) == 0


def test_traces_are_cut_where_the_preceding_agents_have_become_unlikely_to_act_as_they_did():
    # A_0 = d_0 + gamma lambda min(1, rho_1) (d_1 + gamma lambda min(1, rho_2) d_2)
    steps = steps_of([1, 2, 4], [1, 1, 1], discount=0.5, trace_decay=0.5, terminated=True)
    lambdas = preceding_lambdas(steps[2], np.array([0.1, 0.5, 3.0]))
    found = gae(steps[0], np.zeros(3), steps[1], lambdas, 0.0)
    np.testing.assert_allclose(found, [1 + 0.25 * 0.5 * (2 + 0.25 * 4), 2 + 0.25 * 4, 4])


JOINT = LearnerSettings(credit="round", discount=1.0, trace_decay=0.5, scaling="none", centring="none")


def test_joint_credit_is_one_advantage_for_all_who_act_in_a_round():
    turns = [
        SampledTurn(a, action(1), r, n) for a, r, n in (("a_0", 1, 0), ("b_0", 2, 0), ("a_0", 0, 1), ("b_0", 4, 1))
    ]
    played = [dataclasses.replace(episode([]), turns=tuple(turns))]
    batch = build_batch(played, {}, JOINT)
    assert batch.num_values.tolist() == [1, 0, 1, 0]  # the critic is asked before anyone acts
    values = [np.array([0.5]), np.zeros(0), np.array([1.0]), np.zeros(0)]
    samples = credited(played, values, {}, JOINT)
    # delta_1 = 4 - 1 = 3; delta_0 = 3 + 1 - 0.5 = 3.5; A_0 = 3.5 + 0.5 * 3
    assert [s.advantages.tolist() for s in samples] == [[5], [5], [3], [3]]
    assert [s.returns.tolist() for s in samples] == [[5.5], [], [4], []]
    # A2PO: what came before round 1 was done by agents that would now do it half as often
    found = credited(played, values, {}, JOINT, ratios={(0, 0): 2.0, (0, 1): 0.5})
    assert found[0].advantages.tolist() == [3.5 + 0.5 * 0.5 * 3]


def test_the_costs_of_a_round_are_those_of_all_its_decisions():
    turns = [SampledTurn(a, action(n), r, k) for a, n, r, k in (("a_0", 2, 0, 0), ("b_0", 1, 2, 0), ("a_0", 1, 4, 1))]
    played = [dataclasses.replace(episode([]), turns=tuple(turns))]
    per_token = dataclasses.replace(JOINT, level="token", trace_decay=1.0)
    values, costs = (
        [np.zeros(1), np.zeros(0), np.zeros(1)],
        [np.array([-0.25, -0.5]), np.array([-1.0]), np.array([-3.0])],
    )
    samples = credited(played, values, {}, per_token, costs=costs)
    assert [s.returns.tolist() for s in samples] == [[2 - 1.75 + 4 - 3], [], [4 - 3]]
    assert [s.advantages.tolist() for s in samples] == [[1.25, 1.25], [1.25], [1]]


def test_own_credit_runs_along_ones_own_turns():
    turns = [("a_0", 1, 1.0), ("b_0", 1, 2.0), ("b_0", 1, 4.0), ("a_0", 1, 8.0), ("b_0", 1, 16.0)]
    played = [episode(turns, terminated=False, truncated=True)]
    own = dataclasses.replace(JOINT, credit="own", trace_decay=1.0, discount=0.5)
    samples = credited(played, [np.zeros(1)] * 5, {(0, "a_0"): 100.0}, own)
    # a_0: 1 + 2 + 4, then 8 + 16 and half of what it is worth to be cut; b_0 starts with its own first turn
    assert [s.returns.item() for s in samples] == [7 + 0.5 * (24 + 50), 2 + 0.5 * (12 + 0.5 * 16), 12 + 8, 24 + 50, 16]


def test_an_episode_counts_once_in_its_group_however_many_turns_it_has():
    free = LearnerSettings(baseline="leave_one_out", scaling="none", centring="none")
    played = [
        episode([("a_0", 1, 0.0)] * 3 + [("a_0", 1, 3.0)]),
        episode([("a_0", 1, 1.0)]),
        episode([("a_0", 1, 0.0)]),
    ]
    samples = credited(played, [], {}, free)
    assert [s.advantages.item() for s in samples] == [2.5] * 4 + [1 - 1.5, 0 - 2.0]
    mean = dataclasses.replace(free, baseline="group", scaling="group")
    returns = np.array([3.0, 1.0, 0.0])
    wanted = (returns - returns.mean()) / returns.std()
    found = [s.advantages.item() for s in credited(played, [], {}, mean)]
    np.testing.assert_allclose(found, [wanted[0]] * 4 + [wanted[1], wanted[2]])


def test_turns_are_compared_with_the_same_turn_by_what_follows_it():
    by_turn = LearnerSettings(baseline="group", compare="turn", scaling="none", centring="none", discount=0.5)
    played = [episode([("a_0", 1, 7.0), ("a_0", 1, 2.0)]), episode([("a_0", 1, 1.0), ("a_0", 1, 4.0)])]
    found = [s.advantages.item() for s in credited(played, [], {}, by_turn)]
    assert found == [8 - 5.5, 2 - 3, 3 - 5.5, 4 - 3]


def test_only_the_compared_turn_of_a_branch_is_trained_and_earns_all_that_follows():
    turns = [("a_0", 1, 9.0), ("b_0", 1, 0.5), ("scripted_0", 0, 1.0), ("a_0", 1, 2.0)]
    played = [episode(turns, branch=1, group=4), episode([*turns[:3], ("a_0", 1, 0.0)], branch=1, group=4)]
    played.append(episode([("a_0", 1, 1.0)], branch=5))
    found = rows_of(build_batch(played, {}, LearnerSettings()))
    assert [(row.episode, row.agent, row.reward) for row in found] == [(0, "b_0", 3.5), (1, "b_0", 1.5)]
    c3 = LearnerSettings(baseline="leave_one_out", compare="turn", scaling="none", centring="none", branches=2)
    assert [s.advantages.item() for s in credited(played, [], {}, c3)] == [2, -2]


def test_what_shapes_a_reward_costs_the_tokens_before_it_and_counts_in_the_group():
    free = LearnerSettings(level="token", baseline="group", scaling="none", centring="none")
    played = [episode([("a_0", 2, 1.0)]), episode([("a_0", 1, 0.0)])]
    costs = [np.array([-0.25, -0.5]), np.array([-1.0])]
    samples = credited(played, [], {}, free, costs=costs)
    # to the end: 1 - 0.75 and 0 - 1, their mean -0.375
    assert [s.advantages.tolist() for s in samples] == [[0.25 + 0.375, 0.5 + 0.375], [-1 + 0.375]]
    critic = LearnerSettings(level="token", scaling="none", centring="none")
    samples = credited(played, [np.zeros(2), np.zeros(1)], {}, critic, costs=costs)
    assert [s.returns.tolist() for s in samples] == [[0.25, 0.5], [-1]]


def test_targets_of_the_critic_may_have_a_lambda_of_their_own():
    played = [episode([("a_0", 2, 0.0), ("b_0", 1, 1.0)])]
    values = [np.array([0.2, 0.4]), np.array([0.6])]
    vapo = LearnerSettings(
        level="token", discount=1.0, length_adaptive=1.0, value_trace_decay=1.0, scaling="none", centring="none"
    )
    samples = credited(played, values, {}, vapo)
    assert [s.returns.tolist() for s in samples] == [pytest.approx([1, 1]), [1]]  # what came, whatever V says
    # inside a_0's turn lambda is 1 - 1/2, between the turns 0.95
    last = 0.2 + 0.95 * 0.4
    assert samples[0].advantages.tolist() == pytest.approx([0.2 + 0.5 * last, last])


# ------------------------------------------------------------------ intervals


def test_wilson_is_the_published_interval():
    assert wilson(0.0, 10).low == 0
    assert wilson(0.0, 10).high == pytest.approx(0.2775, abs=1e-4)  # Wilson 1927, as tabulated
    assert wilson(1.0, 10).low == pytest.approx(0.7225, abs=1e-4)


def test_failed_episodes_are_unscored_not_wrong():
    result = Evaluation(np.array([[1.0, np.nan], [np.nan, np.nan]]), ())
    assert result.per_scenario.tolist() == [1.0]
    assert result.accuracy.mean == 1.0
