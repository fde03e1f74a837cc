"""The benchmark of the environments measures every view, and compares two checkouts in alternating slices."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks import envs
from benchmarks.envs import compare, configurations, main

ROOT = Path(__file__).parents[2]


def test_the_benchmark_measures_every_view(tmp_path, monkeypatch):
    monkeypatch.setattr(envs, "check_environment", partial(envs.check_environment, cycles=2))
    main(["--seconds", "0.01", "--json", str(tmp_path / "envs.json")])
    found = json.loads((tmp_path / "envs.json").read_text(encoding="utf-8"))
    assert {row["what"].split(", ")[2] for row in found["turns"]} == {
        "bare", "make (AEC)", "TurnParallel", "SharedPolicyEnv"
    }  # fmt: skip
    assert all(row["turns_per_cpu_s"] > 0 for row in found["turns"])
    assert found["import"]["torch"] is False
    for kit in found["conformance"]:
        assert kit["passed"]
        assert kit["rules"] > 20
        assert 0 < kit["cpu_s"] < 60


def test_a_checkout_is_as_fast_as_itself():
    rows = list(compare(ROOT, slices=5, seconds=0.003))

    assert [what for what, *_ in rows] == list(configurations())
    for what, before, now, ratios in rows:
        assert min(before, now) > 1, what  # microseconds
        assert 0.05 < before / now < 20, what  # of slices of 3 ms, where a busy machine may take one of them away
        assert len(ratios) == 5
        assert ratios == sorted(ratios)


def test_a_step_of_the_parallel_view_counts_as_the_turns_of_its_layer():
    games = configurations()
    turns = {view: next(games[f"octet, horizon 1, {view}"]) for view in ("bare", "TurnParallel", "SharedPolicyEnv")}

    assert turns == {"bare": 8, "TurnParallel": 8, "SharedPolicyEnv": 8}


def test_a_folder_without_the_project_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--against", str(tmp_path)])
    assert "is no checkout of this project" in capsys.readouterr().err
