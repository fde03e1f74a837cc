"""How the tokens that a success needs grow with the number of parts."""

import math

import pytest

from baselines.results.bench_records import RecordsError
from baselines.results.token_slope import needed_by_game, slope, slope_table


def trained(task, arm, seed, needed, *, within=20_000):
    """A record whose curve rises evenly, is at one half after `needed` tokens and ends at `within`."""
    curve = {"tokens": [0, within], "success": [0.0, within / (2 * needed)]}
    return {"task": task, "arm": arm, "training_seed": seed, "curve": {"training": curve}}


def test_a_team_whose_tokens_do_not_grow_has_the_slope_of_independent_parts():
    records = [
        trained(f"parts_{k}", arm, seed, needed * (1 + seed / 10))
        for k in (2, 4, 8)
        for arm, needed in (("team", 600), ("solo", 500 * k))
        for seed in (0, 1)
    ]
    games = needed_by_game(records, 0.5)
    assert games["parts"]["solo"][4].tokens == {0: 2000.0, 1: pytest.approx(2200.0)}
    rows = [line for line in slope_table(games, "solo", 0.5).splitlines() if line.startswith("| parts")]
    assert rows[2].startswith("| parts | team / solo | 0.60 | 0.30 | 0.15 | -1.000 [-1.000, -1.000] | 2, 4, 8 |")
    assert rows[0].startswith(f"| parts | solo | {2 * math.sqrt(500 * 550):,.0f} | ")
    assert " | 1.000 [" in rows[0]


def test_a_success_that_is_not_reached_gives_a_bound_and_no_slope():
    records = [trained(f"parts{k}", "team", seed, 500) for k in (2, 4) for seed in (0, 1)]
    records += [trained("parts2", "solo", seed, 1000) for seed in (0, 1)]
    records += [trained("parts4", "solo", 0, 1000), trained("parts4", "solo", 1, 50_000)]
    rows = slope_table(needed_by_game(records, 0.5), "solo", 0.5).splitlines()
    assert "| parts | solo | 1,000 | not within 20,000 in 1 of 2 | - | 2 |" in rows
    assert f"| parts | team / solo | 0.50 | below {math.sqrt(0.5 * 0.025):.2f} | - | 2 |" in rows


def test_a_slope_needs_two_numbers_of_parts_and_three_points():
    assert slope([]) is slope([(2, 5), (4, 6)]) is slope([(2, 5), (2, 6), (2, 7)]) is None
    found = slope([(2, 2), (4, 4), (4, 8)])
    assert found.mean == pytest.approx(1.5)
    assert found.low < 0 < 3 < found.high  # one degree of freedom


def test_records_without_a_number_of_parts_or_a_curve_are_refused():
    with pytest.raises(RecordsError, match="found the task 'math'"):
        needed_by_game([trained("math", "team", 0, 500)], 0.5)
    with pytest.raises(RecordsError, match="no learning curve"):
        needed_by_game([trained("parts_2", "untrained", 0, 500) | {"curve": None}], 0.5)


def test_a_success_that_is_there_before_the_training_is_refused():
    with pytest.raises(RecordsError, match="parts_2, team: has the success 0 before any training"):
        needed_by_game([trained("parts_2", "team", 0, 500)], 0.0)
