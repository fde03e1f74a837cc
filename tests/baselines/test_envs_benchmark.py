"""The benchmark of the environments compares two checkouts in alternating slices."""

from __future__ import annotations

from pathlib import Path

import pytest

from baselines.benchmarks.envs import compare, configurations, conformance_cost, main

ROOT = Path(__file__).parents[2]


def test_a_checkout_is_as_fast_as_itself():
    rows = list(compare(ROOT, slices=5, seconds=0.003))

    assert [what for what, *_ in rows] == list(configurations())
    for what, before, now, ratios in rows:
        assert 1 < now < 10_000, what  # microseconds
        assert 0.2 < before / now < 5, what
        assert len(ratios) == 5
        assert ratios == sorted(ratios)


def test_a_step_of_the_parallel_view_counts_as_the_turns_of_its_layer():
    games = configurations()
    turns = {view: next(games[f"octet, horizon 1, {view}"]) for view in ("bare", "TurnParallel", "SharedPolicyEnv")}

    assert turns == {"bare": 8, "TurnParallel": 8, "SharedPolicyEnv": 8}


def test_the_cost_of_conformance_is_that_of_a_passed_check():
    cost = conformance_cost("duo")

    assert cost["passed"]
    assert cost["rules"] > 20
    assert 0 < cost["cpu_s"] < 60


def test_a_folder_without_the_project_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--against", str(tmp_path)])
    assert "is no checkout of this project" in capsys.readouterr().err
