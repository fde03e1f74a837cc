"""The embedded programming problems: valid tests, references that agree, checkers that hostile output can't fool."""

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

import envs_data
from envs_data.build.codeforces import inputs, problem_id, ranked, row, small
from envs_data.build.codeforces.input_validation import Reader, lines
from envs_data.build.codeforces.problem_file import read, slugs
from envs_data.build.codeforces.reference import answer
from marft_envs.sandbox import read_checker

PROBLEMS = {problem.slug: problem for problem in ranked()}
ROWS = {row["id"]: row for split in ("train", "test") for row in envs_data.rows("codeforces", split)}
CUSTOM = sorted(slug for slug, problem in PROBLEMS.items() if problem.generated_checker)
UNTESTABLE = {"melting_ice": "its slow solution needs minutes even for small inputs; the equation itself is checked"}


def slow_sources(problem):
    """The Python solutions that are right, but not for large inputs."""
    python = [each for each in problem.solutions if each.language == "python"]
    return [each.source for each in python if each.verdict in ("TLE", "MLE") or each.idea == "recurses too deep"]


BRUTE = sorted(slug for slug, problem in PROBLEMS.items() if slug not in UNTESTABLE and slow_sources(problem))


def official_tests(slug):
    return ROWS[problem_id(PROBLEMS[slug])]["official_tests"]


