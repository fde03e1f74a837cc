"""PlanCraft: gold plans craft the target, impossible tasks want `impossible:`, other data is refused."""

from __future__ import annotations

import copy
import dataclasses
from functools import cache, partial

import pytest

import marft_envs
from baselines.experiment.gold_answers import gold_answer, oracle_of
from envs_data.packages import PackageError
from marft_envs.game.task import UnknownTaskError
from marft_envs.plugins.plancraft import crafting, tasks
from marft_envs.plugins.plancraft.tasks import CraftingTasks
from marft_envs.testing import check_environment

TRAIN = "marft/plancraft_solo-v0"


@cache
def train():
    return CraftingTasks("train")


def first(impossible):
    return next(place for place in range(len(train())) if train().is_impossible(place) == impossible)


def begun(index, name=TRAIN, **keywords):
    env = marft_envs.make(name, data=train(), **keywords)
    env.reset(seed=0, options={"index": index})
    return env


@pytest.mark.parametrize("team", ["solo", "duo"])
def test_the_gold_plan_wins_within_the_horizon(team):
    env = marft_envs.make(f"marft/plancraft_{team}-v0", data=train())
    oracle = oracle_of(env)
    for index in (*range(0, len(train()), 80), first(impossible=True)):
        env.reset(seed=0, options={"index": index})
        for agent in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else oracle(env.unwrapped, agent, observation))
        record = env.unwrapped.episode()
        assert record.success, (record.task_id, [turn.action for turn in record.turns])
        assert sum(record.rewards) == 1.0
        assert not any(outcome.invalid for outcome in record.outcomes)


def test_the_duo_conforms():
    report = check_environment(partial(marft_envs.make, "marft/plancraft_duo-v0", data=train()), cycles=10)
    assert report.passed, str(report)


def test_the_splits_are_those_of_the_package():
    assert [len(CraftingTasks(split)) for split in tasks.FILES] == [1145, 570, 580]
    assert sum(train().is_impossible(place) for place in range(len(train()))) == 200
    with pytest.raises(ValueError, match="found the split 'dev', wanted one of train, val, test"):
        CraftingTasks("dev")
    with pytest.raises(UnknownTaskError, match="did you mean TRAIN1001"):
        train().index("TRAIN001")


def test_other_data_is_refused(monkeypatch):
    monkeypatch.setitem(tasks.FILES, "test", "0" * 64)
    with pytest.raises(PackageError, match=r"test\.json: found data with SHA-256 e2359f60.*plancraft==0\.4\.9"):
        CraftingTasks("test")


def test_a_package_without_what_it_needs_is_named(monkeypatch):
    monkeypatch.setattr(tasks, "PACKAGE", dataclasses.replace(tasks.PACKAGE, needs=("no_such_module", "json")))
    with pytest.raises(PackageError, match=r"plancraft is installed, but no_such_module is not: .*\[plancraft\]"):
        CraftingTasks()


def test_impossible_ends_the_task_and_wins_only_there():
    for impossible in (True, False):
        env = begun(first(impossible))
        env.step("impossible: there is no iron")
        assert env.terminations == {"actor_0": True}
        assert env.infos["actor_0"]["success"] == env.rewards["actor_0"] == impossible


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("I do not know.", "Write one action: move:, smelt:, search: or impossible:"),
        ("move: from [I1] to [0] with quantity 1", "You cannot move items into [0]"),
        ("move: it", "Correct format: `move: from [Source] to [Target] with quantity N`"),
        (f"move: from [I1] to [A1] with quantity {'9' * 5000}", "Format Error"),
    ],
)
def test_unreadable_actions_are_told_and_change_nothing(action, told):
    env = begun(0)
    before = copy.deepcopy(env.unwrapped.session.slots)
    env.step(action)
    assert told in env.observe("actor_0")
    assert env.infos["actor_0"]["invalid"] == 1
    assert env.unwrapped.session.slots == before


def test_an_action_against_the_rules_changes_nothing():
    env = begun(0)
    before = copy.deepcopy(env.unwrapped.session.slots)
    env.step("move: from [A1] to [B1] with quantity 3")
    assert env.unwrapped.session.slots == before
    assert env.infos["actor_0"]["invalid"] == 0


def test_crafting_uses_up_what_is_in_the_grid():
    slots = {10: {"type": "diorite", "quantity": 2}, 11: {"type": "cobblestone", "quantity": 1}}
    said = (
        "move: from [I1] to [B1] with quantity 2",
        "move: from [I2] to [B2] with quantity 1",
        "move: from [0] to [I9] with quantity 1",
    )
    ingredients = []
    for text in said:
        slots, ingredients = crafting.apply(crafting.read_action(text), slots, ingredients)
    assert slots == {4: {"type": "diorite", "quantity": 1}, 18: {"type": "andesite", "quantity": 2}}


def test_recipes_can_be_searched():
    env = begun(0)
    env.step("<think>move: or search: x?</think>search: iron_ingot")
    assert "Recipes of iron_ingot:\n" in env.observe("actor_0")
    assert "smelt iron_ore" in env.observe("actor_0")
    assert crafting.recipes_of("no_such_item") == "There is no recipe of no_such_item."
    assert "cobblestone at [A1], stick at [B1], stick at [C1]" in crafting.recipes_of("stone_shovel")


def test_the_last_answering_agent_acts_and_the_planner_does_not():
    env = begun(first(impossible=True), "marft/plancraft_duo-v0")
    env.step("impossible: I think")
    assert not env.terminations["actor_0"]
    env.step(gold_answer(env.unwrapped))
    assert env.infos["planner_0"]["success"] == 1


def test_other_data_sets_are_refused():
    with pytest.raises(ValueError, match=r"plancraft: found data='x\.json', wanted 'embedded'"):
        marft_envs.make(TRAIN, data="x.json")
