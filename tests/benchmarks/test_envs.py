"""The benchmark of the environments measures every view, and compares two checkouts in alternating slices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.envs import compare, configurations, conformance_cost, main

ROOT = Path(__file__).parents[2]


def test_the_benchmark_measures_every_view(tmp_path):
    main(["--seconds", "0.01", "--json", str(tmp_path / "envs.json")])
    found = json.loads((tmp_path / "envs.json").read_text(encoding="utf-8"))
    assert {row["what"].split(", ")[2] for row in found["turns"]} == {
        "bare", "make (AEC)", "TurnParallel", "SharedPolicyEnv"
    }  # fmt: skip
    assert all(row["turns_per_cpu_s"] > 0 for row in found["turns"])
    assert found["import"]["torch"] is False


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
