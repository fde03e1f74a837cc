"""Problems with several answers, and mistakes of the caller."""

from __future__ import annotations

import pytest

from marft_envs.grading import grade_math
from marft_envs.grading.gold import split_elements

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


def test_all_understands_plus_minus():
    assert grade_math(r"\boxed{\pm 3}", ["3", "-3"], mode="all").correct


def test_one_gold_works_in_every_mode():
    for mode in ("single", "any", "all", "ordered"):
        assert grade_math(r"\boxed{0.5}", r"\frac12", mode=mode).correct


def test_split_elements():
    assert split_elements(r"\{1,2\}, [3,4) \text{ or } \frac{1}{2}") == [r"\{1,2\}", "[3,4)", r"\frac{1}{2}"]
    assert split_elements("") == []


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
