"""Every gold answer of the data sets is correct against itself; runs on the files that are there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from marft_envs.grading import grade_math, last_boxed
from marft_envs.grading.grade import decide

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def found(*names: str) -> list[Path]:
    return [DATA / name for name in names if (DATA / name).is_file()]


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]


@pytest.mark.parametrize("path", found("gsm8k_train.jsonl", "aime_2024.jsonl", "cmath_dev.jsonl"), ids=lambda p: p.name)
def test_golds_grade_as_correct(path):
    language = "zh" if "cmath" in path.name else "en"
    golds = [(row.get("golden") or row["answer"]).split("####")[-1].strip() for row in rows(path)]
    assert [gold for gold in golds if not grade_math(rf"\boxed{{{gold}}}", gold, language).correct] == []


@pytest.mark.parametrize("path", found("aime_2024.jsonl"), ids=lambda p: p.name)
def test_aime_golds_may_be_padded(path):
    golds = [row["answer"] for row in rows(path)]
    assert all(grade_math(rf"\boxed{{{int(gold)}}}", gold).correct for gold in golds)


@pytest.mark.parametrize("path", found("math_train.jsonl"), ids=lambda p: p.name)
def test_math_solutions_grade_as_correct(path):
    repairs = {row["problem_sha1"]: row for row in json.loads((DATA / "math_gold_overrides.json").read_text("utf-8"))}
    wrong = []
    for row in rows(path):
        key = hashlib.sha1(row["problem"].strip().encode()).hexdigest()[:12]
        repair = repairs.get(key)
        if repair is None:
            gold = last_boxed(row["solution"])
            correct = grade_math(row["solution"], gold).correct
        else:
            text = ", ".join(rf"\boxed{{{gold}}}" for gold in repair["gold"])
            gold = repair["gold"]
            correct = grade_math(text, gold, mode=repair["mode"]).correct
        if not correct:
            wrong.append(gold)
    assert wrong == []


@pytest.mark.parametrize("path", found("math_train.jsonl"), ids=lambda p: p.name)
def test_gold_of_another_problem_is_wrong(path):
    golds = list(dict.fromkeys(last_boxed(row["solution"]) or "0" for row in rows(path)))
    accepted = [pair for pair in zip(golds, golds[401:], strict=False) if decide(*pair, use_symbolic=False).same]
    assert accepted == []  # at this distance no two are one answer in two spellings


@pytest.mark.parametrize("path", found("math_pairs.jsonl"), ids=lambda p: p.name)
def test_labelled_pairs(path):
    chosen = [row for row in rows(path) if row["form"] == "answer" and not row["policy"]]
    missed, accepted = [], []
    for row in chosen:
        language = "zh" if row["category"].startswith("zh") else "en"
        same = bool(decide(row["gold"], row["candidate"], language).same)
        if same != row["equivalent"]:
            (missed if row["equivalent"] else accepted).append((row["gold"], row["candidate"]))
    assert len(accepted) <= 2, accepted
    assert len(missed) + len(accepted) <= 0.01 * len(chosen), missed
