"""`check_environment` on faulty task files: one failure, with the line of the user's file."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial

import gymnasium
import pytest

import marft_envs
from marft_envs.registration import registry
from marft_envs.testing import check_environment

PREAMBLE = """from marft_envs import Outcome, Task, TaskList, register_task


class Sums(TaskList):
"""
LOADING = """

def load(data="embedded", split="train"):
    return Sums("sums", [Task("1+1", "1 + 1 = ?", "2", split)])


register_task("sums", load, namespace="faulty", teams=["duo"])
"""
JUDGE = """    def judge(self, task, answer, *, round, last_round):
        right = (answer or "").strip() == task.answer
        return Outcome(float(right), terminated=True, success=right, invalid=not answer)
"""
ONE_TASK = '[Task("1+1", "1 + 1 = ?", "2", split)]'
TWO_TASKS = '[Task("1+1", "1 + 1 = ?", "2", split), Task("1+1", "1 plus 1?", "2", split)]'

RETURNS_A_NUMBER = JUDGE.replace("Outcome(float(right), terminated=True, success=right, invalid=not answer)", "1.0")
FAULTS = {
    "no_round": (
        JUDGE.replace("*, round, last_round", "last_round=True") + LOADING,
        ["a game is played", "unexpected keyword argument 'round'", "(no_round.py:5, in judge)"],
    ),
    "a_number": (
        RETURNS_A_NUMBER + LOADING,
        ["a game is played", "judge returned 1.0 for task '1+1', wanted an Outcome(", "(a_number.py:5, in judge)"],
    ),
    "nothing": (
        RETURNS_A_NUMBER.replace("return 1.0", "Outcome(1.0, True, right, False)") + LOADING,
        ["a game is played", "judge returned None for task '1+1'", "(nothing.py:5, in judge)"],
    ),
    "same_ids": (
        JUDGE + LOADING.replace(ONE_TASK, TWO_TASKS),
        ["a game is played", "two tasks have the id '1+1'", "(same_ids.py:11, in load)"],
    ),
    "wants_text": (
        JUDGE.replace('(answer or "")', "answer") + LOADING,
        ["no answer is judged", "'NoneType' object has no attribute 'strip'", "(wants_text.py:6, in judge)"],
    ),
    "solves_nothing": (
        JUDGE.replace("success=right", "success=not answer") + LOADING,
        ["no answer is judged", "no answer solved the task"],
    ),
}


@pytest.fixture
def load_file(tmp_path, monkeypatch):
    """Write a file of tasks and import it; forget what it registers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))

    def load(name, source):
        path = tmp_path / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)

    yield load
    for name in [name for name in gymnasium.registry if name.startswith("faulty/")]:
        del gymnasium.registry[name]


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_task_file_fails_once_with_its_line(name, load_file):
    source, wanted = FAULTS[name]
    load_file(name, PREAMBLE + source)
    report = check_environment(partial(marft_envs.make, "faulty/sums_duo-v0"), cycles=5)
    failures = [str(check) for check in report.checks if check.passed is False]
    assert len(failures) == 1, str(report)
    for words in wanted:
        assert words in failures[0]
    if wanted[0] == "a game is played":  # nothing else is tried
        assert len(report.checks) == 1


def test_the_same_file_without_a_fault_passes(load_file):
    load_file("faultless", PREAMBLE + JUDGE + LOADING)
    report = check_environment(partial(marft_envs.make, "faulty/sums_duo-v0"), cycles=5)
    assert report.passed, str(report)
    assert str(report.checks[0]) == "ok   a game is played: 2 turns"


def test_an_unknown_team_is_refused_where_the_file_is_loaded(load_file):
    with pytest.raises(ValueError, match=r"task 'sums': teams: no preset team 'duett'; .*did you mean .*duo"):
        load_file("unknown_team", PREAMBLE + JUDGE + LOADING.replace('"duo"', '"duett"'))
    assert "faulty/sums_duett-v0" not in marft_envs.envs()
