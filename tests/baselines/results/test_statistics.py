"""Statistics against scipy, statsmodels, brute force and numbers worked by hand; coverage on a simulated null."""

import itertools
import math
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from baselines.results import statistics
from baselines.results.statistics import (
    clopper_pearson,
    grid_mean,
    holm,
    minimum_detectable_effect,
    naive_bootstrap,
    noise_floor,
    paired_cluster_bootstrap,
    paired_difference,
    pass_hat_k,
    samples_for_standard_error,
    wilson,
)


def generator():
    return np.random.default_rng(0)


# ------------------------------------------------------------------ one share


@pytest.mark.parametrize(("successes", "count"), [(0, 10), (10, 10), (3, 7), (81, 263), (15, 148)])
def test_single_shares_are_those_of_statsmodels(successes, count):
    assert wilson(successes / count, count)[1:] == pytest.approx(
        proportion_confint(successes, count, method="wilson"), abs=1e-9
    )
    assert clopper_pearson(successes, count)[1:] == pytest.approx(proportion_confint(successes, count, method="beta"))


def test_newcombes_worked_example():
    """Newcombe 1998 (Statistics in Medicine 17:857), table I: 81/263, Wilson and exact."""
    assert wilson(81 / 263, 263)[1:] == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert clopper_pearson(81, 263)[1:] == pytest.approx((0.2527, 0.3676), abs=5e-5)


def test_impossible_shares_are_refused():
    assert clopper_pearson(0, 0)[1:] == (0, 1)
    with pytest.raises(ValueError, match="found 4 successes of 3"):
        clopper_pearson(4, 3)


# ------------------------------------------------------------------ paired difference


def test_without_a_scenario_effect_it_is_the_t_interval_of_the_seed_means():
    d = np.array([[0.3, 0.1], [0.5, 0.7], [-0.1, 0.1], [0.4, 0.2]])  # the two columns have one mean: MS_scenarios = 0
    found = paired_difference(np.zeros_like(d), d)
    wanted = stats.ttest_1samp(d.mean(axis=1), 0)
    interval = wanted.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.p_value == pytest.approx(wanted.pvalue)
    assert found.standard_error == pytest.approx(stats.sem(d.mean(axis=1)))


def test_one_seed_gives_the_paired_t_test_over_scenarios():
    a, b = generator().random((2, 1, 30))
    found, wanted = paired_difference(a, b), stats.ttest_rel(b[0], a[0])
    interval = wanted.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.p_value == pytest.approx(wanted.pvalue, rel=1e-6)
    assert (found.seeds, found.scenarios, found.pairs) == (1, 30, 30)


def test_both_parts_of_the_variance_by_hand():
    """Two seeds, three scenarios; mean squares and the weighted quantile worked by hand.

    d = [[0, .2, .4], [.4, .4, 1]]: mean .4; seed means .2, .6: MS_seeds = 3 x .08 = .24. Scenario means .2, .3, .7:
    MS_scenarios = 2 x .07 = .14. Residuals [[0, .1, -.1], [0, -.1, .1]]: MS_residual = .04 / 2 = .02.
    U = .24 / 6 = .04, V = (.14 - .02) / 6 = .02; t(1) = 12.7062, t(2) = 4.30265.
    Half-width = (.04 x 12.7062 + .02 x 4.30265) / sqrt(.06) = 2.42622.
    """
    found = paired_difference(np.full((2, 3), 2), [[2, 2.2, 2.4], [2.4, 2.4, 3]])
    assert found.mean == pytest.approx(0.4)
    assert found.standard_error == pytest.approx(math.sqrt(0.06))
    assert found.high - found.mean == pytest.approx(2.42622, abs=1e-5)


