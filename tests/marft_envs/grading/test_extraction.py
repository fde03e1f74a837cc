"""Where answers are found in responses."""

from __future__ import annotations

import pytest

from marft_envs.grading import boxed_answers, differing_boxes, extract, grade_math, last_boxed
from marft_envs.grading.extraction import split_elements

ALL = ("boxed", "answer", "number")


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        (r"\boxed{1} then \boxed{2}", ["1", "2"]),
        (r"\boxed{\frac{1}{2}}", [r"\frac{1}{2}"]),
        (r"\boxed{\boxed{3}}", [r"\boxed{3}"]),
        (r"\boxed{4 \boxed{5}", ["5"]),
        (r"open { brace \boxed{6}", ["6"]),
        (r"\boxed{\{1,2\}}", [r"\{1,2\}"]),
        (r"$\boxed 9$.", ["9"]),
        (r"\boxed {17}", ["17"]),
        (r"\fbox{8}", ["8"]),
        (r"\\boxed{7}", ["7"]),
        (r"\boxed{}", [""]),
        (r"\boxed{never closed", []),
        (r"\boxedx{1}", []),
        ("", []),
    ],
)
def test_boxes(text, boxes):
    assert boxed_answers(text) == boxes


def test_only_the_part_behind_the_thoughts_counts():
    assert extract(r"<think>\boxed{1}</think> It is \boxed{2}.") == "2"
    assert extract(r"<think>\boxed{1}</think> I do not know.") is None
    assert extract(r"<think>a</think>\boxed{1}<think>b</think>\boxed{2}") == "2"


def test_fallbacks_are_off_unless_asked_for():
    text = "The answer is 12."
    assert extract(text) is None
    assert extract(text, "en", ALL) == "12"


@pytest.mark.parametrize(
    ("text", "language", "answer"),
    [
        (r"Final Answer: The final answer is $\frac{3}{4}$. I hope it is correct.", "en", r"\frac{3}{4}"),
        ("#### 1,234", "en", "1,234"),
        ("**Answer:** 5", "en", "5"),
        ("Answer: x = 5", "en", "x = 5"),
        ("so she pays $12.50 in total", "en", "$12.50"),
        ("that leaves 3/4 of it", "en", "3/4"),
        ("the answer is 3 apples out of 5", "en", "3"),
        ("The answer is 3 out of the 5.", "en", "3"),
        ("the answer is 2 out of 5, or 40%", "en", "40%"),
        ("She keeps 12 out of a total of 1,500", "en", "12"),
        ("the answer is that she runs out of 5 kinds and 2 are left", "en", "2"),
        ("nothing here", "en", None),
        ("答案是12。", "zh", "12"),
        ("答案：$\\frac{1}{2}$", "zh", r"\frac{1}{2}"),
        ("答：小明还剩十二个苹果。", "zh", "十二"),
        ("所以一共有五分之三。", "zh", "五分之三"),
        ("她走了百分之四十", "zh", "百分之四十"),
    ],
)
def test_fallbacks(text, language, answer):
    assert extract(text, language, ALL) == answer


@pytest.mark.parametrize("gold", ["12", "-7", "3.5", "3/4", "4/10", "40%", "1000", "105"])
@pytest.mark.parametrize(
    "shape",
    [
        r"$\boxed{G}$", "答案是G。", "答案是G个。", "所以一共有G个。", "答：一共有G个苹果。", "**G**", r"\boxed{G个}",
        r"\boxed{G\text{ 个}}",
    ],
)  # fmt: skip
def test_chinese_shapes(gold, shape):
    right, wrong = shape.replace("G", gold), shape.replace("G", "86421")
    assert grade_math(right, gold, "zh", extraction=ALL).correct
    assert not grade_math(wrong, gold, "zh", extraction=ALL).correct


def test_gold_of_a_solution():
    solution = r"First \boxed{3}, or rather $\boxed{\frac{1}{2}}$ and again \boxed{3}."
    assert last_boxed(solution) == "3"
    assert differing_boxes(solution) == ["3", r"\frac{1}{2}"]
    assert last_boxed("no box") is None


def test_split_elements():
    assert split_elements(r"\{1,2\}, [3,4) \text{ or } \frac{1}{2}") == [r"\{1,2\}", "[3,4)", r"\frac{1}{2}"]
    assert split_elements("") == []


def test_unknown_options_are_named():
    with pytest.raises(ValueError, match="language: found 'fr'"):
        extract("x", "fr")
    with pytest.raises(ValueError, match=r"extraction: found \['guess'\]"):
        extract("x", "en", ("guess",))
