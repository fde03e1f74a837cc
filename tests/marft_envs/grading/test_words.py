"""Words beside numbers: nouns are dropped beside a bare number, other words must agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marft_envs.grading import equivalent
from marft_envs.grading.units import unit
from marft_envs.grading.words import CLAUSE, COMPARISON, DIRECTION, NEGATION, PARITY, agree, read_words

COPULAS = ("is", "are", "was", "were", "be")  # "n is odd" is "n odd"
MARKED = sorted(word for word in CLAUSE | COMPARISON | DIRECTION | NEGATION | PARITY if unit(word).kind == "counter")
MARKED_ZH = [
    "不是",
    "没有",
    "上涨",
    "减少",
    "盈利",
    "亏损",
    "向东",
    "至少",
    "最多",
    "超过",
    "少于",
    "零下",
    "提前",
    "顺时针",
]
nouns = st.from_regex(r"(tables|lamps|red birds|kinds of soup|old coins)", fullmatch=True)


@pytest.mark.parametrize("word", MARKED)
def test_words_with_an_opposite_are_not_dropped(word):
    for phrase in (word, f"coins {word}", f"{word} coins"):
        assert not equivalent("5", rf"5 \text{{ {phrase}}}")
        if word not in COPULAS:
            assert not equivalent(r"5\text{ coins}", rf"5 \text{{ {phrase}}}")
    assert not equivalent("5", rf"\text{{{word} }} 5")


@pytest.mark.parametrize("word", MARKED_ZH)
def test_chinese_words_with_an_opposite_are_not_dropped(word):
    for answer in (f"{word}5个", f"{word}5", f"小明{word}5个"):
        assert not equivalent("5", answer, "zh")
        assert not equivalent("5个", answer, "zh")


@given(nouns, nouns, st.integers(2, 99))
def test_nouns_are_dropped_beside_a_bare_number_only(noun, other, number):
    answer = rf"{number} \text{{ {noun}}}"
    assert equivalent(f"{number}", answer)
    assert not equivalent(f"{number + 1}", answer)
    assert equivalent(answer, rf"{number} \text{{ {other}}}") == (noun == other)
    assert not equivalent(f"{number}", rf"\text{{{noun} }} {number}")
    assert not equivalent("n+1", rf"n+1 \text{{ {noun}}}")
    assert not equivalent(f"({number}, 1)", rf"({number} \text{{ {noun}}}, 1)")
    assert not equivalent(rf"{number}\%", answer)
    assert not equivalent(rf"{number}\text{{ square units}}", answer)
    assert not equivalent(rf"\frac{{{number}}}{{7}}", rf"\frac{{{number} \text{{ {noun}}}}}{{7}}")


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("the red boxes", "red box", True),
        ("is a solution", "solution", True),
        ("is a solution", "is not a solution", False),
        ("red boxes", "boxes", False),
        ("red boxes", "", True),
        ("is prime", "", False),
        ("prime numbers", "", True),
        ("apples left", "", True),
        ("units left", "units right", False),
        ("units right", "", False),
        ("只鸡", "头鸡", True),
        ("本书", "本", True),
        ("本", "支", False),
        ("个", "支", True),
        ("种不同的方法", "", True),
        ("奇数", "", False),
    ],
)
def test_phrases(first, second, same):
    assert agree(read_words(first.split()), read_words(second.split())) is same
    assert agree(read_words(second.split()), read_words(first.split())) is same
