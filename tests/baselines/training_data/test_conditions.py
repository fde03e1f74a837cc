"""`--where`: decided as Python decides, and nothing of it is executed."""

import pytest

from baselines.training_data.conditions import Condition, ConditionError

FACTS = {
    "success": True,
    "violation": False,
    "reward": 0.5,
    "level": 4,
    "task": "shop-1",
    "terms": {"completion": 1.0, "steps": 3.0},
    "grade": None,
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("success and not violation", True),
        ("success and violation", False),
        ("violation or reward >= 0.5", True),
        ("0 < reward <= 0.5", True),
        ("0 < reward < 0.5", False),
        ("level in (4, 5)", True),
        ("level not in [4, 5]", False),
        ("'shop' in task", True),
        ("terms.completion == 1 and terms['steps'] > 2", True),
        ("terms.absent == None", True),
        ("reward > -1", True),
        ("grade < 3", False),
        ("grade >= 3", False),
        ("grade is None", True),
        ("True", True),
    ],
)
def test_a_condition_decides(text, holds):
    assert Condition.read(text).holds(FACTS) is holds


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('echo')",
        "open('x')",
        "success.__class__.__mro__",
        "terms[0]",
        "[x for x in task]",
        "(lambda: 1)()",
        "reward ** 9 ** 9",
        "reward + 1 > 0",
        "f'{task}'",
        "task if success else 1",
        "-task",
        "success = 1",
        "",
        "success and",
        "x" * 2000,
        "(" * 300 + "1" + ")" * 300,
    ],
)
def test_other_code_is_refused(text):
    with pytest.raises(ConditionError, match="wanted"):
        Condition.read(text)


def test_a_name_that_no_episode_has_is_refused_with_close_ones():
    with pytest.raises(ConditionError, match=r"no episode has 'sucess'; did you mean success\?"):
        Condition.read("sucess").check_names(FACTS)
    Condition.read("success and terms.x").check_names(FACTS)


def test_values_of_different_kinds_have_no_order():
    with pytest.raises(ConditionError, match="task < 3"):
        Condition.read("task < 3").holds(FACTS)
