"""`--grader` of train, eval and play: grades, budget and cache in the run folder, failures with their cause."""

from __future__ import annotations

import json

import pytest

from baselines.cli.main import main

ENV = ["--env", "marft/gsm8k_solo-v0", "--data", "embedded:stories"]
TINY = ["--model", "tiny", "--max-new-tokens", "4"]
GRADERS = """
import math

def half(answer, task):
    return 0.5

def nan(answer, task):
    return math.nan
"""


@pytest.fixture(autouse=True)
def _graders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flag_graders.py").write_text(GRADERS)


def evaluate(*more):
    return main(["eval", *ENV, *TINY, "--limit", "3", "--out", "out", *more])


def evaluation(tmp_path):
    return json.loads((tmp_path / "out" / "evaluation.json").read_text())


def test_eval_grades_with_a_function_and_keeps_the_grades(tmp_path, capsys):
    assert evaluate("--grader", '{"kind": "flag_graders:half", "threshold": 0.5}') == 0
    found = evaluation(tmp_path)
    assert found["accuracy"] == 1.0
    assert found["settings"]["grader"] == {"kind": "flag_graders:half", "threshold": 0.5} == found["keywords"]["grader"]
    assert len((tmp_path / "out" / "grades.jsonl").read_text().splitlines()) == 3
    assert main(["eval", "--config", "out/evaluation.json", "--out", "again"]) == 0
    assert json.loads((tmp_path / "again" / "evaluation.json").read_text())["accuracy"] == 1.0


def test_a_function_that_gives_no_number_fails_episodes_with_the_cause(tmp_path):
    assert evaluate("--grader", "flag_graders:nan") == 0
    assert evaluation(tmp_path)["failures"] == 3
    assert "a score is nan, wanted 0 to 1" in (tmp_path / "out" / "episodes.jsonl").read_text()


def test_episodes_beyond_the_budget_fail_with_the_cause(tmp_path):
    assert evaluate("--grader", '{"kind": "flag_graders:half", "calls": 1}') == 0
    assert evaluation(tmp_path)["failures"] == 2
    assert "the grader's budget of 1 calls is used up" in (tmp_path / "out" / "episodes.jsonl").read_text()


def test_training_keeps_the_grades_in_the_run(tmp_path):
    (tmp_path / "half.toml").write_text('kind = "flag_graders:half"\nthreshold = 0.5\n')
    small = ["--updates", "1", "--groups", "1", "--group-size", "2"]
    assert main(["train", *ENV, *TINY, *small, "--grader", "half.toml", "--out", "run"]) == 0
    assert (tmp_path / "run" / "grades.jsonl").read_text().count('"score": 0.5') >= 1
    assert json.loads((tmp_path / "run" / "config.json").read_text())["keywords"]["grader"]["threshold"] == 0.5
    assert main(["train", "--resume", "run", "--updates", "2"]) == 0


def test_the_scripted_team_wins_under_another_grader_and_mistakes_are_one_line(capsys):
    assert main(["play", "marft/gsm8k_duo-v0", "--data", "embedded:stories", "--grader", "number"]) == 0
    assert "team reward 1;" in capsys.readouterr().out
    assert main(["play", "marft/gsm8k_duo-v0", "--grader", "flag_graders:hlf"]) == 1
    assert "flag_graders has no hlf" in capsys.readouterr().err
    assert main(["play", "marft/gsm8k_duo-v0", "--grader", "nmber"]) == 1
    assert "did you mean number" in capsys.readouterr().err
