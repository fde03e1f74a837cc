"""The script that runs tests again and again: it counts, goes on where it was stopped, and fails where a run does."""

from __future__ import annotations

import json

import pytest

from tests import repeat
from tests.house.house_pages import ROOT

DRAWN = """
from pathlib import Path
from hypothesis import given, strategies as st

DRAWN = Path(__file__).with_name("drawn.txt")

@given(st.integers())
def test_drawn(number):
    with DRAWN.open("a") as drawn:
        drawn.write(f"{number} ")

def test_only_the_first_run_passes():
    with DRAWN.open("a") as drawn:
        drawn.write("\\n")
    assert DRAWN.read_text().count("\\n") == 1
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_drawn.py").write_text(DRAWN)

    def repeated(runs, *more):
        out = tmp_path / "out" / "runs.jsonl"
        code = repeat.main(["--runs", str(runs), "--load", "1", "--out", str(out), *more, "--", str(tmp_path)])
        return code, [json.loads(line) for line in out.read_text().splitlines()]

    return repeated


def test_each_run_draws_anew_and_one_that_fails_fails_all(run, tmp_path, capsys):
    assert run(1)[0] == 0
    assert list((tmp_path / "out").iterdir()) == [tmp_path / "out" / "runs.jsonl"]
    code, (first, second) = run(2)
    assert code == 1
    assert [(one["run"], one["passed"], one["failed"]) for one in (first, second)] == [(0, 2, 0), (1, 1, 1)]
    assert [name.rpartition("/")[2] for name in second["tests"]] == ["test_drawn.py::test_only_the_first_run_passes"]
    assert f"seed {second['seed']} exit_code 1 passed 1 failed 1" in capsys.readouterr().out
    assert first["seed"] != second["seed"]
    assert len(set((tmp_path / "drawn.txt").read_text().splitlines())) == 2
    assert "test_only_the_first_run_passes" in next((tmp_path / "out").glob("*-1.log")).read_text()
    assert run(2) == (1, [first, second])  # nothing is left to do


def test_a_run_that_hangs_is_ended_and_has_failed(run, tmp_path):
    (tmp_path / "test_drawn.py").write_text("import time\ndef test_hangs(): time.sleep(600)")
    code, (hung,) = run(1, "--limit", "1")
    assert code == 1
    assert hung["exit_code"] == -9
