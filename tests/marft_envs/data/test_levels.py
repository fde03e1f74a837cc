"""`level=`: one key for every family, in the tasks that are played and in their properties."""

import json

import pytest

import marft_envs
from envs_data import DataError

HOUSE = {"type": "object", "required": ["room"], "properties": {"room": {"type": "string"}}}
SWITCH = {"name": "switch", "description": "Switch on.", "parameters": HOUSE, "sets": {"lamps/{room}/on": True}}
ROWS = {
    "math": {"question": "What is 2 + 2?", "answer": "4"},
    "cmath": {"question": "2加2等于多少？", "golden": "4"},
    "codeforces": {"description": "Print 4.", "official_tests": [{"input": "1\n", "output": "4\n"}]},
    "tools": {
        "world": "home",
        "tools": [SWITCH],
        "instruction": "Switch on the lamp of the barn.",
        "database": {"lamps": {"barn": {"on": False}}},
        "goal": {"lamps": {"barn": {"on": True}}},
        "calls": [{"tool": "switch", "arguments": {"room": "barn"}}],
    },
}


@pytest.fixture(params=ROWS)
def env_of(request, tmp_path):
    """Return a function that makes the environment of a family with problems of the levels 1, 2 and 3."""
    path = tmp_path / "rows.jsonl"
    rows = [{"id": f"at-{level}", **ROWS[request.param], "level": level} for level in (1, 2, 3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return lambda **keywords: marft_envs.make(f"marft/{request.param}_solo", data=path, **keywords).unwrapped


@pytest.mark.parametrize(
    ("level", "there"), [(None, [1, 2, 3]), (2, [2]), ("2", [2]), ([1, 3], [1, 3]), ("1, 3", [1, 3])]
)
def test_a_level_chooses_problems_and_is_their_property(env_of, level, there):
    tasks = env_of(level=level).tasks
    assert [tasks[place].meta["level"] for place in range(len(tasks))] == there


@pytest.mark.parametrize("level", [4, "1,4", [4, 1]])
def test_a_level_that_does_not_exist_is_refused(env_of, level):
    with pytest.raises(DataError, match=r"rows\.jsonl, split train: found level '4', wanted one of 1, 2, 3"):
        env_of(level=level)


def test_data_without_levels_say_so():
    with pytest.raises(DataError, match="found level '1', wanted none, as its problems have no level"):
        marft_envs.make("marft/gsm8k_solo", level=1)


def test_levels_of_published_sets_are_chosen_too():
    tasks = marft_envs.make("marft/math_solo", level=5).unwrapped.tasks
    assert {tasks[place].meta["level"] for place in range(len(tasks))} == {5}
