"""Templates for grade 1: sums and differences up to 100."""

import random

from envs_data.build.cmath.template_helpers import Ask, grade, names


def _given_more(rng: random.Random) -> Ask:
    a, b, (p, q) = rng.randint(6, 60), rng.randint(3, 35), names(rng, 2)
    unit, thing = rng.choice((("个", "气球"), ("张", "贴纸"), ("本", "图画书"), ("颗", "糖"), ("枚", "纽扣")))
    return (a, b), 1, f"{p}有{a}{unit}{thing}，{q}又送给{p}{b}{unit}，{p}现在一共有多少{unit}{thing}？", a + b


def _flew_away(rng: random.Random) -> Ask:
    a = rng.randint(12, 80)
    b = rng.randint(3, a - 2)
    place, animal, verb = rng.choice(
        (
            ("树上", "小鸟", "飞走了"),
            ("池塘里", "青蛙", "跳走了"),
            ("草地上", "蝴蝶", "飞走了"),
            ("山坡上", "小羊", "跑走了"),
        )
    )
    return (a, b), 1, f"{place}原来有{a}只{animal}，{verb}{b}只，还剩多少只{animal}？", a - b


def _fruit(rng: random.Random) -> Ask:
    a, b = rng.randint(5, 50), rng.randint(5, 49)
    who, (x, y) = (
        rng.choice(("妈妈", "奶奶", "爸爸", "阿姨")),
        rng.sample(("苹果", "梨", "橘子", "桃子", "石榴"), 2),
    )
    return tuple(sorted((a, b))), 1, f"{who}买了{a}个{x}和{b}个{y}，一共买了多少个水果？", a + b


def _more_people(rng: random.Random) -> Ask:
    a, b, word = rng.randint(25, 60), rng.randint(3, 20), rng.choice("多少")
    what, unit = rng.choice((("同学", "名"), ("小树", "棵"), ("纸花", "朵"), ("图书", "本")))
    return (
        (a, b, word),
        1,
        f"一班有{a}{unit}{what}，二班的{what}比一班{word}{b}{unit}，二班有多少{unit}{what}？",
        a + b if word == "多" else a - b,
    )


def _rope_skipping(rng: random.Random) -> Ask:
    a, (p, q) = rng.randint(30, 99), names(rng, 2)
    b = rng.randint(10, a - 3)
    what, verb, unit = rng.choice((("跳绳", "跳", "下"), ("拍皮球", "拍", "下"), ("踢毽子", "踢", "个")))
    return (
        (a, b),
        1,
        f"{p}和{q}比赛{what}，{p}{verb}了{a}{unit}，{q}{verb}了{b}{unit}，{p}比{q}多{verb}了多少{unit}？",
        a - b,
    )


def _change(rng: random.Random) -> Ask:
    price, (p,) = rng.randint(3, 48), names(rng, 1)
    paid = next(note for note in (5, 10, 20, 50) if note > price)
    thing = rng.choice(("一个铅笔盒", "一把雨伞", "一本故事书", "一个皮球", "一盒彩笔"))
    return (price,), 1, f"{p}买{thing}用了{price}元，付给售货员{paid}元，应找回多少元？", paid - price


def _queue(rng: random.Random) -> Ask:
    a, b, (p,) = rng.randint(3, 20), rng.randint(3, 20), names(rng, 1)
    return (
        (a, b),
        2,
        f"同学们排成一队做操，从前面数{p}排在第{a}个，从后面数{p}排在第{b}个，这一队一共有多少人？",
        a + b - 1,
    )


def _pages_left(rng: random.Random) -> Ask:
    a, (p,) = rng.randint(40, 99), names(rng, 1)
    b = rng.randint(8, a - 5)
    return (a, b), 1, f"一本童话书有{a}页，{p}已经看了{b}页，还有多少页没有看？", a - b


def _had_before(rng: random.Random) -> Ask:
    a, b, (p,) = rng.randint(6, 50), rng.randint(3, 45), names(rng, 1)
    verb, unit, thing = rng.choice(
        (("用去", "元", "钱"), ("吃了", "块", "饼干"), ("送给同学", "张", "卡片"), ("卖出", "个", "南瓜"))
    )
    who = "农民伯伯" if thing == "南瓜" else p
    return (a, b), 1, f"{who}{verb}{a}{unit}{thing}后还剩{b}{unit}，{who}原来有多少{unit}{thing}？", a + b


def _bus(rng: random.Random) -> Ask:
    a = rng.randint(20, 50)
    b, c = rng.randint(3, a - 6), rng.randint(2, 20)
    place = rng.choice(("一辆公共汽车上", "一节地铁车厢里", "一辆游览车上"))
    return (a, b, c), 2, f"{place}有{a}人，到站后下去{b}人，又上来{c}人，现在车上有多少人？", a - b + c


def _three_parts(rng: random.Random) -> Ask:
    a, b, c = rng.randint(5, 30), rng.randint(5, 30), rng.randint(3, 30)
    x, y, z = rng.sample(("红", "黄", "蓝", "绿", "白"), 3)
    place, unit, thing = rng.choice((("花园里", "朵", "花"), ("盒子里", "个", "球"), ("教室里", "面", "旗")))
    return (
        tuple(sorted((a, b, c))),
        2,
        f"{place}有{a}{unit}{x}{thing}、{b}{unit}{y}{thing}和{c}{unit}{z}{thing}，一共有多少{unit}{thing}？",
        a + b + c,
    )


def _sold_in_a_day(rng: random.Random) -> Ask:
    a, b = rng.randint(8, 35), rng.randint(8, 35)
    total = a + b + rng.randint(4, 28)
    unit, thing = rng.choice((("箱", "牛奶"), ("袋", "面粉"), ("个", "书包"), ("盆", "花")))
    return (
        (total, a, b),
        2,
        f"商店里原有{total}{unit}{thing}，上午卖出{a}{unit}，下午卖出{b}{unit}，还剩多少{unit}{thing}？",
        total - a - b,
    )


TEMPLATES = grade(
    1,
    _given_more,
    _flew_away,
    _fruit,
    _more_people,
    _rope_skipping,
    _change,
    _queue,
    _pages_left,
    _had_before,
    _bus,
    _three_parts,
    _sold_in_a_day,
)
