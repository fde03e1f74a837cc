"""Templates for grade 3: larger numbers, perimeter and area, first fractions and decimals."""

import random

from envs_data.build.cmath.template_helpers import Ask, fraction, grade, names


def _perimeter(rng: random.Random) -> Ask:
    width = rng.randint(8, 60)
    length = width + rng.randint(3, 60)
    place = rng.choice(("操场", "广场", "草坪", "池塘", "果园"))
    return (
        (width, length),
        2,
        f"一个长方形{place}长{length}米，宽{width}米，小明沿着它的边走一圈，一共走了多少米？",
        2 * (width + length),
    )


def _square_area(rng: random.Random) -> Ask:
    side = rng.randint(4, 40)
    thing, unit = rng.choice((("手帕", "厘米"), ("瓷砖", "厘米"), ("桌布", "分米"), ("地毯", "分米"), ("玻璃", "分米")))
    return (side,), 2, f"一块正方形{thing}的周长是{4 * side}{unit}，它的面积是多少平方{unit}？", side * side


def _bottles_left(rng: random.Random) -> Ask:
    each, n = rng.choice((12, 15, 18, 20, 24, 30)), rng.randint(12, 40)
    sold = rng.randint(50, each * n - 20)
    thing, unit = rng.choice((("矿泉水", "瓶"), ("果汁", "瓶"), ("罐头", "罐"), ("牛奶", "盒")))
    return (
        (each, n, sold),
        2,
        f"超市运来{n}箱{thing}，每箱{each}{unit}，已经卖出{sold}{unit}，还剩多少{unit}？",
        each * n - sold,
    )


def _desks(rng: random.Random) -> Ask:
    n, desk, chair = rng.randint(14, 60), rng.randint(45, 99), rng.randint(21, 48)
    return (
        (n, desk, chair),
        2,
        f"一张课桌{desk}元，一把椅子{chair}元，学校买了{n}套这样的课桌椅，一共要付多少元？",
        n * (desk + chair),
    )


def _unit_rate(rng: random.Random) -> Ask:
    hours, speed, asked = rng.randint(2, 6), rng.randint(35, 95), rng.randint(7, 12)
    vehicle = rng.choice(("汽车", "客车", "货车", "轮船"))
    measure = "艘" if vehicle == "轮船" else "辆"
    return (
        (hours, speed, asked),
        2,
        f"一{measure}{vehicle}{hours}小时行驶{hours * speed}千米，照这样的速度，{asked}小时能行驶多少千米？",
        speed * asked,
    )


def _same_denominator(rng: random.Random) -> Ask:
    n = rng.randint(5, 12)
    a = rng.randint(1, n - 3)
    b = rng.randint(1, n - a - 1)
    x, y = rng.sample(("黄瓜", "茄子", "白菜", "萝卜", "辣椒"), 2)
    asked = rng.choice(("sum", "rest"))
    text = f"一块菜地的{a}/{n}种{x}，{b}/{n}种{y}"
    if asked == "sum":
        return (n, a, b, asked), 1, f"{text}，{x}和{y}一共占这块菜地的几分之几？", fraction(a + b, n)
    return (
        (n, a, b, asked),
        2,
        f"{text}，其余的地空着，空着的地占这块菜地的几分之几？",
        fraction(n - a - b, n),
    )


def _orchard(rng: random.Random) -> Ask:
    k, small = rng.randint(2, 7), rng.randint(20, 90)
    x, y = rng.sample(("桃树", "梨树", "苹果树", "杏树", "枣树"), 2)
    asked = rng.choice((x, y))
    return (
        (k, small, asked == x),
        2,
        f"果园里{x}和{y}一共有{small * (k + 1)}棵，{x}的棵数是{y}的{k}倍，{asked}有多少棵？",
        small * k if asked == x else small,
    )


def _mean_of_days(rng: random.Random) -> Ask:
    mean = rng.randint(60, 300)
    x, y = rng.randint(2, 50), rng.randint(2, 50)
    a, b, c = mean + x, mean - y, mean - x + y
    unit, verb = rng.choice((("米", "修路"), ("个", "加工零件"), ("千克", "采茶"), ("棵", "栽树")))
    who = {"米": "工程队", "个": "王师傅", "千克": "采茶队", "棵": "林场"}[unit]
    return (
        (mean, x, y),
        2,
        f"{who}第一天{verb}{a}{unit}，第二天{verb}{b}{unit}，第三天{verb}{c}{unit}，平均每天{verb}多少{unit}？",
        mean,
    )


def _against_the_wall(rng: random.Random) -> Ask:
    width = rng.randint(5, 40)
    length = width + rng.randint(3, 40)
    return (
        (width, length),
        2,
        f"李大爷用篱笆围了一块长方形菜地，长{length}米，宽{width}米，其中一条长边靠墙，不用围篱笆。篱笆一共长多少米？",
        length + 2 * width,
    )


def _decimal_prices(rng: random.Random) -> Ask:
    a, b = rng.randint(61, 199), rng.randint(11, 59)
    while a % 10 == 0 or b % 10 == 0:
        a, b = rng.randint(61, 199), rng.randint(11, 59)
    x, y = rng.choice(
        (
            ("一支钢笔", "一支圆珠笔"),
            ("一个笔袋", "一把尺子"),
            ("一盒水彩笔", "一本练习本"),
            ("一本字典", "一本日记本"),
        )
    )
    asked = rng.choice(("便宜", "一共"))
    tail = f"{y}比{x}便宜多少元？" if asked == "便宜" else "买这两样东西一共要多少元？"
    tenths = a - b if asked == "便宜" else a + b
    return (
        (a, b, asked),
        1,
        f"{x}{a // 10}.{a % 10}元，{y}{b // 10}.{b % 10}元，{tail}",
        f"{tenths // 10}.{tenths % 10}" if tenths % 10 else f"{tenths // 10}",
    )


def _week(rng: random.Random) -> Ask:
    laps, metres, (p,) = rng.randint(2, 6), rng.choice((150, 200, 250, 300, 400)), names(rng, 1)
    days = rng.randint(3, 7)
    return (
        (laps, metres, days),
        2,
        f"学校的跑道一圈长{metres}米，{p}每天跑{laps}圈，{days}天一共跑多少米？",
        laps * metres * days,
    )


def _father_age(rng: random.Random) -> Ask:
    k, child, (p,) = rng.randint(3, 6), rng.randint(6, 12), names(rng, 1)
    while not 28 <= k * child <= 50:
        k, child = rng.randint(3, 6), rng.randint(6, 12)
    parent = rng.choice(("爸爸", "妈妈"))
    asked = rng.choice(("多少岁", "大多少岁"))
    if asked == "多少岁":
        return (
            (k, child, asked),
            1,
            f"{p}今年{child}岁，{parent}的年龄是{p}的{k}倍，{parent}今年多少岁？",
            k * child,
        )
    return (
        (k, child, asked),
        2,
        f"{p}的{parent}今年{k * child}岁，正好是{p}年龄的{k}倍，{parent}比{p}大多少岁？",
        k * child - child,
    )


TEMPLATES = grade(
    3,
    _perimeter,
    _square_area,
    _bottles_left,
    _desks,
    _unit_rate,
    _same_denominator,
    _orchard,
    _mean_of_days,
    _against_the_wall,
    _decimal_prices,
    _week,
    _father_age,
)
