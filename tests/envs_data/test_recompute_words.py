"""Answers of the word problems, worked out a second time from the text of the question alone."""

import re
from fractions import Fraction
from itertools import combinations

import pytest

import envs_data

STORY_SIGNS = {"addition": (1, 1), "subtraction": (1, -1), "three addends": (1, 1, 1)}
KNOWN = {Fraction(n) for n in ("2", "3", "4", "5", "7", "8", "12", "100", "1.5")}
"""Numbers that a solution may use though the question writes them as words or not at all (7 days, 12 eggs)."""


def every(name):
    return [row for split in envs_data.manifest()[name]["splits"] for row in envs_data.rows(name, split)]


def numbers(text):
    return [Fraction(n) for n in re.findall(r"\d+(?:\.\d+)?", text)]


def fractions(text):
    return [Fraction(f) for f in re.findall(r"\d+/\d+", text)]


def test_stories_have_the_answer_that_their_numbers_give():
    for row in every("stories"):
        found, signs = numbers(row["question"]), STORY_SIGNS[row["subject"]]
        assert int(row["answer"]) == sum(s * n for s, n in zip(signs, found, strict=True)), row
        assert all(n in range(1, 10) for n in found)
        assert int(row["answer"]) >= 0
        assert row["level"] == 1 + list(STORY_SIGNS).index(row["subject"])


def test_no_story_of_one_split_has_the_sentence_of_another_but_for_people():
    people = re.compile(
        r"\b(?:Mia|Anna|Lucy|Emma|Sara|Nora|Lily|Zoe|Ruth|Ivy|Tom|Ben|Sam|Leo|Max|Dan|Eli|Jack|Omar|Noah)\b|\b(?:s?he|hi?e?r?s?)\b"
    )
    splits = envs_data.manifest()["stories"]["splits"]
    assert set(splits) == {"train", "test", "bench"}
    shapes = {split: {people.sub("_", row["question"]) for row in envs_data.rows("stories", split)} for split in splits}
    for first, second in combinations(shapes, 2):
        assert not shapes[first] & shapes[second]


def test_gsm8k_solutions_derive_the_answer_from_the_numbers_of_the_question():
    for row in every("gsm8k"):
        *lines, last = row["answer"].split("\n")
        assert 2 <= len(lines) <= 6, row
        known = {Fraction(n) for n in re.findall(r"\d+", row["question"])} | KNOWN
        result = None
        for line in lines:
            ((expression, shown),) = re.findall(r"<<([^=>]+)=([^>]+)>>", line)
            assert re.fullmatch(r"[\d.]+([-+*/][\d.]+)+", expression)
            result = eval(re.sub(r"[\d.]+", r"Fraction('\g<0>')", expression))
            assert Fraction(shown) == result, line
            assert f">>{shown}" in line
            assert set(numbers(expression)) <= known, (line, row["question"])
            known.add(result)
        assert Fraction(last.removeprefix("#### ").replace(",", "")) == result, row
        assert result >= 0
        assert result.denominator == 1


def test_gsm8k_has_thousands_commas_as_the_original():
    assert sum("," in row["answer"].rpartition("####")[2] for row in every("gsm8k")) >= 5


