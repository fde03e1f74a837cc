"""Intervals and paired comparison against numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from marft_agents.evaluation import Evaluation, paired_difference, score, wilson
from marft_agents.records import Trajectory


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


def test_paired_difference_by_hand():
    found = paired_difference(evaluation([[1], [1], [0], [1]]), evaluation([[0], [1], [0], [0]]))
    # gains 1 0 0 1: mean 0.5, sd sqrt(1/3), half 1.96 * sd / 2
    assert found.mean == 0.5
    assert found.high - found.mean == pytest.approx(1.959964 * math.sqrt(1 / 3) / 2)
    assert found.low == pytest.approx(found.mean - (found.high - found.mean))


def test_paired_difference_averages_seeds_first_and_leaves_failed_scenarios_out():
    after = evaluation([[1, 0], [1, 1], [math.nan, math.nan]])
    before = evaluation([[0, 0], [math.nan, 0], [1, 1]])
    found = paired_difference(after, before)
    assert found.mean == 0.75  # gains 0.5 and 1; the third was never scored after


def test_paired_difference_of_one_scenario_knows_nothing():
    assert paired_difference(evaluation([[1]]), evaluation([[0]]))[1:] == (-math.inf, math.inf)


def test_nothing_scored_has_no_accuracy_and_no_gain():
    nothing = evaluation([[math.nan], [math.nan]])
    assert math.isnan(nothing.accuracy.mean)
    assert math.isnan(paired_difference(nothing, nothing).mean)


def test_paired_difference_refuses_other_scenarios():
    with pytest.raises(ValueError, match="found 1 and 2"):
        paired_difference(evaluation([[1]]), evaluation([[1], [0]]))


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
