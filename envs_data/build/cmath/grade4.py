"""Templates for grade 4: motion, heads and legs, planting trees, decimals, angles."""

import random
from fractions import Fraction

from envs_data.build.cmath.template_helpers import Ask, grade, names
from envs_data.build.math.latex import decimal


def _money(fen: int) -> str:
    """Format an amount in fen (1/100 yuan) as yuan, e.g. 4.5."""
    return decimal(Fraction(fen, 100))


def _meeting(rng: random.Random) -> Ask:
    a, b, hours = rng.randint(45, 95), rng.randint(45, 95), rng.randint(2, 8)
    asked = rng.choice(("时间", "路程"))
    x, y = rng.choice((("甲车", "乙车"), ("客车", "货车"), ("快车", "慢车")))
    if asked == "时间":
        return (
            (*sorted((a, b)), hours, asked),
            2,
            f"两地相距{(a + b) * hours}千米，{x}和{y}同时从两地出发，相向而行。{x}每小时行{a}千米，"
            f"{y}每小时行{b}千米，几小时后两车相遇？",
            hours,
        )
    return (
        (*sorted((a, b)), hours, asked),
        2,
        f"{x}和{y}同时从两地出发，相向而行，{x}每小时行{a}千米，{y}每小时行{b}千米，{hours}小时后相遇。"
        f"两地相距多少千米？",
        (a + b) * hours,
    )


def _chickens_and_rabbits(rng: random.Random) -> Ask:
    chickens, rabbits = rng.randint(4, 25), rng.randint(4, 25)
    asked = rng.choice(("鸡", "兔"))
    return (
        (chickens, rabbits, asked),
        4,
        f"鸡兔同笼，从上面数有{chickens + rabbits}个头，从下面数有{2 * chickens + 4 * rabbits}条腿，{asked}有多少只？",
        chickens if asked == "鸡" else rabbits,
    )


def _trees(rng: random.Random) -> Ask:
    gap, n, both = rng.choice((4, 5, 6, 8, 10, 12, 15, 20)), rng.randint(12, 60), rng.choice((True, False))
    thing, unit = rng.choice((("杨树", "棵"), ("路灯", "盏"), ("彩旗", "面"), ("垃圾桶", "个")))
    verb = {"杨树": "栽", "路灯": "安装", "彩旗": "插", "垃圾桶": "放"}[thing]
    ends = "两端都" if both else "两端都不"
    return (
        (gap, n, both),
        2,
        f"在一条长{gap * n}米的小路一侧每隔{gap}米{verb}一{unit}{thing}，{ends}{verb}，一共要{verb}多少{unit}{thing}？",
        n + 1 if both else n - 1,
    )


def _decimal_change(rng: random.Random) -> Ask:
    a, b, (p,) = rng.randint(350, 2600), rng.randint(350, 2200), names(rng, 1)
    a, b = a // 5 * 5, b // 10 * 10
    paid = 50 if a + b < 5000 else 100
    x, y = rng.sample(("苹果", "香蕉", "葡萄", "橙子", "草莓"), 2)
    return (
        (a, b),
        2,
        f"{p}的妈妈买{x}用了{_money(a)}元，买{y}用了{_money(b)}元，她付给售货员{paid}元，应找回多少元？",
        Fraction(paid * 100 - a - b, 100),
    )


def _decimal_point(rng: random.Random) -> Ask:
    n, places, times = rng.randint(1001, 9999), rng.randint(2, 3), rng.choice((10, 100, 1000))
    value = Fraction(n, 10**places)
    word = rng.choice(("扩大", "缩小"))
    if word == "扩大":
        return (
            (n, places, times, word),
            1,
            f"把{decimal(value)}扩大到原来的{times}倍，得到的数是多少？",
            value * times,
        )
    return (
        (n, places, times, word),
        1,
        f"把{decimal(value)}缩小到原来的1/{times}，得到的数是多少？",
        value / times,
    )


def _hectares(rng: random.Random) -> Ask:
    length, width = rng.randint(8, 60) * 10, rng.randint(5, 40) * 10
    place = rng.choice(("果园", "麦田", "茶园", "林场", "鱼塘"))
    return (
        tuple(sorted((length, width))),
        2,
        f"一个长方形{place}长{length}米，宽{width}米，它的面积是多少公顷？",
        Fraction(length * width, 10000),
    )


def _faster_than_planned(rng: random.Random) -> Ask:
    days, rate = rng.randint(8, 30), rng.randint(20, 120)
    while True:
        real = rng.randint(rate + 2, rate * 2)
        if days * rate % real == 0:
            break
        days, rate = rng.randint(8, 30), rng.randint(20, 120)
    asked = rng.choice(("实际用了多少天？", "比原计划提前多少天完成？"))
    answer = days * rate // real
    return (
        (days, rate, real, asked),
        2 + ("提前" in asked),
        f"工程队修一条水渠，原计划每天修{rate}米，{days}天修完。实际每天修{real}米，{asked}",
        days - answer if "提前" in asked else answer,
    )


def _angles(rng: random.Random) -> Ask:
    a, b = rng.randint(20, 95), rng.randint(20, 70)
    return (
        tuple(sorted((a, b))),
        2,
        f"一个三角形中，两个角分别是{a}度和{b}度，第三个角是多少度？",
        180 - a - b,
    )


def _isosceles(rng: random.Random) -> Ask:
    base = rng.randint(20, 84)
    asked = rng.choice(("顶角", "底角"))
    top = 180 - 2 * base
    given = f"底角是{base}度，它的顶角" if asked == "顶角" else f"顶角是{top}度，它的一个底角"
    return (base, asked), 2, f"一个等腰三角形的{given}是多少度？", top if asked == "顶角" else base


def _average_score(rng: random.Random) -> Ask:
    mean, n, (p,) = rng.randint(82, 93), rng.randint(3, 5), names(rng, 1)
    last = rng.randint(80, 100)
    while (last - mean) % (n + 1) or last == mean:
        last = rng.randint(78, 100)
    new = (mean * n + last) // (n + 1)
    return (
        (mean, n, last),
        3,
        f"{p}前{n}次数学测验的平均分是{mean}分，要使前{n + 1}次测验的平均分是{new}分，第{n + 1}次要考多少分？",
        last,
    )


def _computers(rng: random.Random) -> Ask:
    n, price, m, small = (
        rng.randint(12, 45),
        rng.randint(25, 60) * 100,
        rng.randint(3, 9),
        rng.randint(8, 20) * 100,
    )
    return (
        (n, price, m, small),
        3,
        f"学校买了{n}台电脑，每台{price}元，又买了{m}台打印机，每台{small}元，一共花了多少元？",
        n * price + m * small,
    )


def _tons(rng: random.Random) -> Ask:
    each, n = rng.choice((15, 20, 25, 40, 50, 60)), rng.randint(21, 190)
    thing = rng.choice(("水泥", "大米", "面粉", "化肥", "饲料"))
    return (
        (each, n),
        2,
        f"仓库里有{n}袋{thing}，每袋重{each}千克，这些{thing}一共重多少吨？",
        Fraction(each * n, 1000),
    )


TEMPLATES = grade(
    4,
    _meeting,
    _chickens_and_rabbits,
    _trees,
    _decimal_change,
    _decimal_point,
    _hectares,
    _faster_than_planned,
    _angles,
    _isosceles,
    _average_score,
    _computers,
    _tons,
)