CHINESE = {
    "又送给|多少个水果": lambda t, n: n[0] + n[1],
    "还剩多少只|页没有看|比赛": lambda t, n: n[0] - n[1],
    "排在第": lambda t, n: n[0] + n[1] - 1,
    "又上来": lambda t, n: n[0] - n[1] + n[2],
    "上午卖出": lambda t, n: n[0] - n[1] - n[2],
    "倍，红|倍，黑|是.*的.倍，(?:黑|柳|排|小)|扩大到|平行四边形": lambda t, n: n[0] * n[1],
    "最多可以扎成": lambda t, n: n[0] // n[1],
    "扎完整束后": lambda t, n: n[0] % n[1],
    "至少需要多少[条顶辆]|油桶": lambda t, n: -(-n[0] // n[1]),
    "需要[剪锯]多少次|两端都不": lambda t, n: n[0] / n[1] - 1,
    "平均分成.个小组": lambda t, n: (n[0] + n[1]) / n[2],
    "付了.*每|每.*付了": lambda t, n: n[2] - n[0] * n[1],
    "走一圈": lambda t, n: 2 * (n[0] + n[1]),
    "正方形.*的周长": lambda t, n: (n[0] / 4) ** 2,
    "课桌椅": lambda t, n: (n[0] + n[1]) * n[2],
    "照这样的速度": lambda t, n: n[1] / n[0] * n[2],
    "果园里.*倍": lambda t, n: n[0] / (n[1] + 1) * (n[1] if t.split("果园里")[1][:2] in t.rpartition("，")[2] else 1),
    "第三天": lambda t, n: sum(n) / 3,
    "其中一条长边靠墙": lambda t, n: n[0] + 2 * n[1],
    "鸡兔同笼.*兔有": lambda t, n: n[1] / 2 - n[0],
    "鸡兔同笼.*鸡有": lambda t, n: 2 * n[0] - n[1] / 2,
    "几小时后两车相遇": lambda t, n: n[0] / (n[1] + n[2]),
    "两地相距多少": lambda t, n: (n[0] + n[1]) * n[2],
    "两端都[^不]": lambda t, n: n[0] / n[1] + 1,
    "缩小到": lambda t, n: n[0] / n[2],
    "多少公顷": lambda t, n: sum(fractions(t)) if fractions(t) else n[0] * n[1] / 10_000,
    "实际用了多少天": lambda t, n: n[0] * n[1] / n[2],
    "提前多少天": lambda t, n: n[1] - n[0] * n[1] / n[2],
    "第三个角": lambda t, n: 180 - n[0] - n[1],
    "它的顶角": lambda t, n: 180 - 2 * n[0],
    "它的一个底角": lambda t, n: (180 - n[0]) / 2,
    "数学测验": lambda t, n: n[3] * n[2] - n[0] * n[1],
    "打印机": lambda t, n: n[0] * n[1] + n[2] * n[3],
    "一共(?:重|运煤)多少吨": lambda t, n: sum(fractions(t)) if fractions(t) else n[0] * n[1] / 1000,
    "三角形.*面积": lambda t, n: n[0] * n[1] / 2,
    "梯形": lambda t, n: (n[0] + n[1]) * n[2] / 2,
    "本，比科技书|个，比足球|棵，比松树|只，比鹅": lambda t, n: (n[0] + n[2] * (-1 if "倍多" in t else 1)) / n[1],
    "体积是多少立方分米": lambda t, n: n[0] * n[1] * n[2],
    "表面积": lambda t, n: 2 * (n[0] * n[1] + n[1] * n[2] + n[0] * n[2]),
    "棱长总和": lambda t, n: 4 * sum(n),
    "边长最大": lambda t, n: max(d for d in range(1, 200) if n[0] % d == n[1] % d == 0),
    "最少可以剪成": lambda t, n: n[0] * n[1] / max(d for d in range(1, 200) if n[0] % d == n[1] % d == 0) ** 2,
    "同时发车": lambda t, n: next(m for m in range(1, 2000) if m % n[1] == m % n[3] == 0),
    "出租车": lambda t, n: n[2] + (n[5] - n[0]) * n[4],
    "蛋糕": lambda t, n: n[1] // n[0],
    "追上": lambda t, n: n[0] * n[1] / (n[2] - n[0]),
    "还剩全部": lambda t, n: 1 - sum(fractions(t)),
    "地砖": lambda t, n: n[0] * n[1] * 100 / n[2] ** 2,
    "折.*价钱": lambda t, n: n[0] * DISCOUNTS[re.search("打(.+?)折", t)[1]],
    "折.*便宜": lambda t, n: n[0] * (1 - DISCOUNTS[re.search("打(.+?)折", t)[1]]),
    "出勤率|合格率|成活率|发芽率": lambda t, n: 1 - n[1] / n[0],
    "百分之几": lambda t, n: abs(n[0] - n[1]) / n[1],
    "可得利息": lambda t, n: n[0] * n[1] * n[2] / 100,
    "本金和利息": lambda t, n: n[0] * (1 + n[1] * n[2] / 100),
    "圆形.*周长": lambda t, n: Fraction("3.14") * n[0] * (1 if "直径" in t else 2),
    "圆形.*面积": lambda t, n: Fraction("3.14") * (n[0] / (2 if "直径" in t else 1)) ** 2,
    "圆锥": lambda t, n: Fraction("3.14") * n[0] ** 2 * n[1] / 3,
    "圆柱.*它的体积": lambda t, n: Fraction("3.14") * n[0] ** 2 * n[1],
    "侧面积": lambda t, n: Fraction("6.28") * n[0] * n[1],
    "比例尺": lambda t, n: n[1] * n[2] / (100_000 if "千米" in t else 100),
    "连环画": lambda t, n: n[0] * fractions(t)[0] * fractions(t)[1] if fractions(t) else None,
    "两队合作": lambda t, n: n[0] * n[1] / (n[0] + n[1]),
    "先涨价": lambda t, n: n[0] * (100 + n[1]) * (100 - n[2]) / 10_000,
    "还剩.*原来(?:有|长)多少|一共有多少页？": lambda t, n: n[2] / (1 - fractions(t)[0]) if fractions(t) else None,
}
DISCOUNTS = {w: Fraction(d) for w, d in zip("六七八九", ("0.6", "0.7", "0.8", "0.9"), strict=True)}
DISCOUNTS |= {"七五": Fraction("0.75"), "八五": Fraction("0.85"), "九五": Fraction("0.95")}


@pytest.mark.parametrize("pattern", sorted(CHINESE))
def test_cmath_answers_follow_from_the_question(pattern):
    checked = 0
    for row in every("cmath"):
        if not re.search(pattern, row["question"]):
            continue
        expected = CHINESE[pattern](row["question"], numbers(row["question"]))
        if expected is None:
            continue
        golden = row["golden"]
        found = Fraction(golden.removesuffix("%")) / (100 if golden.endswith("%") else 1)
        assert found == expected, row
        checked += 1
    assert checked >= 1


def test_most_cmath_rows_are_worked_out_again():
    rows = every("cmath")
    covered = [row for row in rows if any(re.search(p, row["question"]) for p in CHINESE)]
    assert len(covered) >= 0.75 * len(rows)


def test_cmath_num_digits_is_that_of_the_longest_number():
    for row in every("cmath"):
        found = re.findall(r"\d+(?:[./]\d+)?", f"{row['question']} {row['golden']}")
        assert row["num_digits"] == max(sum(map(str.isdigit, number)) for number in found), row
        assert 1 <= row["reasoning_step"] <= 5
