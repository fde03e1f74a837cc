"""Closed form: Chinese and English numerals."""

from __future__ import annotations

import pytest

from marft_envs.grading.number_words import chinese_to_digits, english_value


@pytest.mark.parametrize(
    ("words", "digits"),
    [
        ("一百零五", "105"), ("一百五", "150"), ("一百五十", "150"), ("十二", "12"), ("二十", "20"), ("两千", "2000"),
        ("一万二千三百四十五", "12345"), ("两亿零三万", "200030000"), ("二〇二四", "2024"), ("三点一四", "3.14"),
        ("1.5万", "15000"), ("2.4亿", "240000000"), ("3百万", "3000000"), ("1万5千", "15000"), ("3万2000", "32000"),
        ("12亿3456万", "1234560000"), ("1万零5", "10005"), ("5百2", "520"), ("3万20", "30020"), ("1.5万3千", "18000"),
        ("2万5千克", "25000克"), ("2千米500米", "2千米500米"), ("一万五千米", "15000米"), ("三万千克", "30000千克"),
        ("十五米", "15米"), ("五克", "5克"), ("五百米", "500米"), ("5百克", "500克"), ("一百二十千米", "120千米"),
        ("五千五百米", "5500米"), ("三点五千米", "3.5千米"), ("二亿五千万克", "250000000克"), ("百分之四十", r"40\%"),
        ("5分之3", r"\frac{3}{5}"),
        ("二又三分之一", r"2\frac{1}{3}"), ("3又1/2", "3 1/2"), ("负五", "-5"), ("一半", r"\frac{1}{2}"),
        ("五千米", "5千米"), ("十千克", "10千克"), ("一共", "一共"), ("8时30分", "8:30"), ("两千克半", "2.5千克"),
        ("三个半小时", "3.5个小时"), ("半小时", "0.5小时"), ("plain", "plain"),
    ],
)  # fmt: skip
def test_chinese_numerals(words, digits):
    assert chinese_to_digits(words) == digits


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("seven", 7),
        ("twenty-five", 25),
        ("ninety nine", 99),
        ("three hundred", 300),
        ("apple", None),
        ("five six", None),
    ],
)
def test_english_numerals(words, value):
    assert english_value(words) == value
