"""Programs are judged by value: right, wrong and near-wrong ones on rows of the published formats, and tolerances."""

import json

import pytest

from marft_envs.sandbox import Judge, Submission, Verdict
from marft_envs.tasks.code.loading import load_problems
from marft_envs.tasks.code.tolerances import tolerances, value_checker

METHOD = "class Solution:\n    def f(self, a):\n        return "


def live(tests, *, name="", statement="Do it."):
    """Return a row of LiveCodeBench."""
    kind = "functional" if name else "stdin"
    packed = [{"input": given, "output": result, "testtype": kind} for given, result in tests]
    return {
        "question_id": "q", "question_content": statement, "public_test_cases": json.dumps(packed[:1]),
        "private_test_cases": json.dumps(packed[1:]), "metadata": json.dumps({"func_name": name} if name else {}),
    }  # fmt: skip


def apps(statement="Do it.", **given):
    """Return a row of APPS."""
    return {"problem_id": "q", "question": statement, "input_output": json.dumps(given)}


ROOT = live([("3 4\n", "5.00000000000000000\n"), ("1 1\n", "1.41421356237309504880\n")])
NAMED = live([("1 3\n", "0.33333333\n")], statement="An absolute or relative error of $10^{-3}$ is allowed.")
CODES = live([("3\n", "007\n")])
NOT_FINITE = live([("3\n", "nan inf\n")])
FLOATS = live([("[1, 3]", "[0.1, 0.3]")], name="f")
WITHIN = live([("[1, 3]", "0.33333")], name="f", statement="Answers within 10-5 of the actual answer are accepted.")
WHOLE = live([("[3]", "6")], name="f")
COUNTS = live([('["b", "a", "b"]', '{"a": 1, "b": 2}')], name="f")
NUMBERED = apps(fn_name="f", inputs=[[[5, 12]], [[7]]], outputs=[{"12": 1, "5": 0}, {"7": 0}])
NESTED = live([("[1, 2]", '[[1, "1"], {"x": [2, 0.5]}]')], name="f")
WRAPPED = apps(fn_name="g", inputs=[[1], [3]], outputs=[[1], [3]])
LISTS = apps(fn_name="g", inputs=[[1], [3]], outputs=[[1], [3, 3, 3]])
DIGITS = live([("20000\n", f"1{'0' * 20000}\n")])
POWER = live([("9" * 6000, f"1{'0' * 6000}")], name="f")
SPLIT = "a, b = map(int, input().split())\n"
CASES = {
    "root": (ROOT, SPLIT + "print((a * a + b * b) ** .5)", True),
    "root, rounded": (ROOT, SPLIT + "print(f'{(a * a + b * b) ** .5:.3f}')", False),
    "root, whole": (ROOT, SPLIT + "print(int((a * a + b * b) ** .5))", False),
    "root, nan": (ROOT, "print('nan')", False),
    "root, twice": (ROOT, SPLIT + "print((a * a + b * b) ** .5)\n" * 2, False),
    "named tolerance": (NAMED, SPLIT + "print(round(a / b, 4))", True),
    "named tolerance, missed": (NAMED, SPLIT + "print(round(a / b, 2))", False),
    "text of digits": (CODES, "print('007')", True),
    "text of digits, as a number": (CODES, "print(7)", False),
    "text of digits, as a float": (CODES, "print('007.0')", False),
    "not finite": (NOT_FINITE, "print(float('nan'), float('inf'))", False),
    "floats": (FLOATS, METHOD + "[0.1 * x for x in a]", True),
    "floats, near": (FLOATS, METHOD + "[0.1 * x + 1e-4 for x in a]", False),
    "floats, as text": (FLOATS, METHOD + "[str(0.1 * x) for x in a]", False),
    "floats, one more": (FLOATS, METHOD + "[0.1 * x for x in a] + [0.0]", False),
    "within": (WITHIN, METHOD + "1 / 3", True),
    "within, missed": (WITHIN, METHOD + "0.3334", False),
    "whole float": (WHOLE, METHOD + "2.0 * a[0]", True),
    "whole float, near": (WHOLE, METHOD + "2.0 * a[0] + 1e-9", False),
    "whole float, as text": (WHOLE, METHOD + "str(2 * a[0])", False),
    "whole float, nan": (WHOLE, METHOD + "float('nan')", False),
    "dictionary": (COUNTS, METHOD + "{x: float(a.count(x)) for x in a}", True),
    "dictionary of Counter": (COUNTS, METHOD + "Counter(a)", True),
    "dictionary, wrong count": (COUNTS, METHOD + "{x: 1 for x in a}", False),
    "dictionary, a key less": (COUNTS, METHOD + "{'a': 1}", False),
    "dictionary as a list": (COUNTS, METHOD + "[['a', 1], ['b', 2]]", False),
    "dictionary of numbers": (NUMBERED, "def f(a): return {x: i for i, x in enumerate(a)}", True),
    "nested": (NESTED, METHOD + "([1.0, '1'], {'x': (2, 1 / 2)})", True),
    "nested, text for a number": (NESTED, METHOD + "[[1, 1], {'x': [2, 0.5]}]", False),
    "nested, flat": (NESTED, METHOD + "[1, '1', {'x': [2, 0.5]}]", False),
    "true for 1": (live([("[3]", "1")], name="f"), METHOD + "True", False),
    "1 for true": (live([("[3]", "true")], name="f"), METHOD + "1", False),
    "wrapped": (WRAPPED, "def g(a): return [a]", True),
    "wrapped, taken out": (WRAPPED, "def g(a): return a", True),
    "wrapped twice": (WRAPPED, "def g(a): return [[a]]", False),
    "wrapped, with more": (WRAPPED, "def g(a): return [a, a]", False),
    "lists": (LISTS, "def g(a): return [a] * a", True),
    "lists, taken out": (LISTS, "def g(a): return a if a == 1 else [a] * a", False),
    "many digits": (DIGITS, "print(10 ** int(input()))", True),
    "many digits, the last one wrong": (DIGITS, "print(10 ** int(input()) + 1)", False),
    "many digits of a result": (POWER, "def f(a): return a + 1", True),
    "many digits of a result, the last one wrong": (POWER, "def f(a): return a + 2", False),
    "many digits in the source": (DIGITS, f"print(1{'0' * 20000})", True),
    "equal to all": (WHOLE, "class All(int):\n    __eq__ = lambda *_: True\ndef f(a): return All(7)", False),
    "says equal": (COUNTS, "class All(dict):\n    __eq__ = lambda *_: True\ndef f(a): return All()", False),
}  # fmt: skip


