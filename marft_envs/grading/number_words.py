"""Conversion of Chinese (万, 分之, 点, 又) and small English numerals to digits and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Context, Decimal, localcontext

_EXACT = Context(prec=400)  # the default context would round at 28 digits; 亿 40 times has 321
_DIGITS = {
    "零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9,
}  # fmt: skip
_TENS = {"十": 10, "百": 100, "千": 1000}
_MYRIADS = {"万": 10_000, "亿": 100_000_000}
_CHARS = "".join(_DIGITS) + "".join(_TENS) + "".join(_MYRIADS)
_NUMBER = rf"(?:\d{{1,100}}(?:\.\d{{1,100}})?|[{_CHARS}]{{1,40}}(?:点[{_CHARS}]{{1,40}})?)"
_PREFIXED = "[克米瓦卡帕]"  # 五千米 is 5 千米; 五百米 is 500 米, and 一万五千米 15000 米
_CHINESE = re.compile(
    rf"一(?=[共样起些定般直边切])|负(?=[\d{_CHARS}])|一半"  # 一 as part of a word; minus; one half
    rf"|零[上下](?=[\d{_CHARS}])"  # above or below zero
    rf"|百分之(?P<percent>{_NUMBER})"  # 百分之四十 is 40%
    rf"|(?P<whole>{_NUMBER})又(?P<slash>\d{{1,40}}/\d{{1,40}})"  # 3又1/2
    rf"|(?:(?P<units>{_NUMBER})又)?(?P<below>{_NUMBER})分之(?P<above>{_NUMBER})"  # 二又三分之一 is 2 1/3
    rf"|(?P<mixed>\d{{1,100}}(?:\.\d{{1,100}})?(?:[百千]?[万亿]|[十百]|千(?!{_PREFIXED}))"  # 1.5万, 3亿2千万
    rf"(?:零?\d{{1,9}}[十百千万亿]{{1,2}}){{0,4}}(?:零?\d{{1,9}}(?![\d./]))?)"  # 1万5千, 3万2000
    rf"|(?P<word>[{_CHARS}]{{0,38}}[万亿][{_CHARS}]{{0,38}}[{''.join(_DIGITS)}]千(?={_PREFIXED})"
    rf"|[{_CHARS}]{{1,40}}(?:点[{_CHARS}]{{1,40}})?(?:(?<!千)|(?!{_PREFIXED})))"  # 一百零五
)
_AND_A_HALF = re.compile(r"(\d{1,40})(个?[^\W\d_]{0,3}?)半(?!径)")
_HALF = re.compile(r"(?<![^\W_])半(?=[个小天年])")
_AND = re.compile(r"(?:或者|以及|[和或与及])(?=[-\d\\$A-Za-z(])")
_REMAINDER = re.compile(r"(\d)\s?(?:余|\.{3,6}|…{1,2})\s?(\d)")
_HALF_PAST = re.compile(r"(?<!\d)(\d{1,2})[点时]半")
_TIME = re.compile(r"(?<!\d)(\d{1,2})[时点](\d{2})分?(?![\d秒])")
_ENGLISH_NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen
"""
_ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ENGLISH = {
    **{word: value for value, word in enumerate(_ENGLISH_NUMBERS.split())},
    **{word: 20 + 10 * place for place, word in enumerate(_ENGLISH_TENS.split())},
    "hundred": 100,
}


def chinese_to_digits(text: str) -> str:
    r"""Rewrite the Chinese numerals of a text in digits and LaTeX.

    Examples:
        >>> chinese_to_digits("负二又三分之一"), chinese_to_digits("1.5万元"), chinese_to_digits("百分之四十")
        ('-2\\frac{1}{3}', '15000元', '40\\%')
    """
    if text.isascii():
        return text
    text = _AND.sub(", ", _CHINESE.sub(_rewritten, text))
    text = _REMAINDER.sub(r"\1余\2", text)
    if "半" in text:
        text = _HALF.sub("0.5", text)
        text = _AND_A_HALF.sub(r"\1.5\2", _HALF_PAST.sub(r"\1:30", text))
    return _TIME.sub(r"\1:\2", text)


def chinese_value(word: str) -> Decimal:
    """Return the value of a numeral: 一百零五 is 105, 一百五 is 150, 二〇二四 is 2024, 三点一四 is 3.14."""
    whole, _, fraction = word.partition("点")
    value = _chinese_integer(whole)
    if fraction:
        digits = "".join(str(_DIGITS.get(char, 0)) for char in fraction)
        value = _EXACT.add(value, Decimal(f"0.{digits}"))
    return value


def english_value(words: str) -> int | None:
    """Return the value of "seven", "twenty-five", "one hundred"; None for any other text."""
    parts = words.lower().replace("-", " ").split()
    if not 1 <= len(parts) <= 2 or any(part not in _ENGLISH for part in parts):
        return None
    first = _ENGLISH[parts[0]]
    if len(parts) == 1:
        return first
    second = _ENGLISH[parts[1]]
    if second == 100 and 1 <= first <= 9:
        return first * 100
    return first + second if 20 <= first < 100 and 1 <= second <= 9 else None


def _chinese_integer(word: str) -> Decimal:
    if all(char in _DIGITS for char in word):
        return Decimal("".join(str(_DIGITS[char]) for char in word))
    return _sum_of_places(word)


def _sum_of_places(symbols: Iterable[str]) -> Decimal:
    """Return the value of digits, or numbers in their place, and of the places behind them."""
    with localcontext(_EXACT):
        total = section = digit = Decimal(0)  # 一万二千三: total 10000, section 2000, digit 3
        last_unit = 1
        for char in symbols:
            if char[0].isdecimal():
                digit = Decimal(char)
                last_unit = last_unit if digit < 10 else 1  # 3万20 is 30020: the shorthand has one digit
            elif char in _DIGITS:
                digit = Decimal(_DIGITS[char])
                last_unit = 10 if digit == 0 else last_unit  # 一百零五 is 105: no shorthand after a zero
            elif char in _TENS:
                if digit == 0 and section == 0:
                    digit = Decimal(1)  # 十二 is 12
                section += digit * _TENS[char]
                digit, last_unit = Decimal(0), _TENS[char]
            elif char == "亿":
                total = (total + section + digit) * _MYRIADS[char]
                section, digit, last_unit = Decimal(0), Decimal(0), _MYRIADS[char]
            else:
                total += (section + digit) * _MYRIADS[char]
                section, digit, last_unit = Decimal(0), Decimal(0), _MYRIADS[char]
        shorthand = last_unit // 10 if last_unit >= 100 else 1  # 一百五 is 150
        return total + section + digit * shorthand


def _digits(number: str) -> str:
    return number if number[0].isascii() else f"{chinese_value(number):f}"


def _rewritten(match: re.Match[str]) -> str:
    part = match.groupdict()
    if part["percent"]:
        return _digits(part["percent"]) + r"\%"
    if part["whole"]:
        return f"{_digits(part['whole'])} {part['slash']}"
    if part["below"]:
        units = _digits(part["units"]) if part["units"] else ""
        return rf"{units}\frac{{{_digits(part['above'])}}}{{{_digits(part['below'])}}}"
    if part["mixed"]:
        value = _sum_of_places(re.findall(r"\d+(?:\.\d+)?|\D", part["mixed"]))
        return f"{_EXACT.normalize(value):f}"
    if part["word"]:
        return _digits(part["word"])
    return {"一半": r"\frac{1}{2}", "负": "-", "零下": "-", "零上": ""}.get(match.group(), match.group())
