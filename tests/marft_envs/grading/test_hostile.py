"""Adversarial: nothing that a model writes hangs, crashes or runs in the grader."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from marft_envs.grading import grade_math, symbolic
from marft_envs.grading.answer_parser import read
from marft_envs.grading.grade import decide_bounded
from tests.marft_envs.grading import grading_hostile

CPU_BOUND_S = 3.0  # 20 ms on a quiet machine; the benchmark measures, this only catches a hang
CASES = grading_hostile.all_texts(Path("MARKER"))


def test_there_are_many_cases():
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_bounded_tiers_return_quickly(name, tmp_path):
    marker = tmp_path / "executed"
    text = grading_hostile.all_texts(marker)[name].strip()
    for gold in grading_hostile.GOLDS:
        for language in ("en", "zh"):
            read.cache_clear()
            start = time.process_time()
            verdict = decide_bounded(*sorted((gold, text)), language)
            assert time.process_time() - start < CPU_BOUND_S
            assert verdict.same is not True or text.strip("\u200b") in ("2", "٢", "๒", "②")
    assert not marker.exists()


@pytest.mark.parametrize("name", CASES)
def test_extraction_returns_quickly(name):
    start = time.process_time()
    grade_math(rf"\boxed{{{CASES[name]}}}", "2", "zh", use_symbolic=False)
    grade_math(rf"\boxed{{{CASES[name]}}}", "2", use_symbolic=False)
    grade_math(CASES[name], "2", "zh", extraction=("boxed", "answer", "number"), use_symbolic=False)
    assert time.process_time() - start < CPU_BOUND_S


def test_a_number_of_thousands_of_digits_is_written_in_few_characters():
    assert grade_math(rf"\boxed{{{'亿一千' * 660}}}", "5", "zh").method == "limit"


def test_symbolic_worker_executes_nothing(tmp_path):
    marker = tmp_path / "executed"
    for text in grading_hostile.code(marker).values():
        symbolic.decide(r"\pi", text, wall_s=2.0)
    assert not marker.exists()


def test_symbolic_worker_may_wait_long_but_not_work_long(monkeypatch):
    """A busy machine makes it wait: only its own work may cost an answer the verdict."""
    assert symbolic.SYMBOLIC_WALL_S >= 20 * symbolic.SYMBOLIC_CPU_S
    monkeypatch.setattr(symbolic, "SYMBOLIC_CPU_S", 1)
    assert symbolic.decide("9^{9^{9^9}}", "2") == "timeout"


def test_symbolic_worker_is_killed_at_the_deadline():
    symbolic.decide("x", "x+0")  # starts the server
    assert symbolic.decide("9^{9^{9^9}}", "2", wall_s=0.5) == "timeout"
    assert symbolic.decide(r"\int_0^1 x dx", r"\frac12") == "equal"
