"""Programming problems are read from every published arrangement of columns, or refused with their place."""

import csv
import json
import subprocess
import sys
import warnings

import pytest

from marft_envs.data import DataError
from marft_envs.sandbox.checkers import Floats, JsonValue, ProgramChecker, Tokens, Values
from marft_envs.sandbox.judge_data import Test
from marft_envs.tasks.code.loading import load_problems
from tests.marft_envs.originals import OWN, files, rows

OPEN_R1 = {
    "id": "1/A", "title": "Double", "description": "Print $$$2x$$$.", "input_format": "$$$x$$$", "output_format": "it",
    "note": None, "time_limit": 1.5, "memory_limit": 64.0, "input_mode": "stdio", "interaction_format": None,
    "examples": [{"input": "1\n", "output": "2\n"}], "rating": 800, "tags": ["math", "easy"],
    "official_tests": [{"input": "1\n", "output": "2\n"}, {"input": "2\n", "output": "4\n"}],
    "official_tests_complete": True, "generated_checker": None, "checker": None, "difficulty": "easy",
}  # fmt: skip
CODE_CONTESTS = {
    "name": "1_A. Double", "description": "Print 2x.", "cf_rating": 900, "cf_tags": ["math"],
    "public_tests": {"input": ["1\n"], "output": ["2\n"]}, "private_tests": {"input": ["2\n"], "output": ["4\n"]},
    "generated_tests": {"input": ["3\n"], "output": ["6\n"]}, "time_limit": {"seconds": 2, "nanos": 500000000},
    "memory_limit_bytes": 256000000, "input_file": "", "output_file": "",
}  # fmt: skip
STDIN = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
LIVE = {
    "question_title": "Double", "question_content": "Print 2x.", "question_id": "abc_a", "difficulty": "easy",
    "public_test_cases": json.dumps(STDIN), "starter_code": "", "metadata": "{}", "private_test_cases": "[]",
}  # fmt: skip
CALLS = [{"input": '[1, 2]\n"a b"', "output": "[true, null]", "testtype": "functional"}]
LIVE_FUNCTION = LIVE | {
    "public_test_cases": json.dumps(CALLS),
    "starter_code": "class Solution:\n    def f(self, a: List[int], s: str) -> List[bool]:",
    "metadata": json.dumps({"func_name": "f"}),
}
APPS = {
    "problem_id": 7, "question": "Print 2x.", "difficulty": "interview",
    "input_output": json.dumps({"inputs": ["1\n", ["2", "3"]], "outputs": ["2\n", ["4", "6"]]}),
}  # fmt: skip
TACO = {
    "question": "Double.", "difficulty": "EASY", "time_limit": "2.0 seconds", "memory_limit": "512.0 megabytes",
    "tags": "['math']", "starter_code": "def double(x):",
    "input_output": json.dumps({"fn_name": "double", "inputs": [[1], [2]], "outputs": [[2], [4]]}),
}  # fmt: skip


