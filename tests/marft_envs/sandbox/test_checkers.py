"""Checkers: every comparator mistake that public judges made, and checker programs as the jail runs them."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_envs.sandbox.checkers import Check, Floats, ProgramChecker, Tokens, read_checker

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
]


@pytest.mark.parametrize(("spec", "output", "expected", "right"), TABLE)
def test_each_comparator_decides_as_the_table_says(spec, output, expected, right):
    found = read_checker(spec).check(b"", output, expected)
    assert found.score == float(right), found
    assert bool(found.reason) is not right


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from(["tokens", "exact", "lines", "yesno", "floats"]))
@settings(deadline=None)
def test_checkers_take_any_bytes_and_accept_the_expected_output(output, expected, spec):
    checker = read_checker(spec)
    assert checker.check(b"", output, expected).score in (0.0, 1.0)
    assert checker.check(b"", expected, expected) == Check(1.0)
    if spec != "exact":
        assert checker.check(b"", expected + b"\n", expected).score == 1.0


@pytest.mark.parametrize("output", [b"1 " * 8_000_000, b"\n" * 16_000_000, b"9" * 16_000_000, b"1." * 8_000_000])
def test_an_output_of_16_mb_is_compared_at_once(output):
    started = time.process_time()
    for spec in ("tokens", "lines", "yesno", "floats"):
        assert read_checker(spec).check(b"", output, b"1 2").score == 0.0
    assert time.process_time() - started < 6.0


def test_a_reason_never_tells_the_expected_output():
    for spec in ("tokens", "exact", "lines", "yesno", "floats"):
        for output in (b"", b"5", b"1 2 3 4 5"):
            assert "8642" not in read_checker(spec).check(b"", output, b"8642 97531").reason


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("token", "did you mean 'tokens'"),
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