def test_missing_cells_give_the_clustered_errors_of_statsmodels():
    random = generator()
    d = random.normal(size=(5, 40)) + random.normal(size=(5, 1)) + 2 * random.normal(size=(1, 40))
    d[random.random(d.shape) < 0.1] = math.nan
    rows, columns = np.nonzero(~np.isnan(d))
    values = d[rows, columns]
    variances = {
        name: OLS(values, np.ones_like(values)).fit(cov_type="cluster", cov_kwds={"groups": groups}).bse[0] ** 2
        for name, groups in (("seeds", rows), ("scenarios", columns))
    }
    design = np.column_stack([np.eye(5)[rows], np.eye(40)[columns][:, 1:]])
    additive = OLS(values, design).fit()
    found = paired_difference(np.zeros_like(d), d)
    wanted = variances["seeds"] + variances["scenarios"] - additive.mse_resid / len(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.standard_error == pytest.approx(math.sqrt(wanted), rel=1e-6)
    assert found.pairs == len(values)


def test_failed_episodes_are_left_out_of_both_arms():
    a, b = np.array([[0.0, 1, 0], [0, 1, 0]]), np.array([[1.0, 1, 1], [1, 1, 0]])
    a[:, 1] = math.nan
    assert paired_difference(a, b) == paired_difference(a[:, [0, 2]], b[:, [0, 2]])


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 12))
def test_swapping_the_arms_changes_the_sign_alone(seed, seeds, scenarios):
    random = np.random.default_rng(seed)
    a, b = (random.random((2, seeds, scenarios)) < 0.5).astype(float)
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert (back.mean, back.low, back.high) == pytest.approx((-there.mean, -there.high, -there.low))
    assert back.p_value == pytest.approx(there.p_value)
    assert (there.p_value < 0.05) == (not there.low <= 0 <= there.high)


def test_one_fixed_team_is_compared_with_every_seed():
    a, b = generator().random((1, 20)), generator().random((4, 20))
    assert paired_difference(a, b) == paired_difference(np.repeat(a, 4, axis=0), b)


def test_equal_scores_leave_rare_differences_open():
    same = np.tile([0.0, 1.0], (1, 150))
    found = paired_difference(same, same)
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 300)) == pytest.approx(3.69 / 300, rel=0.01)
    assert (found.mean, found.p_value) == (0, 1)
    assert paired_difference(100 * same, 100 * same).high == 0, "the scale of tokens is not known"
    always = paired_difference(np.zeros((1, 6)), np.ones((1, 6)))
    assert always.p_value == pytest.approx(2 * 0.5**6), "the sign test"
    assert always.low == pytest.approx(2 * 0.025 ** (1 / 6) - 1), "scenarios that deviate may lose"


@pytest.mark.parametrize(
    "d", [[[1, 0, 0], [0, 1, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[2, 1, 1, 0, 0], [0, 1, 0, 1, 2]]]
)
def test_seeds_that_agree_up_to_rounding_are_no_certainty(d):
    """Means such as 1/3 are rounded, so the sums of the seeds are not exactly equal."""
    d = np.asarray(d, np.float64)
    wanted = stats.ttest_1samp(d.ravel(), 0)  # all cells as independent: no part of the variance is left
    found = paired_difference(np.full_like(d, -5), d - 5)
    assert found.mean == pytest.approx(d.mean())
    assert found.standard_error == pytest.approx(stats.sem(d.ravel()))
    assert found.p_value > wanted.pvalue, "with the quantile of fewer scenarios"
    assert grid_mean(d / 2).low < 0.1


def test_a_difference_of_nothing_is_not_a_number():
    found = paired_difference([[math.nan]], [[1.0]])
    assert math.isnan(found.mean)
    assert (found.low, found.high, found.pairs) == (-math.inf, math.inf, 0)
    single = paired_difference([[0.0]], [[1.0]])
    assert (single.mean, single.low, single.high) == (1, -1, 1)
    assert paired_difference([[0.0]], [[2.0]])[:3] == (2, -math.inf, math.inf)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 4))
