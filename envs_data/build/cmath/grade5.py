"""Templates for grade 5: decimals, areas and volumes, fractions, multiples and factors."""

import math
import random
from fractions import Fraction

from envs_data.build.cmath.template_helpers import Ask, grade, names
from envs_data.build.math.latex import decimal


def _fraction(rng: random.Random, low: int = 3, high: int = 9) -> Fraction:
    bottom = rng.randint(low, high)
    return Fraction(rng.choice([t for t in range(1, bottom) if math.gcd(t, bottom) == 1]), bottom)


def _decimal_cost(rng: random.Random) -> Ask:
    price, weight, (p,) = rng.randint(121, 699), rng.randint(11, 59), names(rng, 1)
    thing = rng.choice(("排骨", "鲤鱼", "樱桃", "牛肉", "虾"))
    total = Fraction(price * weight, 100)
    return (
        (price, weight),
        1,
        f"{thing}每千克{decimal(Fraction(price, 10))}元，{p}的爸爸买了{decimal(Fraction(weight, 10))}千克，"
        f"应付多少元？",
        total,
    )


def _plane_figure(rng: random.Random) -> Ask:
    kind = rng.choice(("平行四边形", "三角形", "梯形"))
    a, h, b = rng.randint(25, 150), rng.randint(12, 80), rng.randint(20, 90)
    place = rng.choice(("菜地", "广告牌", "草坪", "花圃"))
    x, y = decimal(Fraction(a, 10)), decimal(Fraction(h, 10))
    if kind == "梯形":
        top = decimal(Fraction(b, 10))
        text = f"一块梯形{place}的上底是{top}米，下底是{x}米，高是{y}米，它的面积是多少平方米？"
        return (kind, a, h, b), 3, text, Fraction((a + b) * h, 200)
    area = Fraction(a * h, 100) / (2 if kind == "三角形" else 1)
    return (
        (kind, a, h),
        2 if kind == "三角形" else 1,
        f"一块{kind}{place}的底是{x}米，高是{y}米，它的面积是多少平方米？",
        area,
    )


def _times_plus(rng: random.Random) -> Ask:
    small, k, more = rng.randint(12, 80), rng.randint(2, 6), rng.randint(3, 25)
    word = rng.choice("多少")
    large = small * k + (more if word == "多" else -more)
    x, y, unit = rng.choice(
        (("故事书", "科技书", "本"), ("篮球", "足球", "个"), ("柏树", "松树", "棵"), ("鸭", "鹅", "只"))
    )
    return (
        (small, k, more, word),
        2,
        f"{x}有{large}{unit}，比{y}的{k}倍{word}{more}{unit}，{y}有多少{unit}？",
        small,
    )


def _unlike_fractions(rng: random.Random) -> Ask:
    a, b = _fraction(rng), _fraction(rng)
    while a.denominator == b.denominator or a + b == 1:
        a, b = _fraction(rng), _fraction(rng)
    unit, first, second = rng.choice(
        (
            ("吨", "第一天运煤", "第二天运煤"),
            ("千米", "上午修路", "下午修路"),
            ("公顷", "甲队收割小麦", "乙队收割小麦"),
        )
    )
    text = f"{first}{a}{unit}，{second}{b}{unit}，一共"
    verb = {"吨": "运煤", "千米": "修路", "公顷": "收割小麦"}[unit]
    total = a + b
    return (
        tuple(sorted((a, b))),
        1,
        f"{text}{verb}多少{unit}？",
        f"{total.numerator}/{total.denominator}" if total.denominator > 1 else total,
    )


def _cuboid(rng: random.Random) -> Ask:
    a, b, c = sorted((rng.randint(3, 25) for _ in range(3)), reverse=True)
    asked = rng.choice(("体积", "表面积", "棱长总和"))
    thing = rng.choice(("木块", "纸箱", "铁盒", "石料"))
    values = {
        "体积": (a * b * c, "立方分米", 2),
        "表面积": (2 * (a * b + b * c + a * c), "平方分米", 4),
        "棱长总和": (4 * (a + b + c), "分米", 3),
    }
    value, unit, steps = values[asked]
    return (
        (a, b, c, asked),
        steps,
        f"一个长方体{thing}长{a}分米，宽{b}分米，高{c}分米，它的{asked}是多少{unit}？",
        value,
    )


def _common_multiple(rng: random.Random) -> Ask:
    a, b = rng.sample((4, 6, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 25), 2)
    while math.lcm(a, b) == a * b and a * b > 150:
        a, b = rng.sample((4, 6, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 25), 2)
    x, y = rng.choice((("1路车", "2路车"), ("3路车", "5路车"), ("8路车", "11路车")))
    return (
        tuple(sorted((a, b))),
        2,
        f"{x}每{a}分钟发一次车，{y}每{b}分钟发一次车，两路车早上6时同时发车后，至少过多少分钟又同时发车？",
        math.lcm(a, b),
    )


