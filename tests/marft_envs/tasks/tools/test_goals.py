"""Grading on states."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.goals import Goal, alike, changes, find, follows, grade_state, path_of, same_answer
from marft_envs.tasks.tools.tasks import ToolTask
from tests.helpers.toy_bank import STATE, bank_task

STATES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "/", "~1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/c", "~1", "0"]), inner),
    max_leaves=10,
)


def changed(**paths: object):
    """The bank's state with other values, by path with '__' for '/'."""
    state = copy.deepcopy(STATE)
    for path, value in paths.items():
        *above, last = path.split("__")
        place = state
        for key in above:
            place = place[key]
        place[last] = value
    return state


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": 1}, {"a": "1"}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({"a": None}, {}, ["a"]),
        ({}, {"a": {"b": 1, "c": {}}}, ["a/b", "a/c"]),
        ({"a": {}}, {}, ["a"]),
        ({"a": []}, {"a": [7]}, ["a/0"]),
        ({"a": [1, 2]}, {"a": [2]}, ["a/0", "a/1"]),
        ({"a": {"b": 1}}, {"a": 1}, ["a"]),
        ({"a": {}}, {"a": []}, ["a"]),
        ({"a": [2]}, {"a": {"0": 2}}, ["a"]),
        ({"a": [[]]}, {"a": {"0": {}}}, ["a"]),
        ({"a": [1]}, {"a": (1,)}, ["a"]),
        ({"a": []}, {"a": ()}, ["a"]),
        ({"a": (1, 0)}, {"a": (True, 0)}, ["a/0"]),
        ({"a": 0}, {"a": False}, ["a"]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1.0}, {"a": True}, ["a"]),
        ({"a": None}, {"a": 0}, ["a"]),
        ({"a": None}, {"a": []}, ["a"]),
        ({"a": [None]}, {"a": []}, ["a/0"]),
        ({"a": {"b": None}}, {"a": {}}, ["a/b"]),
        ({"a": ""}, {"a": []}, ["a"]),
        ({"x/y": 1}, {"x/y": 2}, ["x~1y"]),
    ],
)
def test_changes_name_each_leaf(before: object, after: object, paths: list[str]):
    assert list(changes(before, after)) == paths


@settings(deadline=None)
@given(STATES, STATES)
def test_states_are_alike_exactly_where_nothing_changed(one: object, other: object):
    def exact(value: object) -> object:
        if isinstance(value, dict):
            return {key: exact(entry) for key, entry in value.items()}
        return [exact(entry) for entry in value] if isinstance(value, list) else (type(value), value)

    found = list(changes({"root": one}, {"root": other}))
    assert (not found) == (exact(one) == exact(other))
    assert len(set(found)) == len(found)
    assert sorted(found) == sorted(changes({"root": other}, {"root": one}))


def as_object(state: object) -> object:
    """The same state with every list written as an object of its places."""
    if isinstance(state, list):
        state = {str(place): entry for place, entry in enumerate(state)}
    return {key: as_object(entry) for key, entry in state.items()} if isinstance(state, dict) else state


@settings(deadline=None)
@given(STATES)
@example([2])
def test_a_list_and_an_object_of_its_places_are_not_alike(state: object):
    other = as_object(state)
    assert alike(state, other) == (json.dumps(state) == json.dumps(other))


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_path_finds_its_place(keys: list[str]):
    state: object = 7
    for key in reversed(keys):
        state = {key: state}
    assert find(state, path_of(*keys)) == 7


GOAL = Goal({"accounts/A1": 7, "accounts/B2": 8}, gone=("notes/plain",), free=("log/*",), forbidden=("notes/urgent",))


@pytest.mark.parametrize(
    ("after", "met", "spoilt", "violated"),
    [
        ({}, [False, False, True], (), ()),
        ({"accounts__A1": 7}, [True, False, True], (), ()),
        ({"accounts__A1": 7, "accounts__B2": 8, "log": [["x"]]}, [True, True, True], (), ()),
        ({"accounts__A1": 7, "accounts__C3": 1}, [True, False, True], ("accounts/C3",), ()),
        ({"notes__plain": "x"}, [False, False, False], (), ()),
        ({"notes__urgent": "x"}, [False, False, True], ("notes/urgent",), ("notes/urgent",)),
        ({"accounts": {}}, [False, False, True], (), ()),
        ({"log": {}}, [False, False, True], ("log",), ()),
    ],
)
def test_a_state_is_graded_on_goals_and_on_what_else_changed(after, met, spoilt, violated):
    grade = grade_state(GOAL, STATE, changed(**after))
    assert (list(grade.met.values()), grade.spoilt, grade.violated) == (met, spoilt, violated)


def test_a_goal_may_be_a_whole_subtree():
    goal = Goal({"accounts": {"A1": 0, "B2": 15}})
    assert grade_state(goal, STATE, changed(accounts__A1=0, accounts__B2=15)).met == {"accounts": True}
    assert grade_state(goal, STATE, changed(accounts__A1=0, accounts__B2=15, accounts__C=0)).met == {"accounts": False}


@pytest.mark.parametrize(
    ("reference", "made", "part"),
    [("ab", "ab", 1), ("ab", "xaxbx", 1), ("ab", "ba", 0.5), ("abcd", "acbd", 0.75), ("ab", "", 0), ("", "ab", 0)],
)
def test_following_is_the_longest_common_subsequence(reference: str, made: str, part: float):
    assert follows([Call(name) for name in reference], [Call(name) for name in made]) == part


@pytest.mark.parametrize(
    ("given", "gold", "same"),
    [
        ("7", "7.0", True),
        ("1,200.50", "1200.5", True),
        (" Gold. ", "gold", True),
        ("7", "8", False),
        ("", "0", False),
        ("the answer is 7", "7", False),
        ("1,2", "12", False),
        ("9999999999999999", "9999999999999998", False),
        ("inf", "1e999", False),
        ("snan", "1", False),
    ],
)
def test_answers_are_compared_as_numbers_or_words(given: str, gold: str, same: bool):
    assert same_answer(given, gold) == same


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"goal": Goal({"accounts/A1": 10})}, "'accounts/A1' = 10 is reached before"),
        ({"goal": Goal({}, gone=("accounts/Z9",))}, "'accounts/Z9' is gone is reached before"),
        ({"state": {"a": (1, 2)}, "goal": Goal({})}, "'a' of its state is not plain"),
        ({"state": {1: 2}, "goal": Goal({})}, "'1' of its state is not plain"),
    ],
)
def test_tasks_that_prove_nothing_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        bank_task(**fields).check()


def test_copies_of_a_task_are_the_task():
    task: ToolTask = bank_task()
    assert copy.deepcopy(task) is task
