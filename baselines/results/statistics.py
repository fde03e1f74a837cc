"""Statistics of comparisons: intervals, paired differences, multiplicity, power.

| question | function |
|---|---|
| One share: how sure? | `wilson`, `clopper_pearson` |
| A mean over training seeds and scenarios | `grid_mean` |
| Is arm B better than arm A? | `paired_difference` |
| Several rows in one table | `holm` |
| Could this experiment have seen the effect? | `minimum_detectable_effect`, or `detectable` of a difference |
| How large is a difference from sampling alone? | `noise_floor` |
| How many samples per scenario? | `samples_for_standard_error` |
| Does the team solve a task every time? | `pass_hat_k` |

Grids of scores are float64 [training seeds, scenarios]. A cell is the mean score of one trained team on one scenario,
over its evaluation seeds; NaN marks a failed episode. All seeds and both arms play the same scenarios.

`resampled_means` is the bootstrap over seeds for learning curves. `paired_cluster_bootstrap` and `naive_bootstrap` are
here for the simulation of coverage alone (`python -m benchmarks.interval_coverage`). Neither covers 0 in 95 % of
experiments without an effect.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from baselines.experiment.cohorts import pass_hat_k
from marft_agents.intervals import Interval, wilson
from marft_common.installation import pip_install

__all__ = [
    "BootstrapDifference",
    "Interval",
    "NoiseFloor",
    "PairedDifference",
    "clopper_pearson",
    "grid_mean",
    "holm",
    "minimum_detectable_effect",
    "naive_bootstrap",
    "noise_floor",
    "paired_cluster_bootstrap",
    "paired_difference",
    "pass_hat_k",
    "resampled_means",
    "samples_for_standard_error",
    "wilson",
]

Floats = npt.NDArray[np.float64]

LEVEL, POWER = 0.95, 0.8
SMALLEST_TAIL = 1e-100  # the t quantiles of scipy fail near 1e-300
ROUNDING = 1e-12  # share of a variance up to which it is zero: sums of thirds differ by rounding
CENTRINGS = 100  # at most so many sweeps over rows and columns; complete grids need one
RESAMPLES_AT_ONCE = 1000


class PairedDifference(NamedTuple):
    """The mean of B - A with its 95 % interval.

    Attributes:
        mean: Mean difference over the cells that both arms scored; NaN without any.
        low: Lower end of the 95 % interval.
        high: Upper end of the 95 % interval.
        p_value: Two-sided p-value of "no difference"; below 0.05 exactly if the interval excludes 0.
        standard_error: Standard error of the mean.
        detectable: Minimum detectable effect at 80 % power, in the unit of the scores.
        seeds: Number of training seeds with a scored pair. With 1, the interval holds for these two teams alone.
        scenarios: Number of scenarios with a scored pair.
        pairs: Number of cells that both arms scored.
    """

    mean: float
    low: float
    high: float
    p_value: float
    standard_error: float
    detectable: float
    seeds: int
    scenarios: int
    pairs: int

    @property
    def interval(self) -> Interval:
        """The mean with its interval."""
        return Interval(self.mean, self.low, self.high)


class BootstrapDifference(NamedTuple):
    """The mean of B - A with the percentile interval of a bootstrap."""

    mean: float
    low: float
    high: float
    p_value: float


class NoiseFloor(NamedTuple):
    """Difference of two evaluations of the same model.

    Attributes:
        mean: Mean difference, second - first.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        floor: Largest difference that sampling alone explains: the half-width of the interval.
        disagreement: Mean absolute difference per scenario.
    """

    mean: float
    low: float
    high: float
    floor: float
    disagreement: float


def check_installed() -> None:
    """Raise ModuleNotFoundError, with the command that installs it, if scipy is missing."""
    _package("scipy")


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        text = f"package {missing} is missing; the statistics need: {pip_install('bench')}"
        raise ModuleNotFoundError(text, name=missing) from error


# ------------------------------------------------------------------ one share


def clopper_pearson(successes: int, count: int) -> Interval:
    """Compute the exact 95 % interval of a share (Clopper & Pearson 1934); conservative.

    The ends are the 2.5 % quantile of Beta(x, n - x + 1) and the 97.5 % quantile of Beta(x + 1, n - x).

    Args:
        successes: Number of successes x, in [0, count].
        count: Number of independent observations n; 0 gives [0, 1].

    Example: no success in 10 gives the upper end 1 - 0.025^(1/10).
        >>> str(clopper_pearson(0, 10)), round(1 - 0.025 ** (1 / 10), 3)
        ('0.000 [0.000, 0.308]', 0.308)
    """
    if not 0 <= successes <= count:
        raise ValueError(f"found {successes} successes of {count}, wanted 0 <= successes <= count")
    if count == 0:
        return Interval(math.nan, 0.0, 1.0)
    proportion = _package("statsmodels.stats.proportion")
    low, high = proportion.proportion_confint(successes, count, alpha=1 - LEVEL, method="beta")
    return Interval(successes / count, float(low), float(high))


# ------------------------------------------------------------------ grids of training seeds and scenarios


def paired_difference(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedDifference:
    """Compute the mean difference B - A of two arms with a 95 % interval over training seeds and scenarios.

    Training seeds s = 1..S and scenarios n = 1..N are crossed random effects of the difference of the arms:

        d[s, n] = b[s, n] - a[s, n] = mu + u[s] + v[n] + e[s, n]

    The estimate of mu is the mean of d. With the usual mean squares its variance has two estimated parts:

        U = MS_seeds / (S N),    V = max(MS_scenarios - MS_residual, 0) / (S N)

    The half-width at tail probability q is (U t(q, S-1) + V t(q, N-1)) / sqrt(U + V). The weighted t quantile is
    Cochran's approximation to the Behrens-Fisher distribution. It stays wide where seeds are few: with S = 5 and no
    scenario effect it is the t interval of the 5 seed means. Where both parts are 0, V is the variance of all cells
    over their number. With missing cells, the sums of squares are those of two-way clustered standard errors, and the
    residuals come from an additive fit.

    Sources: the design is that of "readers x cases" in Obuchowski & Rockette (1995) and Hillis (2007, Statistics in
    Medicine 26:596), with max(.) as there; Cochran (1964, Biometrics 20:191) for the quantile; Cameron, Gelbach &
    Miller (2011, JBES 29:238) for two-way clustering. A percentile bootstrap over so few seeds undercovers (Cameron &
    Miller 2015, JHR 50:317), and Satterthwaite's degrees of freedom do with 2 or 3 seeds. Coverage of all of them:
    `python -m benchmarks.interval_coverage`.

    Args:
        a: Scores of arm A, float64 [seeds, scenarios]; NaN is a failed episode, left out of both arms. [1, scenarios]
            stands for one fixed team (untrained), compared with every seed of the other arm.
        b: Scores of arm B, likewise.

    Returns:
        The difference. If scores lie in [0, 1], its interval ends at -1 and 1. If all differences are equal too, the
        half-width allows for the share of deviating scenarios that N scenarios without any leave open:
        1 - 0.025^(1/N), about 3.7/N ("rule of three", Hanley & Lippman-Hand 1983, JAMA 249:1743, two-sided).

    Raises:
        ValueError: The shapes do not match.

    Example: seed means 0.1, 0.2, 0.3 of 2 scenarios without residual; t(0.975, 2) = 4.3027, U = 0.01 / 3.
        >>> found = paired_difference([[0.0, 0.5]] * 3, [[0.1, 0.6], [0.2, 0.7], [0.3, 0.8]])
        >>> str(found.interval), round(4.3027 * (0.01 / 3) ** 0.5, 3)
        ('0.200 [-0.048, 0.448]', 0.248)
    """
    a, b = _grid(a, "a"), _grid(b, "b")
    if a.shape[1] != b.shape[1] or (a.shape[0] != b.shape[0] and 1 not in (a.shape[0], b.shape[0])):
        raise ValueError(
            f"arms have shapes {a.shape} and {b.shape} [seeds, scenarios]; wanted the same scenarios, and as many "
            "training seeds on both sides or one on a side"
        )
    shares = _are_shares(a) and _are_shares(b)
    found = _difference(b - a, shares)
    return found._replace(low=max(found.low, -1.0), high=min(found.high, 1.0)) if shares and found.pairs else found


def grid_mean(scores: npt.ArrayLike, *, bounded: bool = True) -> Interval:
    """Compute the mean of one arm with its 95 % interval over training seeds and scenarios.

    The method is that of `paired_difference`, for the scores themselves. If these lie in [0, 1], the interval ends
    there. With one seed and scores of 0 or 1 only, `wilson` is better.

    Args:
        scores: Float64 [seeds, scenarios]; NaN is a failed episode.
        bounded: False for scores that might lie outside of [0, 1], though these do not.

    Example: means of 2 seeds 3 and 5; t(0.975, 1) = 12.706, and MS_scenarios = MS_residual = 0.
        >>> str(grid_mean([[3, 3], [5, 5]]))
        '4.000 [-8.706, 16.706]'
    """
    grid = _grid(scores, "scores")
    found = _difference(grid, False).interval
    if not bounded or not _are_shares(grid):
        return found
    return Interval(found.mean, max(found.low, 0.0), min(found.high, 1.0))


def _are_shares(grid: Floats) -> bool:
    """Return True if all scores lie in [0, 1]; failed episodes do not count."""
    scored = grid[~np.isnan(grid)]
    return bool(np.all((scored >= 0) & (scored <= 1)))


def _grid(scores: npt.ArrayLike, name: str) -> Floats:
    grid = np.asarray(scores, np.float64)
    if grid.ndim != 2 or 0 in grid.shape:
        raise ValueError(f"{name} has shape {grid.shape}, wanted [training seeds, scenarios] with at least one of each")
    if np.isinf(grid).any():
        raise ValueError(f"{name} holds an infinite score; wanted finite ones, or NaN for a failed episode")
    return grid


class _Variance(NamedTuple):
    """Variance of a grid's mean: the part of the seeds and the part of the scenarios, each with its count."""

    by_seed: float
    by_scenario: float
    seeds: int
    scenarios: int

    @property
    def total(self) -> float:
        return self.by_seed + self.by_scenario

    def half_width(self, tail: float) -> float:
        """Return the standard error times Cochran's weighted t quantile at a tail probability."""
        stdtrit = _package("scipy.special").stdtrit  # quantiles of t, much faster than those of scipy.stats
        width = 0.0
        for part, count in ((self.by_seed, self.seeds), (self.by_scenario, self.scenarios)):
            if part:
                width -= part * float(stdtrit(count - 1, tail))
        return width / math.sqrt(self.total)

    def p_value(self, mean: float) -> float:
        """Return the level at which the interval just touches 0."""
        optimize = _package("scipy.optimize")
        if mean == 0:
            return 1.0
        if self.half_width(SMALLEST_TAIL) <= abs(mean):
            return 2 * SMALLEST_TAIL
        ends = math.log(SMALLEST_TAIL), math.log(0.5)
        tail = optimize.brentq(lambda log: self.half_width(math.exp(log)) - abs(mean), *ends, xtol=1e-10)
        return min(1.0, 2 * math.exp(tail))


