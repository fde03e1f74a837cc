"""The embedded sets: complete, unchanged, reproducible, without overlap, gradable."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import envs_data
from envs_data.build import NAMES, spec
from envs_data.build.__main__ import main
from envs_data.build.draft import Draft, Group, deal, normalise, shares
from marft_envs.data import load_tasks
from marft_envs.grading import boxed_answers, equivalent, grade_math

PUBLISHED = Path(os.environ.get("MARFT_ORIGINALS", Path(__file__).parents[3] / "shared" / "data"))
LEAST_ROWS = {
    **{"aime": (150, 60), "cmath": (300, 200), "codeforces": (30, 14), "gsm8k": (500, 200), "math": (500, 200)},
    **dict.fromkeys(("ladder/cmath", "ladder/codeforces", "ladder/math", "ladder/tools"), (1800, 600)),
    **dict.fromkeys(("tools/desk", "tools/shop", "tools/travel"), (90, 30)),
    **{"tools/lookup": (240, 80), "stories": (600, 200), "retain": (0, 40)},
}
SUBJECTS = {"Prealgebra", "Algebra", "Intermediate Algebra", "Precalculus", "Geometry", "Number Theory"}
SUBJECTS |= {"Counting & Probability"}


@cache
def dealt(name):
    found = spec(name)
    return deal(found.name, found.groups, found.text_column)


def rows(name):
    return [row for split in envs_data.manifest()[name]["splits"] for row in envs_data.rows(name, split)]


def texts(name):
    column = envs_data.manifest()[name]["text"]
    return [row[column] for row in rows(name)]


def test_there_are_the_sets_that_can_be_built():
    assert envs_data.names() == NAMES == tuple(sorted(LEAST_ROWS))
    assert envs_data.check() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_set_is_large_enough_described_and_without_a_text_twice(name):
    entry = envs_data.manifest()[name]
    for split, least in zip(("train", "test"), LEAST_ROWS[name], strict=True):
        assert least == 0 or len(envs_data.rows(name, split)) >= least
    assert entry["licence"] == "MIT"
    assert "generated" in entry["origin"]
    assert name in entry["command"]
    assert max(Counter(map(normalise, texts(name))).values()) == 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "codeforces" else ()) for name in NAMES]
)
def test_no_template_uses_the_same_parameters_twice(name):
    keys = Counter((item.template, item.draft.parameters) for item in dealt(name))
    assert max(keys.values()) == 1
    column = envs_data.manifest()[name]["text"]
    assert {item.draft.row[column] for item in dealt(name)} == set(texts(name))


@pytest.mark.long
def test_rebuilding_gives_the_same_bytes(tmp_path, capsys):
    main(["--out", str(tmp_path)])
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.json*"))
    described = [entry["splits"] | entry.get("attachments", {}) for entry in envs_data.manifest().values()]
    assert len(files) == sum(map(len, described)) + 1
    for file in files:
        assert (tmp_path / file).read_bytes() == (envs_data.FOLDER / file).read_bytes(), file
    assert "stories: train 600, test 200" in capsys.readouterr().out


def test_rebuilding_does_not_depend_on_the_hash_seed(tmp_path):
    command = [sys.executable, "-m", "envs_data.build", "--out", str(tmp_path), "math", "cmath"]
    subprocess.run(command, check=True, env={"PYTHONHASHSEED": "7", "PATH": ""}, capture_output=True)
    for file in sorted(tmp_path.rglob("*.jsonl")):
        assert file.read_bytes() == (envs_data.FOLDER / file.relative_to(tmp_path)).read_bytes()


def test_a_single_set_leaves_the_others_in_the_manifest(tmp_path):
    main(["--out", str(tmp_path), "stories"])
    main(["--out", str(tmp_path), "aime"])
    assert set(json.loads((tmp_path / "manifest.json").read_text("utf-8"))) == {"aime", "stories"}


def test_changed_and_missing_files_are_refused(tmp_path):
    with pytest.raises(envs_data.DataError, match=r"manifest\.json: found no readable manifest"):
        envs_data.rows("stories", "train", tmp_path)
    main(["--out", str(tmp_path), "stories"])
    path = tmp_path / "stories" / "test.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"answer": "3"', b'"answer": "4"'))
    with pytest.raises(envs_data.DataError, match=r"test\.jsonl: found sha256 .* wanted .* install"):
        envs_data.rows("stories", "test", tmp_path)
    assert len(envs_data.check(tmp_path)) == 1
    path.unlink()
    with pytest.raises(envs_data.DataError, match=r"test\.jsonl: found no readable file"):
        envs_data.rows("stories", "test", tmp_path)


def test_unknown_set_and_split_name_those_that_exist():
    with pytest.raises(ValueError, match="found set 'maths', wanted one of aime"):
        spec("maths")
    with pytest.raises(envs_data.DataError, match="found set 'story', wanted one of aime, cmath"):
        envs_data.rows("story", "train")
    with pytest.raises(envs_data.DataError, match="found split 'dev', wanted one of train, test"):
        envs_data.rows("stories", "dev")


def test_rows_and_manifest_are_copies():
    envs_data.rows("stories", "train")[0]["answer"] = "spoilt"
    envs_data.manifest()["stories"]["columns"].clear()
    assert envs_data.rows("stories", "train")[0]["answer"] != "spoilt"
    assert envs_data.manifest()["stories"]["columns"]


def test_importing_envs_data_is_light():
    code = (
        "import sys, envs_data; envs_data.rows('math', 'train');"
        "print([m for m in ('numpy', 'sympy', 'torch', 'marft_envs') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


def test_no_row_was_taken_from_another_set():
    if not PUBLISHED.is_dir():
        pytest.skip("needs the published sets; set MARFT_ORIGINALS to their folder")
    others = set()
    for path in PUBLISHED.glob("*.jsonl"):
        for line in path.read_text("utf-8").rstrip("\n").split("\n"):  # not splitlines: texts hold U+2028
            row = json.loads(line)
            others |= {normalise(str(row[key])) for key in ("problem", "question") if key in row}
    ours = {normalise(text) for name in NAMES for text in texts(name)}
    assert others
    assert ours & others == set()


# ---- what the rows look like


@pytest.mark.parametrize("split", ["train", "test"])
def test_math_has_every_subject_and_level(split):
    cells = Counter((row["type"], row["level"]) for row in envs_data.rows("math", split))
    assert set(cells) == {(subject, f"Level {n}") for subject in SUBJECTS for n in range(1, 6)}
    templates = Counter(item.template.rpartition("/")[0] for item in dealt("math") if item.split == split)
    assert min(templates.values()) >= 6


def test_math_has_four_templates_for_easy_middle_and_hard_problems_of_each_subject():
    regions = {"1": "easy", "2": "easy", "3": "middle", "4": "hard", "5": "hard"}
    names = [name.split("/") for name in {item.template for item in dealt("math")}]
    cells = Counter((subject, regions[level]) for subject, level, _ in names)
    assert len(cells) == 21
    assert min(cells.values()) >= 4


def test_math_answers_are_of_many_kinds():
    golds = [gold for row in rows("math") for gold in boxed_answers(row["solution"])]
    kinds = {
        "integer": r"-?\d+",
        "decimal": r"-?\d+\.\d+",
        "fraction": r"-?\\frac\{\d+\}\{\d+\}",
        "surd": r"\d*\\sqrt\{\d+\}",
        "pi": r".*\\pi.*",
        "interval": r".*\\infty.*",
        "tuple": r"(\\left)?\(.*,.*\)",
        "expression": r".*\dx.*",
        "matrix": r"\\begin\{pmatrix\}.*",
        "complex": r".*\d*i",
        "percent": r".*%",
        "degrees": r".*\\circ",
        "base": r"\d+_\d",
        "list": r"[^(]+, [^)]+",
    }
    for kind, pattern in kinds.items():
        assert sum(bool(re.fullmatch(pattern, gold)) for gold in golds) >= 4, kind


@pytest.mark.parametrize("split", ["train", "test"])
def test_cmath_has_every_grade_and_kind_of_answer(split):
    rows = envs_data.rows("cmath", split)
    grades = Counter(row["grade"] for row in rows)
    assert set(grades) == set(range(1, 7))
    assert min(grades.values()) >= (50 if split == "train" else 30)
    kinds = {"decimal": r"\d+\.\d+", "fraction": r"\d+/\d+", "percent": r"[\d.]+%", "integer": r"\d+"}
    for kind, pattern in kinds.items():
        assert sum(bool(re.fullmatch(pattern, row["golden"])) for row in rows) >= 5, kind
    assert {type(row["golden"]) for row in rows} == {str}


def test_cmath_is_chinese_with_full_width_punctuation():
    for text in texts("cmath"):
        assert re.search(r"[一-鿿]", text)
        assert text.endswith(("？", "）")), text
        assert not re.search(r"[,?;!a-zA-Z]", text), text


@pytest.mark.parametrize("name", ["gsm8k", "stories"])
def test_english_stories_have_no_broken_number_or_article(name):
    for text in texts(name):
        assert not re.search(r"\b1 (?!dollar|of|more|in|and|on|per|point\b)[a-z]+s\b", text), text
        assert not re.search(r"\ba [aeio]|  ", text), text
        assert text[0].isupper() or text[0].isdigit()
        assert text.endswith("?")


@pytest.mark.parametrize("name", ["math", "aime"])
def test_latex_is_balanced_and_boxes_one_answer(name):
    for row in rows(name):
        problem, solution = (row.get(column) or row[column.title()] for column in ("problem", "solution"))
        for text in (problem, solution):
            assert text.count("$") % 2 == 0, text
            assert text.count("{") == text.count("}"), text
            assert text.count(r"\left") == text.count(r"\right"), text
            assert not re.search(r"\+ -|- -|--|\b1x|[^\d.]0x", text), text
        assert solution.count(r"\boxed") == 1


def test_every_formula_is_tidy():
    """No sum of two constants is left where a template joins a formula with a number."""
    for item in dealt("math"):
        assert not re.search(r"x [+-] \d+ [+-] \d+\\right", item.draft.row["problem"]), item


def test_aime_answers_are_whole_numbers_below_a_thousand_with_unique_ids():
    found = rows("aime")
    assert all(row["Answer"].isdigit() and int(row["Answer"]) <= 999 for row in found)
    assert all(rf"\boxed{{{row['Answer']}}}" in row["Solution"] for row in found)
    assert len({row["ID"] for row in found}) == len(found)
    assert len({row["Answer"] for row in found}) > 150


@pytest.mark.parametrize("kind", ["math", "gsm8k", "aime", "cmath"])
def test_every_gold_grades_as_right_and_its_neighbours_as_wrong(kind):
    language = "zh" if kind == "cmath" else "en"
    tasks = [task for split in ("train", "test") for task in load_tasks(kind, split=split)]
    for task in tasks:
        other_layout = task.answer.replace(r"\frac", r"\dfrac").replace(r"\left", "").replace(r"\right", "")
        assert grade_math(rf"so \boxed{{{task.answer}}}.", task.answer, language).correct, task
        assert equivalent(task.answer, f" {other_layout} ", language), task
    for task, following in pairwise(tasks):
        if task.answer.isdigit() and following.answer.isdigit() and task.answer != following.answer:
            assert not equivalent(task.answer, following.answer, language)


# ---- the dealing itself


def test_shares_differ_by_at_most_one_and_add_up():
    assert shares(7, 3) == [3, 2, 2]
    assert shares(7, 3, from_the_end=True) == [2, 2, 3]
    assert shares(0, 2) == [0, 0]


def test_an_exhausted_template_is_named():
    def few(rng):
        number = rng.randint(1, 3)
        return Draft((number,), {"text": f"number {number}"})

    with pytest.raises(ValueError, match="template small/few: found 3 distinct drafts, wanted 5"):
        deal("toy", [Group("small", (few,), 4, 1)], "text")
