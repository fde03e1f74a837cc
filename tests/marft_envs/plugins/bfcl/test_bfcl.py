"""The Berkeley Function Calling Leaderboard: its own possible answers score 1.0, others do not."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import json
import pickle

import pytest

import marft_envs
from baselines.cli.main import main
from envs_data.packages import PackageError
from marft_envs import FlexMG
from marft_envs.game.episode import Episode
from marft_envs.plugins.bfcl import files, load
from marft_envs.plugins.bfcl.checker import check_calls, gold_calls
from marft_envs.plugins.bfcl.files import SINGLE_TURN, json_schema, read
from marft_envs.plugins.bfcl.multi_turn import MultiTurnTasks
from marft_envs.plugins.bfcl.single_turn import BfclTasks
from marft_envs.plugins.bfcl.stateful import reference
from marft_envs.records.replay import replay
from marft_envs.tasks.tools.calls import Call
from tests.helpers.copied_package import copied_package, flip_byte
from tests.helpers.needed_package import needed_package
from tests.helpers.toy_bank import call, events_of, team_of

needed_package("bfcl_eval", files.PACKAGE.install)
SOLO = team_of(caller_0=("*",))
DUO = team_of(planner_0=(), caller_0=("*",))


def as_json(calls: list[Call]) -> str:
    return json.dumps([{"name": one.name, "arguments": one.arguments} for one in calls]) if calls else "None fits."


def as_python(calls: list[Call]) -> str:
    written = (
        f"{one.name}({', '.join(f'{name}={value!r}' for name, value in one.arguments.items())})" for one in calls
    )
    return f"[{', '.join(written)}]" if calls else "None fits."


def as_tags(calls: list[Call]) -> str:
    return "".join(call(one.name, **one.arguments) for one in calls)


@pytest.mark.parametrize("category", SINGLE_TURN)
def test_its_own_possible_answers_score_one(category: str):
    tasks = BfclTasks(category).for_team(SOLO)
    assert len(tasks) == len(read(category)) > 10
    for place, entry in enumerate(read(category)):
        gold = gold_calls(entry.functions, entry.truth)
        for form in (as_json, as_python, as_tags):
            assert tasks.grade(place, form(gold)) == ("", True), entry.id
        wrong = [Call(one.name, {**one.arguments, "surplus": 1}) for one in gold] or [Call("f")]
        assert tasks.grade(place, as_json(wrong))[0], entry.id
        assert tasks.grade(place, "<tool_call>")[0]
        assert bool(tasks.grade(place, "I do not know.")[0]) == bool(gold)


FUNCTION = {
    "name": "f",
    "parameters": {
        "type": "dict",
        "properties": {
            "s": {"type": "string"},
            "x": {"type": "float"},
            "l": {"type": "array", "items": {"type": "integer"}},
            "d": {"type": "dict"},
            "m": {"type": "array", "items": {"type": "dict"}},
        },
        "required": ["s"],
    },
}
ANSWER = {
    "f": {
        "s": ["New York, NY", "NYC"],
        "x": [1.5, 2, ""],
        "l": [[1, 2], ""],
        "d": [{"a": ["x", "y"], "b": [1, ""]}, ""],
        "m": [[{"a": [1]}, {"a": [2]}], ""],
    }
}


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"s": "new york ny"}, True),
        ({"s": "Boston"}, False),
        ({}, False),
        ({"s": "NYC", "x": 2}, True),
        ({"s": "NYC", "x": 2.0}, True),
        ({"s": "NYC", "x": "2"}, False),
        ({"s": "NYC", "x": 3}, False),
        ({"s": "NYC", "l": [1, 2]}, True),
        ({"s": "NYC", "l": [2, 1]}, False),
        ({"s": "NYC", "l": ["1", "2"]}, False),
        ({"s": "NYC", "d": {"a": "Y"}}, True),
        ({"s": "NYC", "d": {"a": "y", "b": 1}}, True),
        ({"s": "NYC", "d": {"b": 1}}, False),
        ({"s": "NYC", "d": {"a": "y", "c": 1}}, False),
        ({"s": "NYC", "m": [{"a": 1}, {"a": 2}]}, True),
        ({"s": "NYC", "m": [{"a": 2}, {"a": 1}]}, False),
        ({"s": "NYC", "m": [{"a": 1}]}, False),
        ({"s": "NYC", "z": 1}, False),
    ],
)
def test_arguments_are_held_against_the_possible_values(arguments: dict[str, object], right: bool):
    assert (check_calls([FUNCTION], [Call("f", arguments)], [ANSWER]) == "") == right


def test_calls_are_counted_and_matched_in_any_order():
    functions = [{**FUNCTION, "name": name} for name in "fg"]
    possible = [{"f": {"s": ["a"]}}, {"g": {"s": ["b"]}}]
    f, g = Call("f", {"s": "a"}), Call("g", {"s": "b"})
    assert check_calls(functions, [g, f], possible) == ""
    assert "1 calls, wanted 2" in check_calls(functions, [f], possible)
    assert check_calls(functions, [f, f], possible)
    assert "'x' is missing" in check_calls(functions, [f], [{"f": {"s": ["a"], "x": [1.0]}}])
    assert check_calls(functions, [f], [{"f": {"s": ["a"], "x": [1.0, ""]}}]) == ""
    assert check_calls(functions, [f, Call("h", {"s": "b"})], possible)


def test_schemas_become_json_schema():
    assert json_schema(FUNCTION["parameters"])["properties"] == {
        "s": {"type": "string"},
        "x": {"type": "number"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "d": {"type": "object"},
        "m": {"type": "array", "items": {"type": "object"}},
    }
    assert json_schema({"type": "any", "description": "All."}) == {"description": "All."}


def test_a_question_is_a_game_of_one_answer():
    tasks = BfclTasks("simple_python", "irrelevance").for_team(DUO)
    game = FlexMG(tasks, DUO)
    game.reset(seed=0, options={"index": 0})
    assert "Your tools" in game.observe("caller_0")
    assert "Your tools" not in game.observe("planner_0")
    entry = read("simple_python")[0]
    game.step(as_json(gold_calls(entry.functions, entry.truth)))  # the planner's calls do not count
    game.step("Done.")
    assert game.episode().terminated
    assert not game.episode().success
    game.reset(seed=0, options={"index": 0})
    game.step("Use the first function.")
    game.step(as_tags(gold_calls(entry.functions, entry.truth)))
    assert game.episode().success


def play_reference(game: FlexMG, place: int, upto: int | None = None) -> FlexMG:
    for turn in reference("multi_turn_base", place)[:upto]:
        for name, arguments in turn:
            game.step(call(name, **arguments))
        game.step("That is done.")
    return game


def multi_turn_game(place: int) -> FlexMG:
    game = FlexMG(MULTI, SOLO, horizon=40)
    game.reset(seed=0, options={"index": place})
    return game


MULTI = MultiTurnTasks().for_team(SOLO)


def test_the_reference_of_every_multi_turn_entry_scores_one():
    assert len(MULTI) == 200
    for place in range(len(MULTI)):
        record = play_reference(multi_turn_game(place), place).episode()
        assert (record.success, sum(record.rewards)) == (True, 1.0), MULTI[place].id


def test_a_wish_that_is_not_met_ends_the_episode():
    first = play_reference(multi_turn_game(0), 0, upto=1)
    assert not first.episode().terminated
    assert MULTI.wish(0, 1) in first.observe("caller_0")
    for said, fault in (
        ("Done.", "nothing was called"),
        (call("mkdir", dir_name="other"), "the state differs in Gorilla"),
    ):
        game = copy.deepcopy(first)
        game.step(said)
        if not game.episode().terminated:
            game.step("Done.")
        outcome = game.episode().outcomes[-1]
        assert (outcome.terminated, outcome.success, outcome.reward) == (True, False, 0.25)
        assert fault in outcome.detail["fault"]


def test_results_must_be_obtained():
    game = multi_turn_game(1)  # its first wish is to list files, which changes nothing
    game.step(call("pwd"))
    game.step("Done.")
    assert "results of the reference were not obtained" in game.episode().outcomes[-1].detail["fault"]


def test_control_can_be_handed_over_between_the_calls():
    team = team_of({"kind": "handoff"}, planner_0=("*",), caller_0=("*",))
    game = FlexMG(MultiTurnTasks().for_team(team), team, horizon=40)
    game.reset(seed=0, options={"index": 0})
    pass_on = {"planner_0": call("hand_off", to="caller_0"), "caller_0": call("hand_off", to="planner_0")}
    for made in reference("multi_turn_base", 0):
        calls = "".join(call(name, **arguments) for name, arguments in made)
        game.step(calls + pass_on[game.agent_selection] * 2)
        game.step("Done.")
    assert game.episode().success
    passes = [event for event in events_of(game) if event["kind"] == "hand_off"]
    assert len(passes) == len(reference("multi_turn_base", 0))


def test_only_the_functions_of_an_entry_can_be_called():
    game = multi_turn_game(0)
    game.step(call("cp", source="a", destination="b") + call("_load_scenario", scenario={}) + call("pwd", why=1) + "")
    assert [event["status"] for event in events_of(game)] == ["unknown", "unknown", "error"]
    assert "excluded" not in game.observe("caller_0")


def test_a_copy_goes_on_alone_and_a_record_replays():
    game = play_reference(multi_turn_game(0), 0, upto=2)
    for clone in (copy.deepcopy(game), pickle.loads(pickle.dumps(game))):
        clone.step(call("mkdir", dir_name="other"))
        clone.step("Done.")
        assert clone.episode().terminated
    assert not game.episode().terminated
    record = Episode.from_json(play_reference(multi_turn_game(0), 0).episode().to_json())
    assert replay(multi_turn_game(0), record) == []


def test_categories_are_loaded_by_name():
    assert len(load()) == 400
    assert len(load("multiple+parallel")) == 400
    assert load("multi_turn_base").name == "bfcl_multi_turn"
    for given, message in (
        (("web_search",), "wanted one of simple_python"),
        (("parallel", "train"), "found the split"),
    ):
        with pytest.raises(ValueError, match=message):
            load(*given)


def test_the_leaderboard_is_registered_with_every_team():
    for team in ("solo", "octet"):
        game = marft_envs.make(f"marft/bfcl_{team}", data="embedded:parallel").unwrapped
        game.reset(seed=0)
        assert len(game.tasks) == 200
        assert [agent for agent in game.agents if "Your tools" in game.observe(agent)] == ["caller_0"]
    with pytest.raises(ValueError, match="found the split 'train', wanted 'test'"):
        marft_envs.make("marft/bfcl_duo-v0", split="train")


def test_without_the_package_the_ids_are_listed_and_making_one_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    read.cache_clear()
    assert main(["envs", "--json"]) == 0
    assert "marft/bfcl_duo-v0" in capsys.readouterr().out
    assert main(["play", "marft/bfcl_duo-v0"]) == 1
    said = capsys.readouterr().err
    assert "optional package bfcl-eval" in said
    assert "pip install --no-deps bfcl-eval==2026.3.23" in said


def test_a_changed_byte_is_refused_until_it_is_restored(tmp_path, monkeypatch):
    read.cache_clear()
    copy = copied_package(files.PACKAGE, tmp_path, monkeypatch)
    for category, name in (
        ("parallel", "data/BFCL_v4_parallel.json"),
        ("parallel", "data/possible_answer/BFCL_v4_parallel.json"),
        ("multi_turn_base", "data/multi_turn_func_doc/math_api.json"),
        ("multi_turn_base", "eval_checker/multi_turn_eval/func_source_code/math_api.py"),
    ):
        told = (
            rf"bfcl-eval 2026\.3\.23 in {copy}: found files with SHA-256 \w{{64}}, wanted {files.SHA256[category]}: .*"
            r"pip install --force-reinstall --no-deps bfcl-eval==2026\.3\.23$"
        )
        before = flip_byte(copy / name)
        with pytest.raises(PackageError, match=told):
            load(category)
        (copy / name).write_bytes(before)
    (copy / "data/possible_answer/BFCL_v4_live_simple.json").unlink()
    with pytest.raises(PackageError, match=rf"wanted {files.SHA256['live_simple']}"):
        load("live_simple")
    assert [len(load(category)) for category in ("parallel", "multi_turn_base")] == [200, 200]


def test_another_version_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(files, "PACKAGE", dataclasses.replace(files.PACKAGE, version="2025.1.1"))
    read.cache_clear()
    assert main(["play", "marft/bfcl_duo-v0"]) == 1
    assert "found bfcl-eval 2026.3.23, wanted 2025.1.1" in capsys.readouterr().err


def test_each_category_has_a_hash():
    assert set(files.SHA256) == {*files.SINGLE_TURN, *files.MULTI_TURN}