def test_programs_of_each_kind_are_judged_by_value(tmp_path):
    file = tmp_path / "rows.jsonl"
    rows = [row | {"question_id": name, "problem_id": name} for name, (row, _, _) in CASES.items()]
    file.write_text("\n".join(map(json.dumps, rows)))
    submissions = [
        Submission(problem.complete(program), "python", problem.all_tests, problem.limits, problem.checker)
        for problem, (_, program, _) in zip(load_problems("codeforces", str(file)), CASES.values(), strict=True)
    ]
    with Judge("landlock", workers=2, self_test=False) as judge:
        found = {name: judged.verdict for name, judged in zip(CASES, judge.run_many(submissions), strict=True)}
    assert found == {name: Verdict.OK if right else Verdict.WA for name, (_, _, right) in CASES.items()}


@pytest.mark.parametrize(
    ("statement", "absolute", "relative"),
    [
        ("Print x.", 1e-6, 1e-6),
        ("Its absolute or relative error must not exceed $10^{-4}$.", 1e-4, 1e-4),
        ("An absolute error of at most 1e-9 is allowed.", 1e-9, 0),
        ("The relative error may be 0.001.", 0, 1e-3),
        ("The absolute error may be 0.01. The relative error may be 10^-4.", 1e-2, 1e-4),
        ("Answers within 10-5 of the actual answer will be accepted.", 1e-5, 0),
        ("It may differ by 10**-3.", 1e-3, 0),
        ("Right if the error doesn't exceed 10 - 4.", 1e-4, 1e-4),
        ("Right if the error does not exceed $10^{ - 9}$, 10^{-}9.", 1e-9, 1e-9),
        ("Let the jury's answer be b. Right if $\\frac{|a-b|}{\\max(1,|b|)} \\le 10^{-4}$ for the jury.", 1e-4, 1e-4),
        ("With a precision of 10<sup>\u22125</sup>.", 1e-5, 1e-5),
        ("An error of 10\u207b\u00b9\u2070.", 1e-10, 1e-10),
        ("\u8bef\u5dee\u4e0d\u8d85\u8fc710^{-3}\u3002", 1e-3, 1e-3),
        ("$10^{-2} \\le x \\le 10^{2}$.\nAn error is ignored.", 1e-6, 1e-6),
        ("An error of 0.01% in 110-5 cases, 10-500, v1.10-5.", 1e-6, 1e-6),
    ],
)
def test_a_statement_names_its_tolerance(statement, absolute, relative):
    assert tolerances(statement) == (absolute, relative)
    checker = value_checker(statement)
    assert (checker.absolute, checker.relative) == (absolute, relative)