def _difference(d: Floats, shares: bool) -> PairedDifference:
    """Estimate the mean of a grid of differences, see `paired_difference`; `shares`: the scores lie in [0, 1]."""
    d = d[:, ~np.isnan(d).all(axis=0)]
    d = d[~np.isnan(d).all(axis=1)] if d.size else d
    if not d.size:
        return PairedDifference(math.nan, -math.inf, math.inf, math.nan, math.inf, math.inf, 0, 0, 0)
    (seeds, scenarios), pairs = d.shape, int((~np.isnan(d)).sum())
    mean = float(np.nanmean(d))
    counts = seeds, scenarios, pairs
    if seeds == scenarios == 1:
        return PairedDifference(mean, -math.inf, math.inf, math.nan, math.inf, math.inf, *counts)
    if float(np.nanmax(d) - np.nanmin(d)) < 1e-12:
        half, p_value = _without_variance(abs(mean), scenarios) if shares else (0.0, float(mean == 0))
        return PairedDifference(mean, mean - half, mean + half, p_value, 0.0, half, *counts)
    variance = _variance(d, mean)
    half = variance.half_width((1 - LEVEL) / 2)
    detectable = half + variance.half_width(1 - POWER)
    error = math.sqrt(variance.total)
    return PairedDifference(mean, mean - half, mean + half, variance.p_value(mean), error, detectable, *counts)


