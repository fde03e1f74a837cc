"""Templates for grade 6: percentages, ratios, circles, interest, work."""

import math
import random
from fractions import Fraction

from envs_data.build.cmath.template_helpers import Ask, grade, names, percent
from envs_data.build.math.latex import decimal

PI = Fraction(314, 100)


def _fraction(rng: random.Random, low: int = 3, high: int = 9) -> Fraction:
    bottom = rng.randint(low, high)
    return Fraction(rng.choice([t for t in range(1, bottom) if math.gcd(t, bottom) == 1]), bottom)


def _sale(rng: random.Random) -> Ask:
    tenths, price = rng.choice((6, 7, 75, 8, 85, 9, 95)), rng.randint(8, 60) * 20
    thing, unit = rng.choice((("电饭锅", "个"), ("运动鞋", "双"), ("大衣", "件"), ("自行车", "辆"), ("书桌", "张")))
    rate = Fraction(tenths, 100 if tenths > 10 else 10)
    word = {6: "六", 7: "七", 75: "七五", 8: "八", 85: "八五", 9: "九", 95: "九五"}[tenths]
    asked = rng.choice(("现价", "便宜"))
    tail = "现在的价钱是多少元？" if asked == "现价" else "现在买可以便宜多少元？"
    return (
        (tenths, price, asked),
        1 + (asked == "便宜"),
        f"一{unit}{thing}原价{price}元，现在打{word}折出售，{tail}",
        price * rate if asked == "现价" else price * (1 - rate),
    )