def _largest_square(rng: random.Random) -> Ask:
    g, (a, b) = (
        rng.randint(4, 18),
        rng.choice([(x, y) for x in range(3, 9) for y in range(2, x) if math.gcd(x, y) == 1]),
    )
    asked = rng.choice(("边长", "块数"))
    text = f"把一张长{g * a}厘米、宽{g * b}厘米的长方形纸剪成同样大小的正方形，没有剩余，"
    if asked == "边长":
        return (g, a, b, asked), 2, f"{text}正方形的边长最大是多少厘米？", g
    return (g, a, b, asked), 3, f"{text}最少可以剪成多少个正方形？", a * b


def _taxi(rng: random.Random) -> Ask:
    start, base, per = rng.choice((2, 3)), rng.choice((7, 8, 9, 10, 12)), rng.choice((14, 15, 16, 18, 24, 25))
    way = start + rng.randint(3, 18)
    return (
        (start, base, per, way),
        3,
        (
            f"某市出租车的收费标准是：{start}千米以内（含{start}千米）收{base}元，"
            f"超过{start}千米的部分每千米收{decimal(Fraction(per, 10))}元。"
            f"王阿姨坐出租车行了{way}千米，应付多少元？"
        ),
        base + (way - start) * Fraction(per, 10),
    )


def _barrels(rng: random.Random) -> Ask:
    size, total = rng.randint(15, 48), rng.randint(20, 99)
    while total * 10 % size == 0:
        total = rng.randint(20, 99)
    small = decimal(Fraction(size, 10))
    if rng.random() < 0.5:
        return (
            (size, total, "up"),
            2,
            f"要把{total}千克食用油装进油桶里，每个油桶最多装{small}千克，至少需要多少个油桶？",
            -(-total * 10 // size),
        )
    return (
        (size, total, "down"),
        2,
        f"做一个蛋糕要用{decimal(Fraction(size, 100))}千克面粉，"
        f"{decimal(Fraction(total, 10))}千克面粉最多可以做多少个这样的蛋糕？",
        total * 10 // size,
    )


def _catching_up(rng: random.Random) -> Ask:
    slow, fast, ahead, (p,) = rng.randint(50, 75), rng.randint(110, 240), rng.randint(3, 15), names(rng, 1)
    while slow * ahead % (fast - slow):
        slow, fast, ahead = rng.randint(50, 75), rng.randint(110, 240), rng.randint(3, 15)
    return (
        (slow, fast, ahead),
        3,
        f"{p}步行去学校，每分钟走{slow}米，出发{ahead}分钟后，爸爸发现{p}忘带作业本，骑车去追，"
        f"每分钟行{fast}米，爸爸几分钟后追上{p}？",
        slow * ahead // (fast - slow),
    )


def _left_over_part(rng: random.Random) -> Ask:
    a, b = _fraction(rng, 4, 10), _fraction(rng, 4, 10)
    while a + b >= 1 or a.denominator == b.denominator:
        a, b = _fraction(rng, 4, 10), _fraction(rng, 4, 10)
    rest = 1 - a - b
    x, y = rng.choice((("第一周", "第二周"), ("第一天", "第二天"), ("甲队", "乙队")))
    thing, verb = rng.choice((("一条公路", "修了"), ("一批货物", "运走了"), ("一项工程", "完成了")))
    return (
        tuple(sorted((a, b))),
        2,
        f"{thing}，{x}{verb}全部的{a}，{y}{verb}全部的{b}，还剩全部的几分之几？",
        f"{rest.numerator}/{rest.denominator}",
    )


def _tiling(rng: random.Random) -> Ask:
    side, m, n = rng.choice((4, 5, 6, 8)), rng.randint(11, 20), rng.randint(5, 10)
    length, width = Fraction(side * m, 10), Fraction(side * n, 10)
    place = rng.choice(("客厅", "教室", "会议室", "大厅"))
    return (
        (side, m, n),
        3,
        f"一间{place}长{decimal(length)}米，宽{decimal(width)}米，用边长{side}分米的正方形地砖铺地，需要多少块地砖？",
        m * n,
    )


TEMPLATES = grade(
    5,
    _decimal_cost,
    _plane_figure,
    _times_plus,
    _unlike_fractions,
    _cuboid,
    _common_multiple,
    _largest_square,
    _taxi,
    _barrels,
    _catching_up,
    _left_over_part,
    _tiling,
)