def _without_variance(mean: float, scenarios: int) -> tuple[float, float]:
    """Return half-width and p-value where all differences of shares are equal, see `paired_difference`.

    With 97.5 % confidence at most 1 - 0.025^(1/N) of the scenarios deviate; each of them may differ by -1. For a
    mean of 1 the p-value is that of the sign test, 2 x 0.5^N.
    """
    half = (1 + mean) * (1 - ((1 - LEVEL) / 2) ** (1 / scenarios))
    return half, min(1.0, 2 * (1 + mean) ** -scenarios)


def _variance(d: Floats, mean: float) -> _Variance:
    """Estimate the variance of a grid's mean; sums over missing cells as in two-way clustered standard errors."""
    there = ~np.isnan(d)
    (seeds, scenarios), pairs = d.shape, int(there.sum())
    centred = np.where(there, d - mean, 0.0)
    by_seed = by_scenario = 0.0
    if seeds > 1:
        by_seed = seeds / (seeds - 1) * float((centred.sum(axis=1) ** 2).sum()) / pairs**2
    if scenarios > 1:
        by_scenario = scenarios / (scenarios - 1) * float((centred.sum(axis=0) ** 2).sum()) / pairs**2
    free = pairs - seeds - scenarios + 1  # degrees of freedom of the residuals
    if seeds > 1 and scenarios > 1 and free > 0:
        residual = float((_additive_residuals(centred, there) ** 2).sum()) / free / pairs
        by_scenario = max(by_scenario - residual, 0.0)
    of_all = float((centred**2).sum()) / pairs / (pairs - 1)
    if by_seed + by_scenario <= ROUNDING * of_all:  # seeds agree, scenarios as much as residuals: keep their part
        return _Variance(0.0, of_all, seeds, scenarios)
    return _Variance(by_seed, by_scenario, seeds, scenarios)


