"""Every gold answer of files in the original formats is correct against itself; pairs are graded as labelled."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path

import pytest

from marft_envs.data.golds import repairs
from marft_envs.graders import cohen_kappa
from marft_envs.grading import grade_math, last_boxed
from marft_envs.grading.grade import decide
from tests.marft_envs.originals import KINDS, OWN, files, published, rows

LABELLED = rows(Path(__file__).parent / "labelled_pairs.jsonl")


def test_every_clone_has_a_file_of_each_format():
    assert {path.stem for path in OWN.glob("*.jsonl")} == {*KINDS.values(), "codeforces_sample"}
    assert min(len(rows(path)) for path in OWN.glob("*.jsonl")) >= 3


@pytest.mark.parametrize("path", files("gsm8k_train", "aime_2024", "cmath_dev"))
def test_golds_grade_as_correct(path):
    language = "zh" if "cmath" in path.name else "en"
    golds = [(row.get("golden") or row["answer"]).split("####")[-1].strip() for row in rows(path)]
    assert [gold for gold in golds if not grade_math(rf"\boxed{{{gold}}}", gold, language).correct] == []


@pytest.mark.parametrize("path", files("aime_2024"))
def test_aime_golds_may_be_padded(path):
    golds = [row["answer"] for row in rows(path)]
    assert all(grade_math(rf"\boxed{{{int(gold)}}}", gold).correct for gold in golds)


@pytest.mark.parametrize("path", files("math_train"))
def test_math_solutions_grade_as_correct(path):
    wrong = []
    for row in rows(path):
        repair = repairs().get(hashlib.sha1(row["problem"].strip().encode()).hexdigest()[:12])
        if repair is None:
            correct = grade_math(row["solution"], last_boxed(row["solution"])).correct
        else:
            text = ", ".join(rf"\boxed{{{gold}}}" for gold in repair.answers)
            correct = grade_math(text, repair.answers, mode=repair.mode).correct
        if not correct:
            wrong.append(row["solution"])
    assert wrong == []


@pytest.mark.parametrize("path", files("math_train"))
def test_gold_of_another_problem_is_wrong(path):
    golds = list(dict.fromkeys(last_boxed(row["solution"]) or "0" for row in rows(path)))
    shift = 401 if len(golds) > 401 else 1  # at this distance no two are one answer in two spellings
    accepted = [pair for pair in zip(golds, golds[shift:], strict=False) if decide(*pair, use_symbolic=False).same]
    assert len(golds) > shift
    assert accepted == []


def test_our_labelled_pairs_cover_every_kind_of_answer():
    by_kind = defaultdict(list)
    for row in LABELLED:
        by_kind[row["kind"]].append(row)
        assert row["reason"]
    assert len(LABELLED) >= 300
    assert len(by_kind) >= 30
    assert len({(row["gold"], row["answer"], row["language"]) for row in LABELLED}) == len(LABELLED)
    assert [kind for kind, found in by_kind.items() if len({row["equivalent"] for row in found}) < 2] == ["adversarial"]


@pytest.mark.parametrize("kind", sorted({row["kind"] for row in LABELLED}))
def test_our_labelled_pairs(kind):
    chosen = [row for row in LABELLED if row["kind"] == kind]
    pairs = [(row["gold"], row["answer"], row["language"], row["equivalent"], row["reason"]) for row in chosen]
    wrong = [pair for pair in pairs if bool(decide(*pair[:3]).same) is not pair[3]]
    turned = [pair for pair in pairs if bool(decide(pair[1], pair[0], pair[2]).same) is not pair[3]]
    assert wrong == turned == []


def test_the_grader_agrees_with_our_labels():
    graded = [bool(decide(row["gold"], row["answer"], row["language"]).same) for row in LABELLED]
    agreement = cohen_kappa([row["equivalent"] for row in LABELLED], graded)
    assert agreement.count == len(LABELLED)
    assert agreement.low > 0.97


@pytest.mark.long
def test_the_published_labelled_pairs():
    pairs = rows(published("math_pairs.jsonl"))
    chosen = [row for row in pairs if row["form"] == "answer" and not row["policy"]]
    missed, accepted = [], []
    for row in chosen:
        language = "zh" if row["category"].startswith("zh") else "en"
        same = bool(decide(row["gold"], row["candidate"], language).same)
        if same != row["equivalent"]:
            (missed if row["equivalent"] else accepted).append((row["gold"], row["candidate"]))
    assert accepted == []
    assert len(missed) <= 0.005 * len(chosen), missed
