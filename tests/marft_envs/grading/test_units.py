"""Closed form: units of measurement."""

from __future__ import annotations

from fractions import Fraction

import pytest

from marft_envs.grading.units import combined, conflict, unit
from marft_envs.grading.words import Words


@pytest.mark.parametrize(
    ("phrase", "dimension", "size"),
    [
        ("cm", (("metre", 1),), Fraction(1, 100)),
        ("square centimeters", (("metre", 2),), Fraction(1, 10_000)),
        ("cm ^ 2", (("metre", 2),), Fraction(1, 10_000)),
        ("cm Squared", (("metre", 2),), Fraction(1, 10_000)),
        ("cm ^ { 3 }", (("metre", 3),), Fraction(1, 10**6)),
        ("m / s ^ 2", (("metre", 1), ("second", -2)), Fraction(1)),
        ("miles per hour", (("metre", 1), ("second", -1)), Fraction(201168, 125) / 3600),
        ("mph", (("metre", 1), ("second", -1)), Fraction(201168, 125) / 3600),
        ("平方厘米", (("metre", 2),), Fraction(1, 10_000)),
        ("千克苹果", (("gram", 1),), Fraction(1000)),
    ],
)
def test_units(phrase, dimension, size):
    assert unit(phrase)[:3] == ("measure", dimension, size)


def test_conflicts():
    assert conflict(unit("days"), unit("dogs"))
    assert conflict(unit("cm"), unit("cm ^ 2"))
    assert not conflict(unit("cm"), unit("m"))  # the amounts will tell
    assert not conflict(unit("square units"), unit("cm ^ 2"))
    assert not conflict(unit("apples"), unit("fruits"))  # the words will tell


def test_words_beside_units():
    assert unit("kg of apples").words.nouns == ("apple",)
    assert unit("千克苹果").words.nouns == ("苹果",)
    assert unit("cm ^ 2").words == unit("square units").words == unit("units ^ { 2 }").words == Words()
    assert unit("hours late").words.is_polar
    assert unit("鸡 # 只").words == Words(("鸡",), "只")


def test_compound_amounts():
    assert combined("hours", "minutes") == Fraction(1, 60)
    assert combined("元", "分") == Fraction(1, 100)
    assert combined("小时", "分") == Fraction(1, 60)
    assert combined("hours", "dollars") is None
