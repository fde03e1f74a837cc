"""Problems with several answers, and mistakes of the caller."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marft_envs.grading import grade_math

POINTS = ["(-2, 23)", "(0, 1)"]


@pytest.mark.parametrize(
    ("response", "mode", "correct"),
    [
        (r"\boxed{(-2, 23)} and \boxed{(0,1)}", "ordered", True),
        (r"\boxed{(0,1)} and \boxed{(-2, 23)}", "ordered", False),
        (r"\boxed{(0,1)} and \boxed{(-2, 23)}", "all", True),
        (r"\boxed{(-2,23); (0,1)}", "ordered", True),
        (r"\boxed{(-2,23), (0,1)}", "ordered", True),
        (r"\boxed{(-2,23) \text{ and } (0,1)}", "all", True),
        (r"\boxed{(0,1)}", "ordered", False),
        (r"\boxed{(0,1)}", "all", False),
        (r"\boxed{(0,1)}", "any", True),
        (r"\boxed{(9,9)}", "any", False),
        (r"\boxed{(0,1),(-2,23),(1,1)}", "all", False),
        (r"\boxed{(-2,23)} so \boxed{(-2,23)} and \boxed{(0,1)}", "all", True),
    ],
)
def test_modes(response, mode, correct):
    assert grade_math(response, POINTS, mode=mode).correct is correct


def boxes(*answers):
    return ", ".join(rf"$\boxed{{{answer}}}$" for answer in answers)


@pytest.mark.parametrize(
    ("answers", "gold", "correct"),
    [
        (("1", "2", "3", "4"), "1,2,3,4", True),
        (("4", "2", "1", "3"), "1,2,3,4", True),
        (("(1,2)", "(2,1)"), "(2,1),(1,2)", True),
        (("x=1", "x=2"), r"x=1 \text{ or } x=2", True),
        (("2", "1"), r"\{1,2\}", True),
        (("2", "3", "2", "3"), "2,3", True),  # said twice
        (("9", "1,2"), "1,2", True),  # the last box
        (("1", "2", "3"), "1,2,3,4", False),
        (("1", "2", "3", "4", "5"), "1,2,3,4", False),
        (("1", "2", "3", "9"), "1,2,3,4", False),
        (("1,2", "3,4"), "1,2,3,4", False),
        (("1", "2"), "(1,2)", False),
        (("1", "234"), "1,234", False),
        (("1", "2"), "1", False),  # for one answer the last box alone counts: boxes are no guesses
        (("2", "1"), "1", True),
        (("1", "1", "2"), "1", False),
    ],
)
def test_one_box_for_each_element_of_a_list(answers, gold, correct):
    assert grade_math(boxes(*answers), gold).correct is correct


def test_boxes_of_the_thoughts_are_no_elements():
    assert not grade_math(r"<think>\boxed{1}</think> \boxed{2}", "1,2").correct


@given(st.lists(st.integers(0, 9), min_size=2, max_size=6), st.integers(0, 9))
def test_a_box_more_never_helps(answers, gold):
    assert grade_math(boxes(*answers), str(gold)).correct is (answers[-1] == gold)
    gold_list = sorted({*answers})
    if len(gold_list) > 1:
        assert not grade_math(boxes(*gold_list, "77"), ",".join(map(str, gold_list))).correct


def test_all_understands_plus_minus():
    assert grade_math(r"\boxed{\pm 3}", ["3", "-3"], mode="all").correct


def test_one_gold_works_in_every_mode():
    for mode in ("single", "any", "all", "ordered"):
        assert grade_math(r"\boxed{0.5}", r"\frac12", mode=mode).correct


@pytest.mark.parametrize(
    ("gold", "options", "message"),
    [
        ("", {}, "gold: found a blank answer"),
        (["1", "2"], {}, "gold: found 2 answers for mode 'single'"),
        ([], {"mode": "all"}, "gold: found a blank answer"),
        ("1", {"mode": "some"}, "mode: found 'some'"),
        ("1", {"language": "fr"}, "language: found 'fr'"),
        ("1", {"extraction": ("guess",)}, "extraction: found"),
    ],
)
def test_mistakes_of_the_caller_are_named(gold, options, message):
    with pytest.raises(ValueError, match=message):
        grade_math(r"\boxed{1}", gold, **options)
