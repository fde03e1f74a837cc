"""Checkers: every comparator mistake that public judges made, and checker programs as the jail runs them."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_envs.sandbox.checkers import Check, Floats, JsonValue, ProgramChecker, Tokens, Values, read_checker

INTEGER = b"7" * 100_000

# spec, output, expected, right?
TABLE = [
    ("tokens", b"1 2 3\n", b"1 2 3", True),
    ("tokens", b"1\r\n2\r\n 3 \n\n", b"1 2\n3\n", True),
    ("tokens", b"1 2", b"1 2 3", False),  # only the first lines compared
    ("tokens", b"1 2 3 4", b"1 2 3", False),  # what goes on after the expected end
    ("tokens", b"3\n4\n", b"3\n", False),
    ("tokens", b"", b"", True),
    ("tokens", b" \n", b"", True),
    ("tokens", b"0", b"", False),
    ("tokens", b"", b"0", False),
    ("tokens", b"1_0", b"10", False),
    ("tokens", "١٠".encode(), b"10", False),
    ("tokens", b"010", b"10", False),
    ("tokens", b"1.0", b"1", False),
    ("tokens", b"yes", b"YES", False),
    ("tokens", INTEGER, INTEGER + b"\n", True),
    ("tokens", INTEGER[:-1] + b"8", INTEGER, False),
    ("tokens", b"\xff\xfe\x00", b"1", False),
    ("tokens", "1\u00a02".encode(), b"1 2", False),  # only ASCII blanks are blanks
    ("exact", b"1\n", b"1\n", True),
    ("exact", b"1", b"1\n", False),
    ("lines", b"a b  \r\nc\n\n", b"a b\nc", True),
    ("lines", b"a  b\nc", b"a b\nc", False),
    ("lines", b" a", b"a", False),
    ("lines", b"a\n\nb", b"a\nb", False),
    ("lines", b"a\nb\nc", b"a\nb", False),
    ("lines", b"a", b"a\nb", False),
    ("lines", b"", b"\n", True),
    ("yesno", b"yEs\nno", b"YES\nNO\n", True),
    ("yesno", b"NO", b"YES", False),
    ("yesno", b"yes a", b"YES A", False),
    ("yesno", b"yes yes", b"YES", False),
    ("floats", b"0.3333333", b"0.33333333", True),
    ("floats", b"0.3334", b"0.3333", False),
    ("floats", b"1e-11", b"0", True),
    ("floats", b"-1e-11", b"0.0", True),
    ("floats", b"1000000.9", b"1000000.0", True),
    ("floats", b"1000002", b"1000000", False),
    ("floats", b"5", b"5.0", True),
    ("floats", b"+.5e1", b"5.", True),
    ("floats", b"nan", b"1.0", False),
    ("floats", b"nan", b"0", False),
    ("floats", b"inf", b"1e999", False),
    ("floats", b"1e999", b"2e999", False),
    ("floats", b"nan", b"nan", True),  # the same bytes
    ("floats", b"1_0", b"10.0", False),
    ("floats", "١٠".encode(), b"10.0", False),
    ("floats", b"0x10", b"16", False),
    ("floats", b"1.0 2.0 3.0", b"1.0 2.0", False),
    ("floats", b"1.0", b"1.0 2.0", False),
    ("floats", b"1.5", b"abc", False),
    ("floats", b"abc", b"abc", True),
    ("floats", INTEGER[:-1] + b"8", INTEGER, False),
    ("floats:1e-2", b"1.005", b"1", True),
    ("floats:1e-2", b"100.5", b"100", True),
    ("floats:1e-2:0", b"100.5", b"100", False),
    ("floats:0:1e-2", b"100.5", b"100", True),
    ("floats:0:1e-2", b"0.001", b"0", False),
    ("floats:0:0", b"1.0", b"1", True),
    ("values", b"5.0\n", b"5.00000000000000000\n", True),
    ("values", b"5", b"5.0", True),
    ("values", b"50e-1", b"5.0", True),
    ("values", b"1.4142136", b"1.41421356237309504880", True),
    ("values", b"1.41422", b"1.41421356237309504880", False),
    ("values", b"1000000.9", b"1000000.0", True),
    ("values", b"1000002.0", b"1000000.0", False),
    ("values:1e-3:0", b"1000000.9", b"1000000.0", False),
    ("values", b"0." + INTEGER, b"0." + INTEGER[1:], True),
    ("values", b"5.0", b"5", False),  # an integer is text
    ("values", b"7", b"007", False),
    ("values", b"007", b"007", True),
    ("values", b"1000001", b"1000000", False),
    ("values", b"1.2.30", b"1.2.3", False),
    ("values", b"x 0.5 y", b"x 0.50 y", True),
    ("values", b"x 0.5 z", b"x 0.50 y", False),
    ("values", b"0.5 0.5", b"0.5", False),
    ("values", b"yes", b"0.5", False),
    ("values", b"nan", b"0.5", False),
    ("values", b"inf", b"1e999", False),
    ("values", b"1e999", b"2e999", False),
    ("values", b"nan", b"nan", False),
    ("values", b"1\n-inf", b"1\n-inf", False),
    ("values", b"banana", b"banana", True),
    ("json", b"[0.1, 0.30000000000000004]\n", b"[0.1, 0.3]", True),
    ("json", b"[0.1, 0.3001]", b"[0.1, 0.3]", False),
    ("json", b"6.0", b"6", True),
    ("json", b"6.0000000001", b"6", False),
    ("json", b"-0.0", b"0", True),
    ("json", b"6", b"6.0", True),
    ("json", b"9007199254740991.0", b"9007199254740991", True),
    ("json", b"9007199254740992.0", b"9007199254740993", False),
    ("json", b"1e+17", b"100000000000000000", False),
    ("json", b"1000001", b"1000000", False),
    ("json", b'"6"', b"6", False),
    ("json", b"6", b'"6"', False),
    ("json", b'"0.30"', b'"0.3"', False),
    ("json", b"1", b"true", False),
    ("json", b"true", b"1", False),
    ("json", b"1.0", b"true", False),
    ("json", b"null", b"0", False),
    ("json", b'{"a":1.0,"b":[null, "x, y"]}', b'{"a": 1, "b": [null, "x, y"]}', True),
    ("json", b'{"b": 1, "a": 1}', b'{"a": 1, "b": 1}', False),  # sorted by their writer
    ("json", b'{"a": 1}', b'{"a": 1, "b": 1}', False),
    ("json", b"[[1], 2]", b"[[1, 2]]", False),
    ("json", b"[1, 2] 3", b"[1, 2]", False),
    ("json", b"[1 2]", b"[1, 2]", False),
    ("json", b'"a\\"b"', b'"a\\"b"', True),
    ("json", b'"a\\"b', b'"a\\"b"', False),
    ("json", b"NaN", b"NaN", False),
    ("json", b"[1, Infinity]", b"[1, Infinity]", False),
    ("json", b'"NaN"', b'"NaN"', True),
    ("json", b"NaN", b"0.5", False),
    ("json", INTEGER, INTEGER, True),
    ("json", INTEGER[:-1] + b"8", INTEGER, False),
    ("json:1e-2", b"[1.005]", b"[1.0]", True),
]
SPECS = ["tokens", "exact", "lines", "yesno", "floats", "values", "json"]


@pytest.mark.parametrize(("spec", "output", "expected", "right"), TABLE)
def test_each_comparator_decides_as_the_table_says(spec, output, expected, right):
    found = read_checker(spec).check(b"", output, expected)
    assert found.score == float(right), found
    assert bool(found.reason) is not right


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from(SPECS))
@settings(deadline=None)
def test_checkers_take_any_bytes_and_accept_the_expected_output(output, expected, spec):
    checker = read_checker(spec)
    assert checker.check(b"", output, expected).score in (0.0, 1.0)
    assert checker.check(b"", expected, expected) == Check(1.0)
    if spec != "exact":
        assert checker.check(b"", expected + b"\n", expected).score == 1.0


@pytest.mark.parametrize(
    "output",
    [
        b"1 " * 8_000_000,
        b"\n" * 16_000_000,
        b"9" * 16_000_000,
        b"1." * 8_000_000,
        b'"\\' * 8_000_000,
        b"[" * 16_000_000,
    ],
)
def test_an_output_of_16_mb_is_compared_at_once(output):
    started = time.process_time()
    for spec in SPECS:
        for expected in (b"1 2", b"1.5"):
            assert read_checker(spec).check(b"", output, expected).score == 0.0
    assert time.process_time() - started < 6.0


def test_words_for_what_is_not_finite_count_where_the_problem_has_them():
    for words in (False, True):
        assert Values(words=words).check(b"", b"1.50 inf", b"1.5 inf").score == words
        assert Values(words=words).check(b"", b"inf", b"1.5").score == 0.0


def test_yes_may_be_written_in_any_case_where_the_problem_says_so():
    for any_case in (False, True):
        assert Values(any_case=any_case).check(b"", b"yEs 1.0", b"YES 1.0").score == any_case
        assert Values(any_case=any_case).check(b"", b"no 1.0", b"YES 1.0").score == 0.0
        assert Values(any_case=any_case).check(b"", b"Abc", b"abc").score == 0.0
        assert Values(any_case=any_case).check(b"", b"nan", b"nan").score == 0.0


@pytest.mark.parametrize(("output", "right"), [(b"2", 1), (b"[2]", 1), (b"[2.0]", 1), (b"[3]", 0), (b"[[2]]", 0)])
def test_a_wrapped_value_counts_where_the_data_may_have_wrapped_it(output, right):
    assert JsonValue(may_be_wrapped=True).check(b"", output, b"2").score == right
    assert JsonValue().check(b"", output, b"2").score == (output == b"2")


def test_a_reason_never_tells_the_expected_output():
    for spec in SPECS:
        for output in (b"", b"5", b"1 2 3 4 5"):
            assert "8642" not in read_checker(spec).check(b"", output, b"8642 97531").reason


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("token", "did you mean tokens"),
        ("floats:x", "wanted numbers"),
        ("floats:nan", "ABS is nan"),
        ("floats:1e-6:-1", r"REL is -1\.0"),
        ("floats:1:1:1", "wanted tokens, exact"),
        ("tokens:1", "wanted tokens, exact"),
        ("", "wanted tokens, exact"),
        (3, "found int"),
    ],
)
def test_a_spec_that_is_none_is_refused_with_what_to_write(spec, message):
    with pytest.raises(ValueError, match=message):
        read_checker(spec)


def test_specs_and_made_checkers_are_both_read():
    assert read_checker("floats:1e-3") == Floats(1e-3, 1e-3)
    assert read_checker(Tokens()) == Tokens()
    program = ProgramChecker("def check(i, o, e): return True")
    assert read_checker(program) is program
    with pytest.raises(ValueError, match="contract"):
        ProgramChecker("x", contract="magic")
    with pytest.raises(ValueError, match="empty"):
        ProgramChecker(" ")


# ------------------------------------------------------------ checker programs

SUM = """
def check(input, output, expected):
    print("noise that must not become the score: 1")
    a, b = map(int, output.split())
    return a + b == int(input)
