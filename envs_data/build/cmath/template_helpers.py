"""Helpers for templates of Chinese word problems: names, number formatting, and CMATH columns by grade."""

import random
import re
from collections.abc import Callable
from fractions import Fraction

from envs_data.build.draft import Draft
from envs_data.build.math.latex import decimal

NAMES = (
    "小明",
    "小红",
    "小刚",
    "小丽",
    "小华",
    "小芳",
    "乐乐",
    "明明",
    "亮亮",
    "欢欢",
    "丽丽",
    "东东",
    "小军",
    "小雨",
    "佳佳",
    "天天",
)
Ask = tuple[tuple[object, ...], int, str, int | Fraction | str]
"""Parameters, number of steps, question, golden answer (a text is taken as it is)."""


def names(rng: random.Random, count: int) -> list[str]:
    """Sample `count` distinct names of children."""
    return rng.sample(NAMES, count)


def percent(value: Fraction) -> str:
    """Format a fraction of 1 as a percentage, e.g. 12.5%."""
    return decimal(value * 100) + "%"


def fraction(top: int, bottom: int) -> str:
    """Format a fraction as pupils write it, without reduction."""
    return f"{top}/{bottom}"


def grade(number: int, *templates: Callable[[random.Random], Ask]) -> tuple[Callable[[random.Random], Draft], ...]:
    """Convert templates of one grade to functions that return drafts."""
    return tuple(_maker(number, template) for template in templates)


def _maker(number: int, template: Callable[[random.Random], Ask]) -> Callable[[random.Random], Draft]:
    def make(rng: random.Random) -> Draft:
        parameters, steps, question, answer = template(rng)
        golden = answer if isinstance(answer, str) else _golden(Fraction(answer))
        row = {
            "grade": number,
            "question": question,
            "golden": golden,
            "reasoning_step": steps,
            "num_digits": most_digits(f"{question} {golden}"),
        }
        return Draft(parameters, row)

    make.__name__ = template.__name__
    return make


def _golden(value: Fraction) -> str:
    """Format a value as a decimal if that terminates, else as a reduced fraction."""
    bottom = value.denominator
    for factor in (2, 5):
        while bottom % factor == 0:
            bottom //= factor
    return decimal(value) if bottom == 1 else f"{value.numerator}/{value.denominator}"


def most_digits(text: str) -> int:
    """Return the number of digits of the longest number in a text; both parts of a fraction count."""
    tokens: list[str] = re.findall(r"\d[\d./]*", text)
    return max(sum(c.isdigit() for c in token) for token in tokens)
