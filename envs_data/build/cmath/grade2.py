"""Templates for grade 2: times tables, division with remainder."""

import math
import random

from envs_data.build.cmath.template_helpers import Ask, grade, names


def _boxes(rng: random.Random) -> Ask:
    a, b = rng.randint(2, 9), rng.randint(3, 9)
    box, unit, thing = rng.choice(
        (("盒", "支", "铅笔"), ("袋", "个", "馒头"), ("篮", "个", "鸡蛋"), ("包", "块", "橡皮"))
    )
    return (a, b), 1, f"每{box}装{a}{unit}{thing}，{b}{box}一共有多少{unit}{thing}？", a * b


def _equal_parts(rng: random.Random) -> Ask:
    each, n = rng.randint(2, 9), rng.randint(3, 9)
    who, unit, thing = rng.choice(
        (("小朋友", "块", "糖"), ("小组", "本", "练习本"), ("盘子", "个", "草莓"), ("花瓶", "枝", "百合"))
    )
    verb = "放在" if who in ("盘子", "花瓶") else "分给"
    tail = "里" if verb == "放在" else ""
    return (
        (each, n),
        1,
        f"把{each * n}{unit}{thing}平均{verb}{n}个{who}{tail}，每个{who}{tail}有多少{unit}{thing}？",
        each,
    )


def _times_as_many(rng: random.Random) -> Ask:
    a, k = rng.randint(3, 9), rng.randint(2, 8)
    x, y, unit, place = rng.choice(
        (
            ("白兔", "黑兔", "只", "兔笼里"),
            ("松树", "柳树", "棵", "公园里"),
            ("足球", "排球", "个", "体育室里"),
            ("金鱼", "小虾", "条", "鱼缸里"),
        )
    )
    unit_y = "只" if y == "小虾" else unit
    return (a, k), 1, f"{place}有{a}{unit}{x}，{y}的数量是{x}的{k}倍，{y}有多少{unit_y}？", a * k


def _bouquets(rng: random.Random) -> Ask:
    each, n = rng.randint(3, 9), rng.randint(3, 9)
    rest = rng.randint(1, each - 1)
    asked = rng.choice(("束", "朵"))
    question = "最多可以扎成多少束" if asked == "束" else "扎完整束后还剩多少朵"
    flower = rng.choice(("玫瑰", "郁金香", "康乃馨", "菊花"))
    return (
        (each, n, rest),
        1,
        f"花店有{each * n + rest}朵{flower}，每{each}朵扎成一束，{question}？",
        n if asked == "束" else rest,
    )


def _boats(rng: random.Random) -> Ask:
    seats = rng.randint(3, 9)
    people = rng.randint(14, 70)
    while people % seats == 0 or people // seats > 9:
        people = rng.randint(14, 70)
    what, unit, verb = rng.choice(
        (("船", "条", "坐"), ("帐篷", "顶", "住"), ("缆车", "辆", "坐"), ("面包车", "辆", "坐"))
    )
    return (
        (seats, people),
        2,
        f"{people}名同学去郊游，每{unit}{what}最多{verb}{seats}人，至少需要多少{unit}{what}？",
        math.ceil(people / seats),
    )


def _pay_and_change(rng: random.Random) -> Ask:
    n, price, (p,) = rng.randint(3, 9), rng.randint(3, 9), names(rng, 1)
    paid = 50 if n * price < 50 else 100
    unit, thing = rng.choice((("本", "笔记本"), ("支", "圆珠笔"), ("瓶", "酸奶"), ("个", "面包")))
    return (
        (n, price),
        2,
        f"{p}买了{n}{unit}{thing}，每{unit}{price}元，付了{paid}元，应找回多少元？",
        paid - n * price,
    )


def _rows(rng: random.Random) -> Ask:
    rows, each, more = rng.randint(3, 9), rng.randint(4, 9), rng.randint(2, 20)
    who = rng.choice(("合唱队", "舞蹈队", "体操队", "鼓号队"))
    return (
        (rows, each, more),
        2,
        f"{who}的同学站成{rows}排，每排{each}人，后来又来了{more}人，{who}现在一共有多少人？",
        rows * each + more,
    )


def _cuts(rng: random.Random) -> Ask:
    part, n = rng.randint(2, 9), rng.randint(3, 9)
    what, verb, piece = rng.choice((("绳子", "剪", "段"), ("木头", "锯", "段"), ("彩带", "剪", "段")))
    return (
        (part, n),
        2,
        f"一根{part * n}米长的{what}，要{verb}成每{piece}长{part}米，需要{verb}多少次？",
        n - 1,
    )


def _book_total(rng: random.Random) -> Ask:
    each, days, rest, (p,) = rng.randint(4, 9), rng.randint(3, 9), rng.randint(5, 40), names(rng, 1)
    return (
        (each, days, rest),
        2,
        f"{p}看一本书，每天看{each}页，看了{days}天后还剩{rest}页，这本书一共有多少页？",
        each * days + rest,
    )


def _groups(rng: random.Random) -> Ask:
    n, each = rng.randint(4, 9), rng.randint(4, 9)
    boys = rng.randint(n * each // 3, n * each * 2 // 3)
    return (
        (n, each, boys),
        2,
        f"二年级有男生{boys}人，女生{n * each - boys}人，平均分成{n}个小组，每组有多少人？",
        each,
    )


def _two_prices(rng: random.Random) -> Ask:
    n, price, more = rng.randint(3, 8), rng.randint(4, 9), rng.randint(8, 40)
    big, small, unit = rng.choice(
        (
            ("文具盒", "钢笔", "支"),
            ("台历", "贺卡", "张"),
            ("茶壶", "茶杯", "个"),
            ("羽毛球拍", "羽毛球", "个"),
        )
    )
    measure = {"文具盒": "个", "台历": "本", "茶壶": "把", "羽毛球拍": "副"}[big]
    return (
        (n, price, more),
        2,
        f"一{measure}{big}{more}元，一{unit}{small}{price}元，买一{measure}{big}和{n}{unit}{small}一共要多少元？",
        n * price + more,
    )


def _how_many_times(rng: random.Random) -> Ask:
    small, k = rng.randint(2, 9), rng.randint(2, 9)
    x, y, unit = rng.choice(
        (
            ("红气球", "黄气球", "个"),
            ("母鸡", "公鸡", "只"),
            ("科技书", "连环画", "本"),
            ("月季花", "兰花", "盆"),
        )
    )
    return (small, k), 1, f"{x}有{small * k}{unit}，{y}有{small}{unit}，{x}的数量是{y}的多少倍？", k


TEMPLATES = grade(
    2,
    _boxes,
    _equal_parts,
    _times_as_many,
    _bouquets,
    _boats,
    _pay_and_change,
    _rows,
    _cuts,
    _book_total,
    _groups,
    _two_prices,
    _how_many_times,
)
