"""Goals reject near misses: one wrong field, one field too many, one thing missing."""

from __future__ import annotations

import copy
import json

import pytest

from marft_envs.tasks.tools.goals import changes, find, grade_state
from tests.marft_envs.tasks.worlds.world_games import NAMES, SETS, after, cached_tasks, rows


def solved(grade):
    return all(grade.met.values()) and not grade.spoilt


def near(value):
    """Return a value that is a little wrong."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return value + "x" if isinstance(value, str) else [*value, "x"]


def leaves(table, path=()):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def put(state, path, value):
    changed = copy.deepcopy(state)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize("number", [4, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("world", "split"), SETS)
def test_one_wrong_field_anywhere_is_not_solved(world, split, number):
    """Every leaf of the final state, goal or not, is changed in turn."""
    for task in list(cached_tasks(f"embedded:{world}", split))[:number]:
        final = json.loads(after(task, task.reference))
        assert solved(grade_state(task.goal, task.state, final)), task.id
        for path, value in leaves(final):
            grade = grade_state(task.goal, task.state, put(final, path, near(value)))
            assert not solved(grade), (task.id, path)


@pytest.mark.parametrize("world", NAMES)
def test_a_record_too_many_or_too_few_is_not_solved(world):
    for task in list(cached_tasks(f"embedded:{world}", "test"))[:12]:
        final = json.loads(after(task, task.reference))
        for table, records in final.items():
            more = put(final, (table, "X1"), {"price": 1})
            assert not solved(grade_state(task.goal, task.state, more)), (task.id, table)
            for id in records:
                less = copy.deepcopy(final)
                del less[table][id]
                assert not solved(grade_state(task.goal, task.state, less)), (task.id, table, id)


@pytest.mark.parametrize(("world", "split"), SETS)
def test_no_goal_is_reached_at_the_start_and_each_is_a_change(world, split):
    for task in cached_tasks(f"embedded:{world}", split):
        grade = grade_state(task.goal, task.state, task.state)
        assert not any(grade.met.values()), task.id
        final = json.loads(after(task, task.reference))
        changed = list(changes(task.state, final))
        for goal in (*task.goal.values, *task.goal.gone):
            assert any(path == goal or path.startswith(f"{goal}/") for path in changed), (task.id, goal)


@pytest.mark.parametrize(("world", "split"), SETS)
def test_the_request_names_no_record_that_has_to_be_found(world, split):
    """The ids of orders, tickets, flights, ... come from tools; prices, too."""
    if world == "lookup":
        for task in cached_tasks("embedded:lookup", split):
            assert not any(character.isdigit() for character in task.prompt)
        return
    for row in rows(world, split):
        found = [id for records in row["database"].values() for id in records if id[1:].isdigit()]
        assert found
        assert not any(id in row["instruction"] for id in found), row["id"]


def test_a_goal_that_is_gone_is_found_gone():
    task = next(task for task in cached_tasks("embedded:desk", "train") if task.goal.gone)
    assert all(find(json.loads(after(task, task.reference)), path) != find(task.state, path) for path in task.goal.gone)


@pytest.mark.parametrize("world", NAMES)
def test_there_are_enough_tasks_of_each_difficulty(world):
    count = {split: len(cached_tasks(f"embedded:{world}", split)) for split in ("train", "test")}
    assert sum(count.values()) >= 60
    for split in count:
        assert {task.meta["difficulty"] for task in cached_tasks(f"embedded:{world}", split)} == {1, 2, 3}