def _additive_residuals(centred: Floats, there: npt.NDArray[np.bool_]) -> Floats:
    """Return the residuals of the additive fit row + column, by centring rows and columns in turn; 0 where missing."""
    residuals = centred
    for _ in range(CENTRINGS):
        before = residuals
        for axis in (1, 0):
            means = residuals.sum(axis=axis, keepdims=True) / np.maximum(there.sum(axis=axis, keepdims=True), 1)
            residuals = np.where(there, residuals - means, 0.0)
        if np.abs(residuals - before).max() < 1e-12:
            break
    return residuals


# ------------------------------------------------------------------ bootstraps


def paired_cluster_bootstrap(
    a: npt.ArrayLike, b: npt.ArrayLike, generator: np.random.Generator, *, resamples: int = 10_000
) -> BootstrapDifference:
    """Compute the percentile interval of a bootstrap over training seeds and, crossed with them, scenarios.

    Each resample draws S seeds and N scenarios with replacement, both arms alike, and takes the mean of the drawn
    cells ("pigeonhole bootstrap", Owen 2007, Annals of Applied Statistics 1:386). It undercovers where few seeds
    differ: the variance between 5 seeds comes out as 4/5, and percentiles know no t quantile. It overcovers where they
    do not, since it counts the residual three times. Tables use `paired_difference`.

    Args:
        a: Scores of arm A, float64 [seeds, scenarios]; NaN is a failed episode.
        b: Scores of arm B, likewise.
        generator: Source of the resamples.
        resamples: Number of resamples.
    """
    d = _grid(b, "b") - _grid(a, "a")
    there = ~np.isnan(d)
    filled = np.where(there, d, 0.0)
    seeds, scenarios = d.shape
    means = []
    for size in _portions(resamples):
        rows = _counts(generator, size, seeds)  # [size, seeds]
        columns = _counts(generator, size, scenarios)  # [size, scenarios]
        sums = ((rows @ filled) * columns).sum(axis=1)
        means.append(sums / ((rows @ there) * columns).sum(axis=1))
    return _percentiles(float(np.nanmean(d)), np.concatenate(means))