def test_intervals_of_shares_end_where_shares_do(seed, seeds, scenarios):
    a, b = np.random.default_rng(seed).integers(0, 3, size=(2, seeds, scenarios)) / 2
    found, wide = paired_difference(a, b), paired_difference(10 * a, 10 * b)
    assert -1 <= found.low <= found.mean <= found.high <= 1
    if len(np.unique(b - a)) > 1:  # the tenfold scores are no shares
        assert found[1:4] == pytest.approx((max(wide.low / 10, -1), min(wide.high / 10, 1), wide.p_value))
    mean = grid_mean(a)
    assert 0 <= mean.low <= mean.mean <= mean.high <= 1


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.zeros((2, 3)), np.zeros((2, 4)), r"\(2, 3\) and \(2, 4\) \[seeds, scenarios\]; wanted the same scenarios"),
        (np.zeros((2, 3)), np.zeros((3, 3)), "as many training seeds on both sides or one"),
        (np.zeros(3), np.zeros(3), r"a has shape \(3,\), wanted \[training seeds, scenarios\]"),
        (np.zeros((0, 3)), np.zeros((0, 3)), "at least one of each"),
        (np.zeros((1, 2)), np.array([[1.0, math.inf]]), "b holds an infinite score"),
    ],
)
def test_bad_grids_are_refused(a, b, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(a, b)


def test_grid_mean_is_the_difference_to_zero():
    scores = generator().random((5, 50))
    assert grid_mean(scores) == paired_difference(np.zeros_like(scores), scores).interval


def test_extreme_differences_have_extreme_p_values():
    b = 1000 + generator().random((1, 500))
    assert paired_difference(np.zeros_like(b), b).p_value < 1e-99


# ------------------------------------------------------------------ bootstraps


def test_the_cluster_bootstrap_is_the_enumeration_of_all_resamples():
    d = np.array([[0.0, 0.3], [0.5, 1.0]])
    means = [
        d[np.ix_(rows, columns)].mean()
        for rows in itertools.product(range(2), repeat=2)
        for columns in itertools.product(range(2), repeat=2)
    ]
    found = paired_cluster_bootstrap(np.zeros_like(d), d, generator(), resamples=40_000)
    assert (found.low, found.high) == (min(means), max(means)), "16 equally likely resamples: the ends are the extremes"
    zero = paired_cluster_bootstrap(np.zeros_like(d), d - 0.3, generator(), resamples=40_000)
    below = float(np.mean(np.array(means) - 0.3 <= 0))
    assert zero.p_value == pytest.approx(2 * min(below, 1 - below), abs=0.02)


def test_the_cluster_bootstrap_has_the_standard_error_of_its_closed_form():
    """Var* = ((S-1)/S MS_seeds + (N-1)/N MS_scenarios + (S-1)(N-1)/(SN) MS_residual) / (S N)."""
    random = generator()
    d = random.normal(size=(5, 400)) + random.normal(size=(5, 1))
    rows, columns = d.mean(axis=1, keepdims=True), d.mean(axis=0, keepdims=True)
    squares = [
        400 * rows.var(ddof=1),
        5 * columns.var(ddof=1),
        ((d - rows - columns + d.mean()) ** 2).sum() / (4 * 399),
    ]
    variance = (0.8 * squares[0] + 399 / 400 * squares[1] + 0.8 * 399 / 400 * squares[2]) / 2000
    found = paired_cluster_bootstrap(np.zeros_like(d), d, generator())
    assert (found.high - found.low) / 2 / 1.96 == pytest.approx(math.sqrt(variance), rel=0.06)


def test_ten_thousand_resamples_of_a_grid_take_less_than_a_second():
    a, b = (generator().random((2, 5, 400)) < 0.5).astype(float)
    started = time.process_time()
    paired_cluster_bootstrap(a, b, generator())
    assert time.process_time() - started < 1


@pytest.mark.parametrize("bootstrap", [paired_cluster_bootstrap, naive_bootstrap])
def test_bootstraps_skip_failed_episodes_and_repeat(bootstrap):
    a, b = generator().random((2, 4, 30))
    b[0, :5] = math.nan
    found = bootstrap(a, b, generator(), resamples=1500)
    assert found == bootstrap(a, b, generator(), resamples=1500)
    assert found.mean == pytest.approx(np.nanmean(b - a))
    assert found.low < found.mean < found.high


# ------------------------------------------------------------------ tables, power, planning


def test_holm_of_a_worked_example():
    """0.005, 0.011, 0.02, 0.04, 0.13 times 5, 4, 3, 2, 1: .025, .044, .06, .08, .13 (already ascending)."""
    assert holm([0.011, 0.02, 0.005, 0.13, 0.04]) == pytest.approx([0.044, 0.06, 0.025, 0.13, 0.08])
    assert holm([]) == []
    assert holm([0.02, math.nan])[0] == pytest.approx(0.02), "a row without a test does not count"


def test_holm_is_that_of_statsmodels():
    given = np.random.default_rng(0).uniform(0, 0.1, 40).round(2)  # with ties, and with values above 1 before the cut
    assert holm(given) == pytest.approx(multipletests(given, method="holm")[1])
    assert given.max() <= 0.1, "the argument stays as it was"


@pytest.mark.parametrize(("scenarios", "points"), [(200, 10.8), (500, 6.9), (1098, 4.6), (1319, 4.2)])
def test_detectable_effects_of_one_seed(scenarios, points):
    """Discordance 0.3 at 80 % power."""
    assert 100 * minimum_detectable_effect(math.sqrt(0.3 / scenarios)) == pytest.approx(points, abs=0.06)


@pytest.mark.parametrize("freedom", [4, 9, 30])
def test_the_detectable_effect_is_found_with_its_power(freedom):
    """The noncentral t distribution gives the power exactly; Bloom's formula is near it."""
    effect = minimum_detectable_effect(1.0, freedom)
    assert 0.77 < stats.nct.sf(stats.t.isf(0.025, freedom), freedom, effect) < 0.81


def test_the_detectable_effect_of_a_difference():
    d = np.array([[0.3, 0.1], [0.5, 0.7], [-0.1, 0.1], [0.4, 0.2]])
    found = paired_difference(np.zeros_like(d), d)
    assert found.detectable == pytest.approx(minimum_detectable_effect(found.standard_error, 3))


def test_noise_floor_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\), wanted \[scenarios\] twice"):
        noise_floor([0, 1], [0, 1, 1])
    assert math.isnan(noise_floor([math.nan], [1.0]).disagreement)