def _rate(rng: random.Random) -> Ask:
    total = rng.choice((25, 40, 50, 80, 125, 200, 250, 400, 500))
    bad = rng.randint(1, total // 8)
    kind, text = rng.choice(
        (
            ("出勤率", "六年级有{t}人，今天有{b}人请假，今天的出勤率是多少？"),
            ("合格率", "质检员检查了{t}个零件，其中{b}个不合格，这批零件的合格率是多少？"),
            ("成活率", "园林工人栽了{t}棵树苗，有{b}棵没有成活，这批树苗的成活率是多少？"),
            ("发芽率", "科学小组用{t}粒种子做发芽试验，有{b}粒没有发芽，种子的发芽率是多少？"),
        )
    )
    return (kind, total, bad), 2, text.format(t=total, b=bad), percent(Fraction(total - bad, total))


def _percent_more(rng: random.Random) -> Ask:
    base = rng.choice((40, 50, 80, 120, 125, 160, 200, 240, 250, 300, 400, 500))
    p = rng.choice((5, 10, 15, 20, 25, 30, 35, 40, 45, 60, 75))
    while base * p % 100:
        p = rng.choice((5, 10, 20, 25, 30, 40, 50, 60, 75))
    word = rng.choice("多少")
    other = base + base * p // 100 if word == "多" else base - base * p // 100
    x, y, unit = rng.choice(
        (
            ("甲厂", "乙厂", "人"),
            ("东村", "西村", "户"),
            ("实验小学", "育才小学", "人"),
            ("今年的产量", "去年的产量", "吨"),
        )
    )
    have = "是" if "产量" in x else "有"
    return (
        (base, p, word),
        2,
        f"{x}{have}{other}{unit}，{y}{have}{base}{unit}，{x}比{y}{word}百分之几？",
        percent(Fraction(p, 100)),
    )


def _interest(rng: random.Random) -> Ask:
    money, rate, years, (p,) = (
        rng.randint(2, 50) * 1000,
        rng.choice((150, 175, 210, 225, 260, 275, 300)),
        rng.randint(1, 5),
        names(rng, 1),
    )
    asked = rng.choice(("利息", "本息"))
    gain = Fraction(money * rate * years, 10000)
    tail = "到期时可得利息多少元？" if asked == "利息" else "到期时本金和利息一共多少元？"
    text = f"{p}的爸爸把{money}元存入银行，定期{years}年，年利率是{decimal(Fraction(rate, 100))}%，{tail}"
    return (money, rate, years, asked), 1 + (asked == "本息"), text, gain if asked == "利息" else money + gain


def _circle(rng: random.Random) -> Ask:
    r, asked = rng.randint(2, 25), rng.choice(("周长", "面积"))
    thing = rng.choice(("圆形花坛", "圆形水池", "圆形舞台", "圆形草坪"))
    given, scale = rng.choice((("半径", 1), ("直径", 2)))
    value = 2 * PI * r if asked == "周长" else PI * r * r
    unit = "米" if asked == "周长" else "平方米"
    return (
        (r, asked, given),
        1 + (given == "直径" and asked == "面积"),
        f"一个{thing}的{given}是{r * scale}米，它的{asked}是多少{unit}？（π取3.14）",
        value,
    )


def _ratio_shares(rng: random.Random) -> Ask:
    unit, which = rng.randint(6, 60), rng.randint(0, 1)
    if rng.random() < 0.4:
        parts = rng.choice(((5, 4), (4, 5), (6, 5), (7, 8), (8, 7), (5, 6), (11, 9), (9, 11), (13, 12), (7, 6)))
        asked = ("男生", "女生")[which]
        text = f"六年级一共有{sum(parts) * unit}人，男生和女生的人数比是{parts[0]}:{parts[1]}，{asked}有多少人？"
        return (parts, unit, which), 2, text, parts[which] * unit
    parts = rng.choice([(x, y) for x in range(1, 10) for y in range(1, 10) if math.gcd(x, y) == 1 and x != y])
    x, y, whole, measure = rng.choice(
        (("水泥", "沙子", "混合料", "千克"), ("蜂蜜", "水", "蜂蜜水", "克"), ("铜", "锡", "合金", "克"))
    )
    text = (
        f"用{x}和{y}按{parts[0]}:{parts[1]}的质量比配制{sum(parts) * unit}{measure}{whole}，"
        f"需要{(x, y)[which]}多少{measure}？"
    )
    return (parts, unit, which), 2, text, parts[which] * unit


def _part_of_part(rng: random.Random) -> Ask:
    first, second = _fraction(rng, 2, 6), _fraction(rng, 2, 6)
    total = first.denominator * second.denominator * rng.randint(3, 15)
    return (
        (first, second, total),
        2,
        f"学校图书馆有故事书{total}本，科技书的本数是故事书的{first}，连环画的本数是科技书的{second}，连环画有多少本？",
        total * first * second,
    )


def _work_together(rng: random.Random) -> Ask:
    a, b = rng.randint(3, 30), rng.randint(3, 30)
    while a == b or Fraction(a * b, a + b).denominator > 11:
        a, b = rng.randint(3, 30), rng.randint(3, 30)
    value = Fraction(a * b, a + b)
    job = rng.choice(("一项工程", "一条水渠", "一批零件"))
    verb = {"一项工程": "完成", "一条水渠": "修完", "一批零件": "加工完"}[job]
    golden = str(value) if value.denominator > 1 else value
    return (
        tuple(sorted((a, b))),
        3,
        f"{job}，甲队单独做{a}天可以{verb}，乙队单独做{b}天可以{verb}，两队合作几天可以{verb}？",
        golden,
    )


def _map_scale(rng: random.Random) -> Ask:
    scale, tenths = rng.choice((2000, 5000, 500000, 1000000, 2000000, 3000000, 6000000)), rng.randint(21, 159)
    metres = Fraction(scale * tenths, 1000)
    unit, value = ("千米", metres / 1000) if scale > 10000 else ("米", metres)
    x, y = (
        rng.choice((("甲地", "乙地"), ("学校", "体育馆"), ("火车站", "机场"))) if scale > 10000 else ("教学楼", "校门")
    )
    return (
        (scale, tenths),
        2,
        f"在比例尺是1:{scale}的图上，量得{x}到{y}的距离是{decimal(Fraction(tenths, 10))}厘米，实际距离是多少{unit}？",
        value,
    )


def _cylinder(rng: random.Random) -> Ask:
    r, h, kind = rng.randint(2, 12), rng.randint(3, 30), rng.choice(("圆柱", "圆锥"))
    asked = "体积" if kind == "圆锥" else rng.choice(("体积", "侧面积"))
    if kind == "圆锥":
        h *= 3
        return (
            (kind, r, h),
            3,
            f"一个圆锥的底面半径是{r}厘米，高是{h}厘米，它的体积是多少立方厘米？（π取3.14）",
            PI * r * r * h / 3,
        )
    value = PI * r * r * h if asked == "体积" else 2 * PI * r * h
    unit = "立方厘米" if asked == "体积" else "平方厘米"
    return (
        (kind, r, h, asked),
        2,
        f"一个圆柱形茶叶罐的底面半径是{r}厘米，高是{h}厘米，它的{asked}是多少{unit}？（π取3.14）",
        value,
    )


def _whole_from_rest(rng: random.Random) -> Ask:
    used = _fraction(rng, 3, 10)
    unit = rng.randint(6, 60)
    rest, total = (used.denominator - used.numerator) * unit, used.denominator * unit
    thing, measure, verb = rng.choice(
        (
            ("一批大米", "千克", "卖出"),
            ("一根电线", "米", "用去"),
            ("一本书", "页", "看了"),
            ("一堆沙子", "吨", "运走"),
        )
    )
    have = {"千克": "这批大米原来有", "米": "这根电线原来长", "页": "这本书一共有", "吨": "这堆沙子原来有"}[measure]
    return (used, unit), 2, f"{thing}，{verb}{used}后还剩{rest}{measure}，{have}多少{measure}？", total


def _price_rise(rng: random.Random) -> Ask:
    up, down = rng.choice((5, 10, 20, 25, 30, 40, 50)), rng.choice((10, 20, 25, 30, 40))
    price = rng.randint(10, 60) * 40
    thing, unit = rng.choice((("冰箱", "台"), ("手表", "块"), ("机票", "张"), ("沙发", "套")))
    value = Fraction(price * (100 + up) * (100 - down), 10000)
    return (
        (up, down, price),
        2,
        f"一{unit}{thing}原价{price}元，先涨价{up}%，再降价{down}%，现价是多少元？",
        value,
    )


TEMPLATES = grade(
    6,
    _sale,
    _rate,
    _percent_more,
    _interest,
    _circle,
    _ratio_shares,
    _part_of_part,
    _work_together,
    _map_scale,
    _cylinder,
    _whole_from_rest,
    _price_rise,
)
