"""`ladder/cmath`: the ladder of mathematics in Chinese."""

from __future__ import annotations

import random
from collections.abc import Callable

from envs_data.build.cmath.template_helpers import NAMES
from envs_data.build.draft import Draft
from envs_data.build.ladder.level import ladder
from envs_data.build.ladder.math import pair, value

THINGS = ("苹果", "球", "糖", "气球", "贝壳", "橘子", "玩具", "鸡蛋", "桃子", "饼干", "风筝")
MORE = (  # wordings of a sum, without that of the teams' worked examples
    "{n}有{a}个{x}，妈妈又给了{b}个，现在有几个{x}？",
    "袋子里有{a}个{x}，盒子里有{b}个，两处共有几个{x}？",
    "{n}上午数了{a}个{x}，下午数了{b}个，一天数了几个{x}？",
)
FEWER = (
    "{n}有{a}个{x}，用掉{b}个，还有几个{x}？",
    "桌上有{a}个{x}，拿走{b}个，桌上还有几个{x}？",
    "{n}想要{a}个{x}，已经有{b}个，还差几个{x}？",
)


def _draft(parameters: tuple[object, ...], question: str, answer: int) -> Draft:
    return Draft(parameters, {"question": question, "golden": str(answer)})


def _plain(carries: bool) -> Callable[[random.Random], Draft]:
    def make(rng: random.Random) -> Draft:
        sign, a, b = pair(rng, carries=carries)
        return _draft((sign, a, b), f"{a}{'加' if sign == '+' else '减'}{b}等于多少？", value(sign, a, b))

    return make


def _known_story(rng: random.Random) -> Draft:
    sign, a, b = pair(rng, carries=False)
    n, x = rng.choice(NAMES), rng.choice(THINGS)
    more = f"{n}有{a}个{x}，又买了{b}个，一共有几个{x}？"
    fewer = f"{n}有{a}个{x}，送给朋友{b}个，还剩几个{x}？"
    return _draft((sign, a, b), more if sign == "+" else fewer, value(sign, a, b))


def _story(rng: random.Random) -> Draft:
    sign, a, b = pair(rng)
    wording = rng.choice(MORE if sign == "+" else FEWER)
    text = wording.format(n=rng.choice(NAMES), x=rng.choice(THINGS), a=a, b=b)
    return _draft((sign, a, b), text, value(sign, a, b))


def _two_steps(rng: random.Random) -> Draft:
    a, b, c = rng.randint(11, 60), rng.randint(10, 38), rng.randint(10, 20)
    n, x = rng.choice(NAMES), rng.choice(THINGS)
    return _draft((a, b, c), f"{n}有{a}个{x}，又买了{b}个，送给朋友{c}个，还剩几个{x}？", a + b - c)


def _product(rng: random.Random) -> Draft:
    a, b = rng.randint(11, 99), rng.randint(11, 99)
    x = rng.choice(THINGS)
    return _draft((a, b), f"有{a}箱{x}，每箱{b}个，一共有几个{x}？", a * b)


SPEC = ladder(
    "cmath",
    (
        ("a sum or difference of two-digit numbers without a carry: 43加25等于多少？", _plain(carries=False)),
        ("the same with a carry: 47加25等于多少？", _plain(carries=True)),
        ("without a carry, in a sentence as in the worked examples of the teams", _known_story),
        ("with or without a carry, in six other sentences", _story),
        ("a sum and a difference in one sentence", _two_steps),
        ("the product of two two-digit numbers in a sentence", _product),
    ),
    text_column="question",
    columns=("question", "golden"),
)