def test_more_samples_meet_the_target_and_fewer_do_not():
    rates = generator().random(60)
    k = samples_for_standard_error(rates, 0.01)
    variance = (rates * (1 - rates)).mean() / 60
    assert math.sqrt(variance / k) <= 0.01 < math.sqrt(variance / (k - 1))
    assert samples_for_standard_error(rates, 0.01, pilot_samples=2) == pytest.approx(2 * k, abs=1)
    assert samples_for_standard_error([0.0, 1.0]) == 1


def test_the_pilots_variance_is_unbiased():
    """E[p(1 - p)] of rates from 2 samples, times 2, is the true p(1 - p): enumerated for p = 0.3."""
    outcomes = {0.0: 0.49, 0.5: 0.42, 1.0: 0.09}
    assert sum(chance * rate * (1 - rate) for rate, chance in outcomes.items()) * 2 == pytest.approx(0.21)


@pytest.mark.parametrize(
    ("rates", "keywords", "message"),
    [
        ([], {}, "numbers in"),
        ([1.2], {}, "numbers in"),
        ([math.nan], {}, "numbers in"),
        ([0.5], {"target": 0}, "target = 0, wanted > 0"),
        ([0.5], {"pilot_samples": 1}, "one sample shows no variance"),
    ],
)
def test_bad_plans_are_refused(rates, keywords, message):
    with pytest.raises(ValueError, match=message):
        samples_for_standard_error(rates, **keywords)


def test_pass_hat_k_is_the_share_of_subsets_that_all_succeed():
    attempts = [1, 1, 0, 1, 0]
    subsets = list(itertools.combinations(attempts, 3))
    assert pass_hat_k([3], samples=5, k=3) == pytest.approx(np.mean([all(subset) for subset in subsets]))
    with pytest.raises(ValueError, match="k = 6, wanted"):
        pass_hat_k([3], samples=5, k=6)
    with pytest.raises(ValueError, match="whole numbers"):
        pass_hat_k([2.5], samples=5, k=1)


# ------------------------------------------------------------------ packages


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ModuleNotFoundError, match=r"package scipy is missing; .* pip install .*\[bench\]'"):
        statistics.minimum_detectable_effect(1.0)