def load(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return load_problems("codeforces", str(path), "train")


def one(tmp_path, row):
    (problem,) = load(tmp_path, row)
    return problem


def test_open_r1(tmp_path):
    problem = one(tmp_path, OPEN_R1)
    assert (problem.id, problem.statement, problem.input_format) == ("1/A", "Print $2x$.", "$x$")
    assert problem.examples == (Test(b"1\n", b"2\n"),)
    assert problem.hidden == (Test(b"2\n", b"4\n"),)
    assert (problem.limits.cpu_s, problem.limits.memory_mb) == (1.5, 64)
    assert problem.checker == Values()
    assert problem.meta == {
        "kind": "codeforces", "origin": "open-r1/codeforces", "rating": 800, "difficulty": "easy", "tags": "math, easy",
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*take several answers but bring no checker")
@pytest.mark.parametrize("path", files("codeforces_sample"))
def test_files_in_the_format_of_open_r1(path):
    problems = load_problems("codeforces", str(path), "train")
    assert [problem.id for problem in problems] == [row["id"] for row in rows(path)]
    for problem, row in zip(problems, rows(path), strict=True):
        assert [test.input.decode() for test in problem.examples] == [example["input"] for example in row["examples"]]
        tested = {test.input.decode().strip() for test in problem.all_tests}
        assert tested == {test["input"].strip() for test in row["official_tests"] + row["examples"]}
        assert (problem.limits.cpu_s, problem.limits.memory_mb) == (row["time_limit"], row["memory_limit"])
        assert "$$$" not in problem.statement


def test_our_file_in_the_format_of_open_r1_is_read_as_meant():
    piles, mean, pair = load_problems("codeforces", str(OWN / "codeforces_sample.jsonl"), "train")
    assert piles.input_format == r"One line with two integers $a$ and $b$ ($0 \le a, b \le 10^9$)."
    assert [len(problem.hidden) for problem in (piles, mean, pair)] == [2, 1, 1]
    assert [problem.checker for problem in (piles, mean, pair)] == [Tokens(), Floats(1e-6, 1e-6), Tokens()]


def test_open_r1_checkers(tmp_path):
    assert one(tmp_path, OPEN_R1 | {"checker": "floats:1e-4"}).checker == Floats(1e-4, 1e-4)
    assert one(tmp_path, OPEN_R1 | {"checker": "tokens"}).checker == Tokens()
    named = {"output_format": "Print inf, or $$$x$$$ with an absolute error of at most $$$10^{-3}$$$."}
    assert one(tmp_path, OPEN_R1 | named).checker == Values(1e-3, 0.0, words=True)
    cased = {"output_format": "Print YES or NO. You can print each letter in any case (upper or lower)."}
    assert one(tmp_path, OPEN_R1 | cased).checker == Values(any_case=True)
    source = "print(1)"
    wanted = ProgramChecker(source, "files")
    assert one(tmp_path, OPEN_R1 | {"generated_checker": source, "checker": "tokens"}).checker == wanted
    with pytest.raises(DataError, match=r"rows\.jsonl:1: .*did you mean tokens"):
        one(tmp_path, OPEN_R1 | {"checker": "token"})
    with pytest.warns(UserWarning, match=r"1 problems \(1/A.* several answers"):
        assert one(tmp_path, OPEN_R1 | {"checker": "any"}).meta["several_answers"] == 1


@pytest.mark.parametrize(("complete", "taken"), [(False, 2), (None, 2), (True, 3)])
def test_tests_that_codeforces_has_cut_are_not_taken(tmp_path, complete, taken):
    dots = {"input": "1 2 3...", "output": "6"}
    tests = [*OPEN_R1["official_tests"], dots]
    problem = one(tmp_path, OPEN_R1 | {"official_tests": tests, "official_tests_complete": complete})
    assert len(problem.tests) == taken


def test_code_contests(tmp_path):
    problem = one(tmp_path, CODE_CONTESTS)
    assert (problem.id, problem.limits.cpu_s, problem.limits.memory_mb) == ("1_A. Double", 2.5, 245)
    assert problem.examples == (Test(b"1\n", b"2\n"),)
    assert problem.hidden == (Test(b"2\n", b"4\n"), Test(b"3\n", b"6\n"))
    assert (problem.meta["rating"], problem.meta["tags"]) == (900, "math")
    usual = one(tmp_path, CODE_CONTESTS | {"time_limit": None, "memory_limit_bytes": 0})
    assert (usual.limits.cpu_s, usual.limits.memory_mb) == (2.0, 256)
    assert one(tmp_path, CODE_CONTESTS | {"memory_limit_bytes": 2**33}).limits.memory_mb == 2048


@pytest.mark.parametrize("private", [json.dumps(STDIN * 2), STDIN * 2])
def test_live_code_bench_on_standard_input(tmp_path, private):
    problem = one(tmp_path, LIVE | {"private_test_cases": private})
    assert (problem.id, problem.title, problem.limits.cpu_s) == ("abc_a", "Double", 6.0)
    assert problem.examples == (Test(b"1\n", b"2\n"),)
    assert len(problem.tests) == 2


def test_live_code_bench_functions(tmp_path):
    problem = one(tmp_path, LIVE_FUNCTION)
    assert problem.all_tests == (Test(b'[[1, 2], "a b"]\n', b"[true, null]"),)
    assert problem.languages == ("python",)
    assert problem.checker == JsonValue()
    assert "Write the function `f`. Begin with:\nclass Solution:" in problem.prompt()


def test_apps_and_taco(tmp_path):
    problem = one(tmp_path, APPS)
    assert problem.tests == (Test(b"1\n", b"2\n"), Test(b"2\n3", b"4\n6"))
    assert (problem.id, problem.meta["difficulty"]) == ("7", "interview")
    problem = one(tmp_path, TACO)
    assert problem.id == "rows-train-00000"
    assert problem.tests == (Test(b"[1]\n", b"2"), Test(b"[2]\n", b"4"))
    assert problem.checker == JsonValue(may_be_wrapped=True)
    assert (problem.limits.cpu_s, problem.limits.memory_mb) == (2.0, 512)


def test_integers_of_any_length_are_read(tmp_path):
    digits = "7" * 5000
    given = f'{{"inputs": [["3", {digits}]], "outputs": ["1"]}}'
    assert one(tmp_path, APPS | {"input_output": given}).tests[0].input == f"3\n{digits}".encode()
    given = (
        f'{{"fn_name": "f", "inputs": [[[-{digits}, "\\u0000{digits[:9]}"]]], "outputs": [{{"b": {digits}, "a": 1}}]}}'
    )
    (test,) = one(tmp_path, TACO | {"input_output": given}).tests
    assert test.input == f'[[-{digits}, "\\u0000{digits[:9]}"]]\n'.encode()
    assert test.output == f'{{"a": 1, "b": {digits}}}'.encode()


def run_driver(problem, source: str) -> bytes:
    """Run what a function problem makes of a program of ours, on its first test, without a jail."""
    command = [sys.executable, "-c", problem.complete(source)]
    return subprocess.run(command, input=problem.all_tests[0].input, capture_output=True, timeout=30, check=True).stdout


def test_the_driver_calls_functions_and_methods_and_prints_only_the_result(tmp_path):
    taco, live = one(tmp_path, TACO), one(tmp_path, LIVE_FUNCTION)
    assert run_driver(taco, "def double(x):\n    print('noise')\n    return 2 * x") == b"2\n"
    source = "class Solution:\n    def f(self, a: List[int], s: str) -> List[bool]:\n        return sum(a) == 3, None"
    assert run_driver(live, source) == b"[true, null]\n"


# ------------------------------------------------------------------- left out

UNSUITED = [
    (OPEN_R1 | {"interaction_format": "ask"}, "an interactive problem"),
    (OPEN_R1 | {"input_mode": "file"}, "input_mode 'file', wanted 'stdio'"),
    (OPEN_R1 | {"executable": False}, "not executable"),
    (OPEN_R1 | {"official_tests": [], "examples": None}, "no tests"),
    (OPEN_R1 | {"time_limit": "soon"}, "time_limit 'soon'"),
    (OPEN_R1 | {"time_limit": 1000}, r"Limits\.cpu_s"),
    (OPEN_R1 | {"time_limit": 0}, r"Limits\.cpu_s: found 0\.0"),
    (OPEN_R1 | {"memory_limit": 0}, r"Limits\.memory_mb: found 0"),
    (OPEN_R1 | {"official_tests": [{"input": "1" * (65 << 20), "output": "1"}]}, "a test of 68,157,440 bytes"),
    (CODE_CONTESTS | {"input_file": "in.txt"}, "input from a file"),
    (LIVE | {"public_test_cases": "[]"}, "no tests"),
    (LIVE | {"public_test_cases": json.dumps(STDIN + CALLS)}, "functional, stdin"),
    (APPS | {"input_output": ""}, "no tests"),
    (APPS | {"input_output": json.dumps({"inputs": [], "outputs": []})}, "no tests"),
]


@pytest.mark.parametrize(("row", "message"), UNSUITED)
def test_what_can_not_be_judged_is_left_out_with_a_warning_or_refused_where_nothing_is_left(tmp_path, row, message):
    with pytest.raises(DataError, match=rf"rows\.jsonl:1: .*{message}"):
        load(tmp_path, row)
    with pytest.warns(UserWarning, match=rf"1 problems are left out .*rows\.jsonl:1: .*{message}"):
        assert [problem.id for problem in load(tmp_path, row, OPEN_R1 | {"id": "good"})] == ["good"]


BROKEN = [
    ({"question": "?"}, r"columns question.*official_tests \(open-r1"),
    (OPEN_R1 | {"description": " "}, "no text in column 'description'"),
    (OPEN_R1 | {"official_tests": [1]}, "official_tests that are no objects"),
    (OPEN_R1 | {"official_tests": "[{"}, "official_tests that is no JSON"),
    (OPEN_R1 | {"official_tests": [{"input": "1"}]}, "a test of type NoneType"),
    (CODE_CONTESTS | {"private_tests": {"input": ["1"], "output": []}}, "other inputs than outputs"),
    (LIVE | {"private_test_cases": "!"}, "neither JSON nor base64"),
    (LIVE_FUNCTION | {"metadata": "{}"}, "function name 'None'"),
    (LIVE_FUNCTION | {"metadata": '{"func_name": "f(); import os"}'}, "function name"),
    (LIVE_FUNCTION | {"public_test_cases": json.dumps([CALLS[0] | {"output": "nope"}])}, "a call that is no JSON"),
    (APPS | {"input_output": json.dumps({"inputs": ["1"], "outputs": []})}, "other inputs than outputs"),
    (APPS | {"input_output": '{"inputs": [' + "9" * 5000 + '], "outputs": ["1"]}'}, "a test of type LongInteger"),
    (APPS | {"input_output": "[1]"}, "input_output of type list"),
    (APPS | {"input_output": '{"fn_name": "f", "inputs": [5], "outputs": [5]}'}, "arguments of type int"),
    (APPS | {"input_output": '{"fn_name": "f", "inputs": ["ab"], "outputs": [5]}'}, "arguments of type str"),
    (APPS | {"question": ""}, "no text in column 'question'"),
]


@pytest.mark.parametrize(("row", "message"), BROKEN, ids=range(len(BROKEN)))
def test_broken_rows_are_errors_with_their_place(tmp_path, row, message):
    with pytest.raises(DataError, match=rf"rows\.jsonl:2: .*{message}"):
        load(tmp_path, OPEN_R1 | {"id": "good"}, row)


def test_ids_must_be_unique(tmp_path):
    with pytest.raises(DataError, match=r"rows\.jsonl:2: found id '1/A' as in .*rows\.jsonl:1"):
        load(tmp_path, OPEN_R1, OPEN_R1)


def test_csv_cells_may_hold_json(tmp_path):
    path = tmp_path / "rows.csv"
    tests = json.dumps(OPEN_R1["official_tests"])
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "description", "official_tests", "time_limit"])
        writer.writerow(["1/A", "Double.", tests, "1.5"])
    (problem,) = load_problems("codeforces", str(path))
    assert (len(problem.tests), problem.limits.cpu_s) == (2, 1.5)


def test_a_sound_set_loads_without_any_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load(tmp_path, OPEN_R1, CODE_CONTESTS)) == 2
