"""`marft sandbox agree`: verdicts of the judge beside those that the sources of solutions state."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from baselines.cli.main import main
from envs_data import DataError
from marft_envs.tasks.code.labelled_solutions import WRONG, load_solutions

OWN = Path(__file__).parent / "published_solutions"
PUBLISHED = Path(os.environ.get("MARFT_ORIGINALS", Path(__file__).parents[4] / "shared" / "data"))
ADD = "print(sum(map(int, input().split())))"
CODE_CONTESTS = {
    "name": "sum",
    "description": "Add.",
    "public_tests": {"input": ["1 2"], "output": ["3"]},
    "private_tests": {"input": ["2 2"], "output": ["4"]},
    "solutions": {"language": [3, 1, 4], "solution": [ADD, "print 3", "class A {}"]},
    "incorrect_solutions": {"language": [3, 3], "solution": ["print(3)", "1/0"]},
}
TACO = {"question": "Add.", "input_output": '{"inputs": ["1 2"], "outputs": ["3"]}', "solutions": json.dumps([ADD])}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def agree(capsys, *words):
    status = main(["sandbox", "agree", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def counts(found):
    return {(row["language"], row["stated"], row["found"]): row["count"] for row in found["rows"]}


def test_published_solutions_are_compared(tmp_path, capsys):
    files = [write(tmp_path / "contests.jsonl", CODE_CONTESTS), write(tmp_path / "taco.jsonl", TACO)]
    status, found = agree(capsys, *files)
    assert (status, found["disagreements"]) == (0, [])
    assert sum(row["count"] for row in found["rows"] if row["stated"] == "OK") == 2
    assert {(row["stated"], row["found"]) for row in found["rows"]} == {("OK", "OK"), (WRONG, "WA"), (WRONG, "RE")}
    assert found["left_out"] == {"in python2": 1, "in java": 1}


def test_a_verdict_that_differs_is_named_with_its_test(tmp_path, capsys):
    data = write(tmp_path / "contests.jsonl", CODE_CONTESTS)
    rows = [
        {"problem_id": "sum", "programmingLanguage": "Python 3", "verdict": verdict, "source": source}
        for verdict, source in (("OK", "print(3)"), ("WRONG_ANSWER", ADD), ("TIME_LIMIT_EXCEEDED", "print(3)"))
    ]
    status, found = agree(capsys, data, "--solutions", write(tmp_path / "solutions.jsonl", *rows))
    assert status == 1
    assert counts(found) == {("python", "OK", "WA"): 1, ("python", "WA", "OK"): 1, ("python", "TLE", "WA"): 1}
    first, second, third = found["disagreements"]
    assert "solutions.jsonl:1): stated OK, found WA; test 1:" in first
    assert "stated WA, found OK; all tests pass" in second
    assert "stated TLE, found WA" in third


def test_solutions_that_can_not_be_compared_are_counted_and_broken_ones_named(tmp_path):
    data = write(tmp_path / "contests.jsonl", CODE_CONTESTS)
    row = {"problem": "sum", "language": "PyPy 3", "verdict": "OK", "source": ADD}
    several = write(tmp_path / "solutions.jsonl", row, row | {"problem": "other"}, row | {"language": "GNU C++20 (64)"})
    solved = load_solutions(data, file=Path(several))
    assert solved.left_out == {"in PyPy 3": 1, "its problem is not in the data": 1}
    assert [solution.language for _, solution in solved.cases] == ["c++20"]
    with pytest.raises(DataError, match=r"broken\.jsonl:1: .*verdict 'MAYBE'"):
        load_solutions(data, file=Path(write(tmp_path / "broken.jsonl", row | {"verdict": "MAYBE"})))
    bare = {name: value for name, value in TACO.items() if name != "solutions"}
    with pytest.raises(DataError, match="no solutions"):
        load_solutions(write(tmp_path / "bare.jsonl", bare))


def test_embedded_problems_bring_236_solutions():
    assert sum(len(load_solutions(split=split).cases) for split in ("train", "test")) == 236


@pytest.mark.slow
def test_our_solutions_of_published_problems_get_their_verdicts(tmp_path, capsys):
    """Right and wrong solutions of ours; two problems take several answers, so they get checkers of ours."""
    published = PUBLISHED / "codeforces_sample.jsonl"
    if not published.is_file():
        pytest.skip("needs the published codeforces_sample.jsonl; set MARFT_ORIGINALS to its folder")
    checkers = json.loads((OWN / "checkers.json").read_text())
    rows = [json.loads(line) for line in published.read_text().splitlines()]
    rows = [row | {"generated_checker": checkers.get(row["id"])} for row in rows]
    data = write(tmp_path / "sample.jsonl", *rows)
    status, found = agree(capsys, data, "--solutions", str(OWN / "solutions.jsonl"))
    assert (status, found["disagreements"], found["left_out"]) == (0, [], {})
    assert sum(row["count"] for row in found["rows"]) == 21
