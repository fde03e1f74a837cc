"""How the training tokens that a task needs grow with its number of parts.

Tasks are read as games in K parts by their names, such as `parts_2` and `parts_8`. A training needs the tokens at which
its learning curve first reaches a success. Where one agent must learn K independent parts and each agent of a team one,
a team is said to need 1/K of the tokens, and as many where parts depend on each other (arXiv 2602.08272).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from baselines.results.bench_records import Record, RecordsError
from baselines.results.learning_curves import TRAINING
from baselines.results.statistics import LEVEL, Interval
from baselines.results.tables import TEAM

_NAME = re.compile(r"(.+?)_?(\d+)")  # of a task: its game and K


class Needed(NamedTuple):
    """Tokens that the trainings of one arm need at one K.

    Attributes:
        tokens: By training seed; infinite where the curve does not reach the success.
        within: Tokens of the shortest training.
    """

    tokens: Mapping[int, float]
    within: float


def tokens_to_reach(tokens: npt.ArrayLike, success: npt.ArrayLike, wanted: float) -> float:
    """Return the tokens at which a piecewise linear curve first reaches a success; infinite if it does not.

    Args:
        tokens: Token counts, float64 [counts], ascending.
        success: Success at these counts, float64 [counts].
        wanted: Success to reach.

    Example:
        >>> tokens_to_reach([0, 100, 200], [0.1, 0.3, 0.7], 0.5), tokens_to_reach([0, 100], [0.1, 0.3], 0.5)
        (150.0, inf)
    """
    x, y = np.asarray(tokens, np.float64), np.asarray(success, np.float64)
    reached = np.flatnonzero(y >= wanted)
    if not len(reached):
        return math.inf
    at = int(reached[0])
    if at == 0:
        return float(x[0])
    return float(x[at - 1] + (wanted - y[at - 1]) / (y[at] - y[at - 1]) * (x[at] - x[at - 1]))


def needed_by_game(records: Sequence[Record], success: float) -> dict[str, dict[str, dict[int, Needed]]]:
    """Return the tokens that a success needs, by game, arm and K.

    Raises:
        RecordsError: A task is not named after its K, no record has a learning curve, or one has the success before its
            training.
    """
    found: dict[tuple[str, str, int], list[tuple[int, float, float]]] = defaultdict(list)
    for record in records:
        name = _NAME.fullmatch(record["task"])
        if name is None:
            raise RecordsError(f"found the task {record['task']!r}, wanted names that end in the number of parts")
        curve = (record.get("curve") or {}).get(TRAINING)
        if curve:
            tokens = tokens_to_reach(curve["tokens"], curve["success"], success)
            if not tokens:
                raise RecordsError(
                    f"{record['task']}, {record['arm']}: has the success {success:g} before any training, so it needs "
                    "no tokens; wanted a higher one"
                )
            place = name[1], record["arm"], int(name[2])
            found[place].append((record["training_seed"], tokens, curve["tokens"][-1]))
    if not found:
        raise RecordsError("found no learning curve in the records, wanted trained arms")
    games: dict[str, dict[str, dict[int, Needed]]] = defaultdict(lambda: defaultdict(dict))
    for (game, arm, parts), seeds in sorted(found.items()):
        by_seed = {seed: tokens for seed, tokens, _ in seeds}
        games[game][arm][parts] = Needed(by_seed, min(end for *_, end in seeds))
    return games


def slope(points: Sequence[tuple[float, float]]) -> Interval | None:
    """Return the slope of log y against log x by least squares, with its 95 % t interval.

    Args:
        points: Pairs (x, y), all above 0.

    Returns:
        The slope; None with fewer than three points or one x, which leave no interval.

    Example: y = x² twice, and once a little more.
        >>> str(slope([(1, 1), (2, 4), (4, 16), (4, 17)]))
        '2.024 [1.905, 2.142]'
    """
    from scipy import stats

    x, y = np.log(np.asarray(points, np.float64).reshape(-1, 2)).T
    if len(x) < 3 or np.ptp(x) == 0:
        return None
    fit = stats.linregress(x, y)
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * fit.stderr)
    return Interval(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


def slope_table(games: Mapping[str, Mapping[str, Mapping[int, Needed]]], reference: str, success: float) -> str:
    """Return a Markdown table: tokens by game, arm and K, their slopes, and the team's share of the reference's."""
    every = sorted({parts for arms in games.values() for found in arms.values() for parts in found})
    columns = [f"K = {parts}" for parts in every]
    lines = [
        f"Training tokens at which success first reaches {success:g}, as geometric mean over seeds. Slope: of their "
        "logarithm against that of K, with its 95 % interval.",
        "",
        f"| game | arm | {' | '.join(columns)} | slope | over K |",
        f"|---|---|{'---:|' * len(every)}---:|---|",
    ]
    for game, arms in games.items():
        rows = {arm: {parts: _cell(found[parts]) for parts in found} for arm, found in arms.items()}
        points = {arm: _points(found) for arm, found in arms.items()}
        if TEAM in arms and reference in arms:
            ratios, shown = _ratios(arms[TEAM], arms[reference])
            rows[f"{TEAM} / {reference}"], points[f"{TEAM} / {reference}"] = shown, ratios
        for arm, cells in rows.items():
            found = slope(points[arm])
            over = ", ".join(str(parts) for parts in sorted({int(parts) for parts, _ in points[arm]}))
            told = " | ".join(cells.get(parts, "-") for parts in every)
            lines.append(f"| {game} | {arm} | {told} | {'-' if found is None else found} | {over or '-'} |")
    return "\n".join([*lines, "", ""])


def _points(found: Mapping[int, Needed]) -> list[tuple[float, float]]:
    """Return (K, tokens) of every seed, for each K at which all seeds reach the success."""
    whole = {parts: needed for parts, needed in found.items() if all(map(math.isfinite, needed.tokens.values()))}
    return [(parts, tokens) for parts, needed in whole.items() for tokens in needed.tokens.values()]


def _cell(needed: Needed) -> str:
    missed = sum(math.isinf(tokens) for tokens in needed.tokens.values())
    if missed:
        return f"not within {needed.within:,.0f} in {missed} of {len(needed.tokens)}"
    return f"{_geometric_mean(needed.tokens.values()):,.0f}"


def _ratios(
    team: Mapping[int, Needed], reference: Mapping[int, Needed]
) -> tuple[list[tuple[float, float]], dict[int, str]]:
    """Return the team's share of the reference's tokens: (K, share) of every seed, and a text for every K.

    Where only the team reaches the success in all seeds, the text is the bound that the reference's budget gives.
    """
    points, shown = [], {}
    for parts in sorted(team.keys() & reference.keys()):
        ours, theirs = team[parts].tokens, reference[parts].tokens
        common = sorted(ours.keys() & theirs.keys())
        shares = [ours[seed] / min(theirs[seed], reference[parts].within) for seed in common]
        if not common or any(math.isinf(ours[seed]) for seed in common):
            continue
        if all(math.isfinite(theirs[seed]) for seed in common):
            points += [(float(parts), share) for share in shares]
            shown[parts] = f"{_geometric_mean(shares):.2f}"
        else:
            shown[parts] = f"below {_geometric_mean(shares):.2f}"
    return points, shown


def _geometric_mean(values: Iterable[float]) -> float:
    return math.exp(math.fsum(each := [math.log(value) for value in values]) / len(each))
