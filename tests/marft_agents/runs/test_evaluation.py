"""Evaluations and their intervals against numbers worked by hand."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from marft_agents.policies.policy import text_action
from marft_agents.policies.scripted import ScriptedPolicy
from marft_agents.runs.evaluation import Evaluation, evaluate, wilson
from marft_agents.trajectory import Action, SampledTurn, Trajectory, score
from tests.helpers.fakes import Broken, Market


def evaluation(rows) -> Evaluation:
    return Evaluation(np.asarray(rows, np.float64), ())


def test_wilson_interval_by_hand():
    # p = 0.3, n = 10, z = 1.96: centre (0.3 + z^2/20) / (1 + z^2/10) = 0.35546, half 0.24745
    found = wilson(0.3, 10)
    assert found.low == pytest.approx(0.10779, abs=1e-5)
    assert found.high == pytest.approx(0.60322, abs=1e-5)


def test_wilson_is_never_degenerate():
    assert wilson(0.0, 20).low == 0.0
    assert wilson(0.0, 20).high == pytest.approx(0.16113, abs=1e-5)
    assert wilson(1.0, 20).low == pytest.approx(1 - 0.16113, abs=1e-5)
    assert math.isnan(wilson(math.nan, 0).mean)
    assert wilson(math.nan, 0)[1:] == (0.0, 1.0)


@pytest.mark.parametrize("mean", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("count", [1, 7, 300])
def test_wilson_bounds_are_the_shares_that_a_normal_test_does_not_reject(mean, count):
    z = NormalDist().inv_cdf(0.975)
    for bound in wilson(mean, count)[1:]:
        assert (mean - bound) ** 2 == pytest.approx(z**2 * bound * (1 - bound) / count, abs=1e-9)


def test_nothing_scored_has_no_accuracy():
    assert math.isnan(evaluation([[math.nan], [math.nan]]).accuracy.mean)


def test_accuracy_counts_scenarios_not_seeds():
    found = evaluation([[1, 1, 1, 1], [0, 0, 0, 0], [math.nan, 1, 1, 1]]).accuracy
    assert found == wilson(2 / 3, 3)


def test_violations_are_a_share_of_the_played_episodes_that_tell():
    def played(failure=None, **infos):
        return Trajectory(0, 0, (), True, False, infos=infos, failure=failure)

    def found(*trajectories):
        return Evaluation(np.zeros((len(trajectories), 1)), trajectories).violations

    assert found(played(success=1.0, violation=1.0), played(violation=0.0)) == 0.5
    assert found(played(violation=0.0), played("broken", violation=1.0)) == 0.0
    assert found(played(success=1.0)) is None


def test_score_reads_infos_before_the_return():
    def episode(**infos):
        return Trajectory(0, 0, (), True, False, infos=infos)

    assert score(episode(success=1.0)) == 1.0
    assert score(episode()) == 0.0
    assert math.isnan(score(Trajectory(0, 0, (), True, False, failure="reset: it broke")))


def test_every_scenario_is_played_once_per_seed_with_its_own_options_and_seed():
    resets, ended = [], []

    class Watched(Market):
        def reset(self, seed=None, options=None):
            resets.append((seed, options))
            super().reset(seed, options)

        def step(self, action):
            super().step(action)
            for info in self.infos.values():
                info["success"] = float(self.start == 9)

    scenarios = [{"offset": 7, "seed": 3}, {"offset": 2}]
    start = np.random.default_rng(3).integers(5)
    scenarios.append({"offset": 9 - np.random.default_rng(2).integers(5)})
    policy = ScriptedPolicy(lambda agent, observation: "a")
    found = evaluate(Watched, policy, scenarios, seeds=(4, 5), num_envs=1, on_end=ended.append)
    assert resets == [(3, {"offset": 7}), (1, {"offset": 2}), (2, scenarios[2])] * 2
    first = float(start + 7 == 9)
    assert found.scores.tolist() == [[first, first], [0, 0], [1, 1]]
    assert [(t.seed, t.group) for t in found.trajectories] == [(3, 0), (1, 1), (2, 2)] * 2
    assert len(ended) == 6
    assert all(a is b for a, b in zip(ended, found.trajectories, strict=True))


def test_episodes_that_failed_are_counted_and_cost_no_tokens():
    found = evaluate(lambda: Broken("reset"), ScriptedPolicy(lambda agent, observation: "a"), [{}] * 5)
    assert found.failures == 3  # seeds 0, 2 and 4
    assert np.isnan(found.scores[:, 0]).tolist() == [True, False, True, False, True]
    assert found.accuracy == wilson(1.0, 2)

    def played(tokens, failure=None):
        action = Action("x", np.zeros(1, np.int32), np.zeros(tokens, np.int32), np.zeros(tokens, np.float32), True)
        turns = (
            SampledTurn("a_0", action, 0.0),
            SampledTurn("b_0", text_action("x"), 0.0),
            SampledTurn("a_0", action, 0.0),
        )
        return Trajectory(0, 0, turns, terminated=True, truncated=False, failure=failure)

    assert Evaluation(np.zeros((3, 1)), (played(2), played(5), played(100, "broken"))).tokens_per_episode == 7
    assert Evaluation(np.zeros((1, 1)), (played(100, "broken"),)).tokens_per_episode == 0


def test_an_episode_without_infos_succeeds_with_a_positive_return():
    def earning(reward, **infos):
        turns = (SampledTurn("a_0", text_action("x"), reward),)
        return Trajectory(0, 0, turns, terminated=True, truncated=False, infos=infos)

    assert [score(earning(r)) for r in (-1.0, 0.0, 0.1)] == [0, 0, 1]
    assert score(earning(5.0, success=0.0)) == 0


def test_prefixes_are_replayed_before_the_policy_is_asked():
    asked = []

    def script(agent, observation):
        asked.append(agent)
        return "a"

    prefixes = [(text_action("1"), text_action("2")), ()]
    found = evaluate(Market, ScriptedPolicy(script), [{}, {}], seeds=(0, 1), num_envs=1, prefixes=prefixes)
    texts = [[turn.action.text for turn in trajectory.turns] for trajectory in found.trajectories]
    assert texts == [["1", "2", *"aaaaa"], [*"aaaaaaa"]] * 2
    assert len(asked) == 2 * (5 + 7)


def test_prefixes_are_those_of_all_scenarios():
    with pytest.raises(ValueError, match="zip"):
        evaluate(Market, ScriptedPolicy(lambda agent, observation: "a"), [{}, {}], prefixes=[()])