def naive_bootstrap(
    a: npt.ArrayLike, b: npt.ArrayLike, generator: np.random.Generator, *, resamples: int = 10_000
) -> BootstrapDifference:
    """Compute the percentile interval of a bootstrap that takes all cells of all seeds as independent.

    This is the common mistake: it fails as soon as training seeds differ. See `paired_cluster_bootstrap` for the
    arguments.
    """
    d = _grid(b, "b") - _grid(a, "a")
    cells = d[~np.isnan(d)]
    means = [_counts(generator, size, len(cells)) @ cells / len(cells) for size in _portions(resamples)]
    return _percentiles(float(cells.mean()), np.concatenate(means))


def resampled_means(values: npt.ArrayLike, generator: np.random.Generator, *, resamples: int = 10_000) -> Floats:
    """Return the mean over seeds in each resample of a bootstrap over training seeds, float64 [resamples, columns].

    Args:
        values: Float64 [seeds, columns]; a seed is drawn with all its columns.
        generator: Source of the resamples.
        resamples: Number of resamples.
    """
    grid = _grid(values, "values")
    return np.concatenate([_counts(generator, size, len(grid)) @ grid / len(grid) for size in _portions(resamples)])


def _portions(resamples: int) -> list[int]:
    whole, rest = divmod(resamples, RESAMPLES_AT_ONCE)
    return [RESAMPLES_AT_ONCE] * whole + [rest] * bool(rest)


def _counts(generator: np.random.Generator, resamples: int, size: int) -> Floats:
    """Draw how often each of `size` units is in each resample, float64 [resamples, size]."""
    drawn = generator.integers(size, size=(resamples, size)) + size * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * size).reshape(resamples, size).astype(np.float64)


def _percentiles(mean: float, means: Floats) -> BootstrapDifference:
    low, high = np.nanquantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    tail = min(float((means <= 0).mean()), float((means >= 0).mean()))
    return BootstrapDifference(mean, float(low), float(high), min(1.0, max(2 * tail, 1 / len(means))))


# ------------------------------------------------------------------ tables, power, planning


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of one table's rows (Holm 1979, Scandinavian Journal of Statistics 6:65).

    In ascending order, adjusted p(i) = max over j <= i of min((m - j + 1) p(j), 1). All claims with an adjusted value
    below 0.05 hold together with at most 5 % chance of any false one.

    Args:
        p_values: One per row; NaN (nothing to test) stays NaN and does not count.

    Example: 3 x 0.01, then 2 x 0.03, then the maximum again.
        >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    adjusted = np.array(p_values, np.float64)
    ascending = np.argsort(adjusted)[: np.count_nonzero(~np.isnan(adjusted))]  # NaN is sorted to the end
    scaled = adjusted[ascending] * np.arange(len(ascending), 0, -1)
    adjusted[ascending] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return [float(p) for p in adjusted]


