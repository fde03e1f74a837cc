"""Closed form: sets of real numbers as disjoint intervals."""

from __future__ import annotations

import pytest

from marft_envs.grading.answer_parser import read
from marft_envs.grading.limits import NotReadableError
from marft_envs.grading.real_sets import real_set, same_real_set


def written(text):
    """Write the intervals of an answer, one after the other."""
    return " ".join(
        f"{'[' if one.low_closed else '('}{float(one.low):g},{float(one.high):g}{']' if one.high_closed else ')'}"
        for one in real_set(read(text).tree).intervals
    )


@pytest.mark.parametrize(
    ("text", "intervals"),
    [
        ("[1,2)", "[1,2)"),
        (r"[1,\infty]", "[1,inf)"),  # infinity is no member
        (r"\{3,1,3\}", "[1,1] [3,3]"),
        (r"(1,2)\cup(2,3)", "(1,2) (2,3)"),
        (r"(1,2]\cup(2,3)", "(1,3)"),
        (r"(1,2)\cup\{2\}\cup(2,3)", "(1,3)"),
        (r"[0,5]\cup(1,2)", "[0,5]"),
        (r"(4,5)\cup(1,2)", "(1,2) (4,5)"),
        (r"(1,3]\cap[2,5)", "[2,3]"),
        (r"(1,2)\cap[2,3]", ""),
        (r"[1,4]\setminus(2,3)", "[1,2] [3,4]"),
        (r"\mathbb{R}\setminus\{1,-1\}", "(-inf,-1) (-1,1) (1,inf)"),
        (r"\mathbb{R}", "(-inf,inf)"),
        (r"\emptyset", ""),
        ("x<2", "(-inf,2)"),
        (r"x\ge 2", "[2,inf)"),
        (r"2 \ge x", "(-inf,2]"),
        (r"x\ne 2", "(-inf,2) (2,inf)"),
        (r"1 < x \le 2", "(1,2]"),
        (r"3 \ge x > 0", "(0,3]"),
        (r"x\in(1,2]", "(1,2]"),
        (r"\{x \mid x>2\}", "(2,inf)"),
        (r"x<1 \text{ or } x>2", "(-inf,1) (2,inf)"),
        (r"x>1, x<2", "(1,2)"),
        (r"x<1, x>2", "(-inf,1) (2,inf)"),  # no number fulfils both
    ],
)
def test_intervals(text, intervals):
    assert written(text) == intervals


@pytest.mark.parametrize("text", ["(2,1)", "(1,2,3)", "x=2", "x<y", "1,2", r"x<1, y>2", "5", r"\mathbb{Z}"])
def test_no_sets_of_real_numbers(text):
    try:
        assert real_set(read(text).tree) is None
    except NotReadableError:
        assert text == "x<y"


def test_ends_are_numbers():
    with pytest.raises(NotReadableError, match="a complex end"):
        real_set(read("(1,i)").tree)
    with pytest.raises(NotReadableError, match="has no value"):
        real_set(read("(1,a)").tree)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (r"(1,\sqrt{4})", "(1,2)", True),
        ("[1,2)", "(1,2)", False),
        ("[1,2)", "[1,2]", False),
        (r"(1,\sqrt{2})", "(1,1.41421356)", False),
        ("x>1", r"(1,\infty)", True),
        ("x>1", "y>1", False),
        (r"(1,2)\cup(2,3)", "(1,3)", False),
    ],
)
def test_same_real_set(one, other, same):
    assert same_real_set(real_set(read(one).tree), real_set(read(other).tree)) is same