def run_checker(slug, folder, given, correct, found):
    """Run a problem's checker as open-r1 does; return what it prints."""
    for name, content in (("input", given), ("correct", correct), ("found", found)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "checker.py").write_text(PROBLEMS[slug].generated_checker)
    command = [sys.executable, "-I", "-S", "checker.py", "input", "correct", "found"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def is_accepted(slug, folder, given, correct, found):
    if PROBLEMS[slug].generated_checker:
        return correct == found or run_checker(slug, folder, given, correct, found) == "1"
    checker = read_checker(PROBLEMS[slug].checker)
    return checker.check(given.encode(), found.encode(), correct.encode()).score == 1.0


# ---- the set


def test_both_splits_have_problems_of_every_level():
    levels = Counter(problem.level for problem in PROBLEMS.values())
    assert levels >= Counter(easy=20, medium=14, hard=10)
    for split in ("train", "test"):
        assert {row["contest_id"] for row in envs_data.rows("codeforces", split)} == set(levels)


def test_every_third_problem_by_rating_and_name_is_a_test_problem():
    test = {row["id"] for row in envs_data.rows("codeforces", "test")}
    order = sorted(ROWS.values(), key=lambda row: (row["rating"], row["index"]))
    assert [row["id"] in test for row in order] == [place % 3 == 2 for place in range(len(order))]


def test_the_tests_are_small_enough_to_ship():
    sizes = [len(test["input"]) for row in ROWS.values() for test in row["official_tests"]]
    assert max(sizes) <= 64 * 1024
    assert sum((envs_data.FOLDER / "codeforces" / f"{split}.jsonl").stat().st_size for split in ("train", "test")) < 3e6


@pytest.mark.parametrize("slug", slugs())
def test_a_problem_is_complete(slug):
    found = ROWS[problem_id(PROBLEMS[slug])]
    assert len(found["official_tests"]) >= 10
    assert found["official_tests"][: len(found["examples"])] == found["examples"]
    assert (found["checker"] is None) != (found["generated_checker"] is None)
    assert 800 <= found["rating"] <= 2000
    texts = [found[column] for column in ("description", "input_format", "output_format")]
    assert all(len(text) > 20 and text[0].isupper() for text in texts)
    kinds = {(each.verdict, each.language) for each in PROBLEMS[slug].solutions}
    assert {("OK", "python"), ("OK", "c++17")} <= kinds
    assert {verdict for verdict, _ in kinds} & {"WA", "RE"}
    assert all(bool(each.idea) == (each.verdict != "OK") for each in PROBLEMS[slug].solutions)
    outputs = Counter(test["output"].strip().lower() for test in found["official_tests"])
    assert max(outputs.values()) <= 0.6 * outputs.total()  # no constant passes many tests


def test_statements_name_no_bound_that_the_tests_never_reach():
    """The largest bound of an input format is within a factor of two of some number (or length) in the tests."""
    for slug in slugs():
        found = ROWS[problem_id(PROBLEMS[slug])]
        powers = re.sub(r"10\^(\d+)", lambda match: str(10 ** int(match[1])), found["input_format"])
        bound = max(map(int, re.findall(r"\d+", powers)))
        words = [word for test in found["official_tests"] for word in re.split(r"[\s:]+", test["input"])]
        reached = max(max(int(word) if re.fullmatch(r"\d{1,30}", word) else 0, len(word)) for word in words)
        assert 2 * reached >= bound, slug


# ---- the solutions


@pytest.mark.parametrize("slug", BRUTE)
def test_the_reference_agrees_with_a_slow_solution_on_small_inputs(slug, tmp_path):
    problem, rng = PROBLEMS[slug], Random(slug)
    limit = sys.getrecursionlimit()
    for source in slow_sources(problem):
        for _ in range(10 if problem.generated_checker else 60):
            text = small(problem)(rng)
            correct = answer(problem.reference, text)
            assert is_accepted(slug, tmp_path, text, correct, answer(source, text)), text
    sys.setrecursionlimit(limit)


def test_every_medium_and_hard_problem_has_a_slow_solution_or_another_proof():
    proven = {*BRUTE, *UNTESTABLE, *CUSTOM}
    assert {slug for slug, problem in PROBLEMS.items() if problem.level != "easy"} <= proven


def test_the_ice_melts_by_its_equation():
    for test in official_tests("melting_ice"):
        p, q = map(int, test["input"].split())
        t = float(test["output"])
        early, late = t - 1e-6 * max(1, t), t + 1e-6 * max(1, t)
        assert early**3 + p * early <= q <= late**3 + p * late


# ---- the checkers


@pytest.mark.parametrize("slug", CUSTOM)
def test_a_checker_accepts_the_reference_and_survives_garbage(slug, tmp_path):
    for test in official_tests(slug):
        assert run_checker(slug, tmp_path, test["input"], test["output"], test["output"]) == "1"
    test = max(official_tests(slug), key=lambda test: len(test["output"]))
    texts = ["", "\n", "1", "-1 -1", "YES", "no", "1_0 ٣", "9" * 5000, "nan inf", "YES\n0", "A" * 9, "0 x"]
    for output in [*texts, b"\xff\xfe\x00"]:
        assert run_checker(slug, tmp_path, test["input"], test["output"], output) == "0", output


@pytest.mark.parametrize(
    ("slug", "given", "correct", "right", "wrong"),
    [
        ("two_ribbons", "7\n", "1 6\n", "2 5|6\n1\n", "7 0|-1 8|3 3|1 6 0|-1|1 5"),
        ("two_ribbons", "2\n", "-1\n", "-1", "1 1|-1 -1|0 2"),
        ("two_sacks", "3\n", "YES\n3\n", "YES 1 2|yes\n2 1\n", "YES|NO|YES 3 3|YES 0 3|3|YES 1 2 3"),
        ("two_sacks", "2\n", "NO\n", "no", "YES|YES 1|NO NO"),
        ("swap_shelf", "3\n3 1 2\n", "2\n1 2\n2 3\n", "2\n1 2\n3 2\n", "0|1 1 2|3 1 2 2 3 1 1|2 0 1 1 2"),
        ("two_teams", "3 2\n1 2\n2 3\n", "ABA\n", "BAB", "AAA|ABAB|A B A|IMPOSSIBLE|aba"),
        ("two_teams", "2 0\n", "AA\n", "AB|BB|BA", "|A|AC"),
        ("recipe_order", "3 1\n3 1\n", "2 3 1\n", "3 1 2|3\n2\n1", "1 2 3|3 1|3 1 1|3 1 2 2|IMPOSSIBLE"),
        ("recipe_order", "2 2\n1 2\n2 1\n", "IMPOSSIBLE\n", "IMPOSSIBLE", "1 2|2 1|"),
    ],
)
def test_a_checker_knows_right_from_wrong(slug, given, correct, right, wrong, tmp_path):
    for score, outputs in (("1", right), ("0", wrong)):
        for output in outputs.split("|"):
            assert run_checker(slug, tmp_path, given, correct, output) == score, output


# ---- the build


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("1 2 3", "ends with a newline"),
        ("1  2 3\n", "found 4 words, wanted 3"),
        ("01 2 3\n", "found '01'"),
        ("1 2 101\n", "found 101, wanted 1 to 100"),
        ("1 2 3\n\n", "line 2: found '', wanted the end"),
        ("\n", "found 1 words"),
        ("1 2 ٣\n", "wanted ASCII"),
    ],
)
def test_the_reader_of_inputs_insists_on_the_format(text, what):
    with pytest.raises(ValueError, match=what):
        (reader := Reader(text)).ints(3, 1, 100) and reader.end()


def test_lines_are_written_as_they_are_read():
    reader = Reader(lines([2, -3], "ab", 7))
    assert (reader.ints(2, -3, 2), reader.word("[a-z]+"), reader.integer(0, 9)) == ([2, -3], "ab", 7)
    reader.end()


@pytest.mark.parametrize(
    ("build", "example", "message"),
    [
        (inputs, ("2 5\n1\n", "0\n"), "line 2: found 1 words, wanted 2"),
        (row, ("1 5\n9\n", "0\n"), "hot_days: found .* by the reference, wanted"),
    ],
    ids=["against_the_statement", "against_the_reference"],
)
def test_a_wrong_example_stops_the_build(build, example, message):
    with pytest.raises(ValueError, match=message):
        build(replace(read("hot_days"), examples=(example,)), Random(0))


def test_rows_are_plain_json():
    assert json.loads(json.dumps(ROWS)) == ROWS