def minimum_detectable_effect(
    standard_error: float, degrees_of_freedom: float = math.inf, *, power: float = POWER, level: float = LEVEL
) -> float:
    """Compute the smallest true effect that a two-sided test finds with the given power.

    MDE = (t(1 - alpha/2) + t(power)) x standard error, with alpha = 1 - level (Bloom 1995, Evaluation Review 19:547).

    Args:
        standard_error: Of the difference, in the unit of the effect.
        degrees_of_freedom: Of the t quantiles, about the number of training seeds - 1; infinite for normal ones.
        power: Probability to find the effect.
        level: Confidence level of the test.

    Example: 200 scenarios of one seed of which 30 % differ between the arms, so that the error is sqrt(0.3 / 200).
        >>> round(minimum_detectable_effect((0.3 / 200) ** 0.5), 3)
        0.109
    """
    stats = _package("scipy.stats")
    distribution = stats.norm() if math.isinf(degrees_of_freedom) else stats.t(degrees_of_freedom)
    return float(distribution.isf((1 - level) / 2) + distribution.ppf(power)) * standard_error


def noise_floor(first: npt.ArrayLike, second: npt.ArrayLike) -> NoiseFloor:
    """Compare two evaluations of the same model that differ in the sampling seed alone.

    The interval is that of `paired_difference` over scenarios. A difference of two models below `floor` may come from
    sampling alone (protocol of C3, EIT-EAST-Lab/C3 docs/32_evaluation_protocol.md).

    Args:
        first: Scores of the first evaluation, float64 [scenarios]; NaN is a failed episode.
        second: Scores of the second one, likewise.

    Example: 1 of 4 scenarios flips: mean 1/4, standard error 1/4, t(0.975, 3) = 3.182.
        >>> found = noise_floor([0, 0, 1, 1], [0, 1, 1, 1])
        >>> round(found.mean, 3), round(found.floor, 3), found.disagreement
        (0.25, 0.796, 0.25)
    """
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if one.ndim != 1 or one.shape != two.shape:
        raise ValueError(f"evaluations have shapes {one.shape} and {two.shape}, wanted [scenarios] twice")
    found = paired_difference(one[None], two[None])
    gaps = np.abs(two - one)
    disagreement = float(np.nanmean(gaps)) if found.pairs else math.nan
    half = max(found.high - found.mean, found.mean - found.low)  # one end may be that of the scale
    return NoiseFloor(found.mean, found.low, found.high, half, disagreement)


def samples_for_standard_error(
    success_rates: npt.ArrayLike, target: float = 0.015, *, pilot_samples: int | None = None
) -> int:
    """Compute the number of samples per scenario k, so that avg@k has at most the wanted standard error.

    The smallest k with sqrt(mean(p (1 - p)) / (N k)) <= target (protocol of C3, EIT-EAST-Lab/C3
    docs/32_evaluation_protocol.md). This is the error of sampling alone, on these N scenarios.

    Args:
        success_rates: Success probability p of each scenario, float64 [N] in [0, 1].
        target: Largest standard error; the default is 1.5 points.
        pilot_samples: Number of samples, >= 2, with which the rates were estimated. The variance is then multiplied
            by m / (m - 1), which makes it unbiased. None: the rates are exact.

    Example: 30 problems of p = 0.5: 0.25 / (30 x 0.015^2) = 37.04.
        >>> samples_for_standard_error([0.5] * 30)
        38
    """
    rates = np.asarray(success_rates, np.float64)
    if rates.ndim != 1 or not len(rates) or not np.all((rates >= 0) & (rates <= 1)):
        raise ValueError(f"success rates have shape {rates.shape}, wanted [scenarios] of numbers in [0, 1]")
    if not target > 0:
        raise ValueError(f"target = {target}, wanted > 0")
    if pilot_samples is not None and pilot_samples < 2:
        raise ValueError(f"pilot_samples = {pilot_samples}, wanted >= 2: one sample shows no variance")
    correction = 1.0 if pilot_samples is None else pilot_samples / (pilot_samples - 1)
    wanted = float((rates * (1 - rates)).mean()) * correction / (len(rates) * target**2)
    return max(1, math.ceil(wanted - 1e-9))
