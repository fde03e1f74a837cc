"""`ladder/cmath`: the ladder of mathematics in Chinese."""

from __future__ import annotations

import random

from envs_data.build.cmath.template_helpers import NAMES
from envs_data.build.draft import Draft
from envs_data.build.ladder.level import ladder
from envs_data.build.ladder.math import pair, round_pair, two, value

THINGS = ("苹果", "球", "糖", "气球", "贝壳", "橘子", "玩具", "鸡蛋", "桃子", "饼干", "风筝")


def _draft(parameters: tuple[object, ...], question: str, answer: int) -> Draft:
    return Draft(parameters, {"question": question, "golden": str(answer)})


def _find(rng: random.Random) -> Draft:
    a, b = two(rng)
    n, (x, y) = rng.choice(NAMES), rng.sample(THINGS, 2)
    asked, answer = rng.choice(((x, a), (y, b)))
    return _draft((a, b), f"{n}有{a}个{x}和{b}个{y}，{n}有几个{asked}？", answer)


def _compare(rng: random.Random) -> Draft:
    a, b = two(rng)
    word, answer = rng.choice((("大", max(a, b)), ("小", min(a, b))))
    return _draft((word, a, b), f"{a}和{b}，哪个数{word}？", answer)


def _sum(sign: str, a: int, b: int) -> Draft:
    return _draft((sign, a, b), f"{a}{'加' if sign == '+' else '减'}{b}等于多少？", value(sign, a, b))


def _story(rng: random.Random) -> Draft:
    sign, a, b = pair(rng, carries=True)
    n, x = rng.choice(NAMES), rng.choice(THINGS)
    more = f"{n}有{a}个{x}，又买了{b}个，一共有几个{x}？"
    fewer = f"{n}有{a}个{x}，送给朋友{b}个，还剩几个{x}？"
    return _draft((sign, a, b), more if sign == "+" else fewer, value(sign, a, b))


def _product(rng: random.Random) -> Draft:
    a, b = two(rng)
    x = rng.choice(THINGS)
    return _draft((a, b), f"有{a}箱{x}，每箱{b}个，一共有几个{x}？", a * b)


SPEC = ladder(
    "cmath",
    (
        ("the larger or smaller of two: 43和25，哪个数大？", _compare),
        ("one of two numbers in a sentence: 小红有43个球和25个桃子，小红有几个桃子？", _find),
        ("a sum or difference with a round number: 43加20等于多少？", lambda rng: _sum(*round_pair(rng))),
        ("of two-digit numbers without a carry: 43加25等于多少？", lambda rng: _sum(*pair(rng, carries=False))),
        ("with a carry, in a sentence", _story),
        ("the product of two two-digit numbers in a sentence", _product),
    ),
    text_column="question",
    columns=("question", "golden"),
)
