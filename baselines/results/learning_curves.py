"""Learning curves of a benchmark's arms: success against generated tokens, and the budget at which two arms meet.

Curves of several training seeds are read at common token counts, linearly between their points and never beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from baselines.results.bench_records import Record
from baselines.results.statistics import LEVEL, resampled_means

RESAMPLES = 10_000
ROUNDING = 1e-12  # differences up to this are none: means of equal curves differ by rounding
VALIDATION, TRAINING = "validation", "training"  # sources of a curve in a record; the first is preferred
Floats = npt.NDArray[np.float64]
Group = tuple[str, str, str]  # arm, team, algorithm


@dataclass(frozen=True)
class ArmCurve:
    """Success of one arm's trainings against generated tokens.

    Attributes:
        arm: Name of the arm.
        team: Team that is trained, or that the one agent is matched to.
        algorithm: Algorithm of the training.
        trainings: Names of the trainings, one per seed.
        seeds: Training seeds of the curve.
        tokens: Generated tokens, ascending: all counts at which a seed was measured and every seed is known.
        mean: Mean over seeds at these tokens.
        low: Lowest seed at these tokens.
        high: Highest seed at these tokens.
    """

    arm: str
    team: str
    algorithm: str
    trainings: tuple[str, ...]
    seeds: tuple[int, ...]
    tokens: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def key(self) -> Group:
        """Arm, team and algorithm."""
        return self.arm, self.team, self.algorithm


@dataclass(frozen=True)
class Meeting:
    """The budget from which on the mean curve of an arm is above that of the reference.

    Attributes:
        arm: Name of the arm.
        team: Team of the arm.
        algorithm: Algorithm of the arm.
        seeds: Training seeds that both have.
        tokens: Smallest such number of generated tokens; None: at the end the arm is not above.
        low: Lower end of the 95 % bootstrap interval over seeds; None: not within the tokens, or one seed.
        high: Upper end, likewise.
        share: Share of the resamples in which the arm is above at the end; None: one seed, no interval.
        within: Tokens up to which all seeds of both are known.
    """

    arm: str
    team: str
    algorithm: str
    seeds: tuple[int, ...]
    tokens: float | None
    low: float | None
    high: float | None
    share: float | None
    within: float

    @property
    def key(self) -> Group:
        """Arm, team and algorithm."""
        return self.arm, self.team, self.algorithm


@dataclass(frozen=True)
class Curves:
    """The learning curves of one table.

    Attributes:
        source: "validation": success on held-out tasks; "training": success of the episodes that are trained on.
        arms: Curves; arms that play the same trained team share the curve of the first of them.
        meetings: Budgets at which arms meet their reference.
    """

    source: str
    arms: tuple[ArmCurve, ...]
    meetings: tuple[Meeting, ...]


def distinct_names(keys: Iterable[Group]) -> dict[Group, str]:
    """Return the shortest name of each arm: with its team and its algorithm only where these tell arms apart.

    Example:
        >>> list(distinct_names([("team", "duo", "grpo"), ("untrained", "duo", ""), ("team", "duo", "ppo")]).values())
        ['team (grpo)', 'untrained', 'team (ppo)']
    """
    unique = list(dict.fromkeys(keys))
    telling = [len({key[part] for key in unique} - {""}) > 1 for part in (1, 2)]
    found = {}
    for key in unique:
        parts = ", ".join(part for part, tells in zip(key[1:], telling, strict=True) if tells and part)
        found[key] = key[0] + (f" ({parts})" if parts else "")
    return found


def curves_of(
    groups: Mapping[Group, Sequence[Record]], references: Mapping[Group, Sequence[Record]], first: Sequence[str]
) -> Curves | None:
    """Return the learning curves of a table; None where no record has one.

    Validation is used where all trained arms have it, since success in training is measured on other tasks.

    Args:
        groups: Records by arm, team and algorithm.
        references: Records of the reference by the same keys; empty where there is none.
        first: Arms that name a training that several arms play.
    """
    known = {key: [record for record in records if record.get("curve")] for key, records in groups.items()}
    known = {key: records for key, records in known.items() if records}
    if not known:
        return None
    of_all = [record["curve"] for records in known.values() for record in records]
    source = VALIDATION if all(curve.get(VALIDATION) for curve in of_all) else TRAINING
    arms, meetings, drawn = [], [], set[str]()
    for key in sorted(known, key=lambda key: (first.index(key[0]) if key[0] in first else len(first), key)):
        records = _measured(known[key], source)
        trainings = tuple(str(record.get("training") or record["cell"]) for record in records)
        curve = _arm_curve(key, records, source, trainings)
        played = {f"{key[1]} {name}" for name in trainings}
        if curve is None or played <= drawn:  # the trainings of an arm before, or some of its seeds
            continue
        drawn |= played
        arms.append(curve)
        meeting = _meeting(key, records, _measured(references[key], source), source)
        if meeting is not None:
            meetings.append(meeting)
    return Curves(source, tuple(arms), tuple(meetings)) if arms else None


def _measured(records: Sequence[Record], source: str) -> list[Record]:
    return [record for record in records if ((record.get("curve") or {}).get(source) or {}).get("tokens")]


def _arm_curve(key: Group, records: Sequence[Record], source: str, trainings: tuple[str, ...]) -> ArmCurve | None:
    points = [record["curve"][source] for record in records]
    grid = _common_tokens(points)
    if grid is None:
        return None
    values = _read_at(grid, points)
    seeds = tuple(record["training_seed"] for record in records)
    columns = (values.mean(axis=0), values.min(axis=0), values.max(axis=0))
    mean, low, high = (tuple(column.tolist()) for column in columns)
    return ArmCurve(*key, trainings, seeds, tuple(grid.tolist()), mean, low, high)


def _common_tokens(points: Sequence[Mapping[str, Any]]) -> Floats | None:
    """Return all token counts of some curves within the range that each of them covers; None without any."""
    if not points:
        return None
    start = max(each["tokens"][0] for each in points)
    end = min(each["tokens"][-1] for each in points)
    if start > end:
        return None
    every = np.unique(np.concatenate([np.asarray(each["tokens"], np.float64) for each in points]))
    return np.asarray(every[(every >= start) & (every <= end)], np.float64)


def _read_at(grid: Floats, points: Sequence[Mapping[str, Any]]) -> Floats:
    """Return the success of each curve at each token count, float64 [curves, counts]."""
    return np.stack([np.interp(grid, each["tokens"], each["success"]) for each in points])


def _meeting(key: Group, records: Sequence[Record], reference: Sequence[Record], source: str) -> Meeting | None:
    """Return where an arm meets its reference, over the training seeds that both have; None without any."""
    of_seed = {record["training_seed"]: record for record in reference}
    pairs = [(record, of_seed[record["training_seed"]]) for record in records if record["training_seed"] in of_seed]
    if not pairs or any(record is other for record, other in pairs):
        return None
    ours, theirs = [record["curve"][source] for record, _ in pairs], [other["curve"][source] for _, other in pairs]
    grid = _common_tokens([*ours, *theirs])
    if grid is None or len(grid) < 2:
        return None
    differences = _read_at(grid, ours) - _read_at(grid, theirs)  # [seeds, counts]
    found = float(stays_above(grid, differences.mean(axis=0, keepdims=True))[0])
    low = high = share = None
    if len(pairs) > 1:
        means = resampled_means(differences, np.random.default_rng(0), resamples=RESAMPLES)
        starts = stays_above(grid, means)
        tails = (1 - LEVEL) / 2, (1 + LEVEL) / 2
        low, high = (_finite(end) for end in np.quantile(starts, tails, method="inverted_cdf"))
        share = float(np.isfinite(starts).mean())
    seeds = tuple(record["training_seed"] for record, _ in pairs)
    return Meeting(*key, seeds, _finite(found), low, high, share, float(grid[-1]))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def stays_above(tokens: npt.ArrayLike, differences: npt.ArrayLike) -> Floats:
    """Return the smallest number of tokens from which on a piecewise linear difference stays above 0.

    Args:
        tokens: Token counts, float64 [counts], ascending.
        differences: Differences at these counts, float64 [curves, counts].

    Returns:
        Float64 [curves]; infinite where the last difference is not above 0.

    Example: from -1 at 10 tokens to +3 at 30 the line crosses 0 at 15.
        >>> stays_above([0, 10, 30], [[2, -1, 3], [1, 1, 1], [1, 1, 0]]).tolist()
        [15.0, 0.0, inf]
    """
    x, d = np.asarray(tokens, np.float64), np.asarray(differences, np.float64)
    below = d <= ROUNDING
    last = len(x) - 1 - np.argmax(below[:, ::-1], axis=1)  # of the counts that are not above, where there is one
    following = np.minimum(last + 1, len(x) - 1)
    rows = np.arange(len(d))
    before, after = d[rows, last], d[rows, following]
    rise = np.where(after > before, after - before, 1.0)
    crossing = x[last] + np.maximum(-before, 0.0) / rise * (x[following] - x[last])
    found = np.where(last == len(x) - 1, math.inf, crossing)
    return np.where(below.any(axis=1), found, x[0])