"""
HALF = "def check(input, output, expected): return 0.5 if output else 1"
LIKE_OPEN_R1 = """
import sys
def main():
    given, correct, solution = (open(name).read() for name in sys.argv[1:4])
    if sum(map(int, solution.split())) != int(given):
        print(0); sys.exit(0)
    print("1")
main()
"""


def run(checker, tmp_path, *, input=b"7", output=b"3 4", expected=b"1 6"):
    """Run the files as the jail does, here without one: these checkers are our own."""
    for name, content in checker.submission_files(input, output, expected).items():
        (tmp_path / name).write_bytes(content)
    command = [sys.executable, "-I", str(tmp_path / "main.py")]
    done = subprocess.run(command, capture_output=True, timeout=30, cwd="/", check=False)
    return checker.read_score(done.stdout) if done.returncode == 0 else None


@pytest.mark.parametrize("checker", [ProgramChecker(SUM), ProgramChecker(LIKE_OPEN_R1, "files")])
def test_a_checker_program_scores_an_output(checker, tmp_path):
    assert run(checker, tmp_path) == 1.0
    assert run(checker, tmp_path, output=b"3 5") == 0.0
    assert run(checker, tmp_path, output=b"garbage \xff") == 0.0, "what a working checker can't read is wrong"
    assert run(checker, tmp_path, output=b"") == 0.0
    assert run(checker, tmp_path, output=b"garbage", expected=b"garbage") is None, "it works for no output: broken"


def test_a_checker_program_may_give_a_fraction(tmp_path):
    assert run(ProgramChecker(HALF), tmp_path) == 0.5


@pytest.mark.parametrize(
    ("source", "contract"),
    [
        ("this is no python", "function"),
        ("x = 1", "function"),
        ("def check(i, o, e): return 2", "function"),
        ("def check(i, o, e): return float('nan')", "function"),
        ("def check(i, o, e): return 'yes'", "function"),
        ("print('ok')", "files"),
        ("print(2)", "files"),
        ("pass", "files"),
        ("print(0)\nprint(1)", "files"),
    ],
)
def test_a_broken_checker_program_gives_no_score(source, contract, tmp_path):
    assert run(ProgramChecker(source, contract), tmp_path) is None


@pytest.mark.parametrize(
    ("stdout", "score"),
    [
        (b"1.0\n", 1.0), (b"0", 0.0), (b" 0.25\n", 0.25), (b"1e-05\n", 1e-5),
        (b"", None), (b"nan", None), (b"1.1", None), (b"-0.1", None), (b"1 1", None), (b"0\n1\n", None), (b"1_0", None),
        ("١".encode(), None), (b"1" * 100, None), (b"\n" * 80 + b"1", None), (b"OK", None), (b"1.", None),
    ],
)  # fmt: skip
def test_a_score_is_one_number_and_nothing_else(stdout, score):
    assert ProgramChecker.read_score(stdout) == score
