"""Loading tasks of the worlds: embedded, by world and split, and from files."""

from __future__ import annotations

import csv
import json

import pyarrow
import pytest
from pyarrow import parquet

import marft_envs
from envs_data import DataError
from marft_envs.tasks.worlds import load
from marft_envs.tasks.worlds.task_loading import load_tasks
from tests.marft_envs.tasks.worlds.world_games import NAMES, SAFE, rows

ROW = {
    "id": "mine-1",
    "world": "lookup",
    "instruction": "Write 7 on the label of the pear.",
    "database": {"prices": {"pear": {"price": 7}}, "labels": {"pear": {"price": 0}}},
    "goal": {"labels": {"pear": {"price": 7}}},
    "calls": [{"tool": "write_label", "arguments": {"ware": "pear", "price": 7}}],
}


def test_embedded_mixes_all_worlds():
    assert {task.world for task in load()} == set(NAMES)
    assert {task.world for task in load(split="safety")} == set(SAFE)
    assert len(load(split="test")) == sum(len(rows(name, "test")) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_one_world(name):
    tasks = load(f"embedded:{name}", "test")
    assert {task.world for task in tasks} == {name}
    assert [task.id for task in tasks] == [f"{name}-test-{number:04d}" for number in range(1, len(tasks) + 1)]


def test_what_is_not_there_is_named():
    with pytest.raises(DataError, match="found world 'bank', wanted one of lookup, shop, desk, travel"):
        load("embedded:bank")
    with pytest.raises(DataError, match="found split 'dev', wanted"):
        load("embedded", "dev")
    with pytest.raises(DataError, match="found split 'safety', wanted one of train, test"):
        load("embedded:lookup", "safety")
    with pytest.raises(DataError, match=r'no such file or folder, wanted "embedded", .* or a path'):
        load("nowhere.jsonl")


def test_own_tasks_from_a_file(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    env = marft_envs.make("marft/tools_solo-v0", data=str(path))
    env.reset(seed=0)
    env.step('write_label(ware="pear", price=7)\nfinish()')
    assert env.unwrapped.episode().success


NESTED = ("database", "goal", "calls")
AS_TEXT = ROW | {name: json.dumps(ROW[name]) for name in NESTED}


class LocalHub:
    """The two functions of `datasets`, for one set of one configuration."""

    def __init__(self, *rows):
        self.rows = rows

    def get_dataset_config_names(self, path, *, revision):
        return ["default"]

    def load_dataset(self, path, name, *, revision):
        return {"train": self.rows}


def test_own_tasks_from_the_hub():
    tasks = load_tasks("hub:owner/name", hub=lambda: LocalHub(AS_TEXT, AS_TEXT | {"id": "mine-2"}))
    assert [task.id for task in tasks] == ["mine-1", "mine-2"]
    assert tasks[0].state == ROW["database"]
    assert tasks[0].goal.values == {"labels/pear/price": 7}
    assert [call.name for call in tasks[0].reference] == ["write_label"]
    with pytest.raises(DataError, match="found splits: train, wanted split 'test'"):
        load_tasks("hub:owner/name", "test", hub=lambda: LocalHub(AS_TEXT))


def test_own_tasks_from_every_kind_of_file(tmp_path):
    header, cells = list(AS_TEXT), list(AS_TEXT.values())
    with (tmp_path / "mine.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, cells])
    parquet.write_table(pyarrow.Table.from_pylist([AS_TEXT]), tmp_path / "mine.parquet")
    (tmp_path / "mine.json").write_text(json.dumps([ROW]), encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.jsonl").write_text(json.dumps(AS_TEXT), encoding="utf-8")
    read = [load_tasks(tmp_path / name) for name in ("mine.csv", "mine.parquet", "mine.json", "folder")]
    assert read[0] == read[1] == read[2] == read[3]
    assert read[0][0].state == ROW["database"]


def test_nested_columns_of_a_table_are_refused(tmp_path):
    """Their fields are those of all rows: a database would get null where another has something."""
    other = ROW | {"id": "mine-2", "database": {"prices": {"plum": {"price": 7}}, "labels": {"pear": {"price": 0}}}}
    parquet.write_table(pyarrow.Table.from_pylist([ROW, other]), tmp_path / "mine.parquet")
    with pytest.raises(DataError, match=r"row 1: found database in nested columns, wanted database as JSON text"):
        load(tmp_path / "mine.parquet")
    with pytest.raises(DataError, match="in nested columns"):
        load_tasks("hub:owner/name", hub=lambda: LocalHub(ROW))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"database": "{"}, "found database '{', wanted database as JSON text"),
        ({"calls": "{}"}, "found calls {}, wanted calls as list"),
        ({"world": 3}, r"mine\.jsonl:1: found world 3, wanted world as str"),
        ({"goal": None}, "found goal None, wanted goal as dict"),
        ({"calls": ["finish"]}, 'wanted objects with "tool" and "arguments"'),
        ({"goal": {"lables": {}}}, "found goal in table 'lables', wanted one of prices, labels"),
        ({"goal": {"labels": ["pear"]}}, r"found goal \['pear'\] in 'labels', wanted fields by record id"),
        ({"goal": {"labels": {"pear": 7}}}, r"mine\.jsonl:1: found goal 7 for record 'pear' of 'labels'"),
        ({"forbidden": 5}, "found forbidden 5, wanted a list of patterns"),
    ],
)
def test_a_broken_row_is_named(tmp_path, change, message):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(ROW | change) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load(str(path))


def test_an_answer_may_be_zero_and_what_is_null_is_nothing(tmp_path):
    path = tmp_path / "mine.jsonl"
    for answer, read in ((0, "0"), (None, "")):
        path.write_text(json.dumps(ROW | {"answer": answer, "forbidden": None}) + "\n", encoding="utf-8")
        [task] = load_tasks(path)
        assert (task.answer, task.goal.forbidden) == (read, ())


def test_a_state_that_json_cannot_hold_is_refused_with_its_task(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(ROW | {"database": ROW["database"] | {"x": float("inf")}}) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="task 'mine-1': its state is not plain JSON data"):
        load(path)


def test_a_task_that_is_solved_at_the_start_is_refused(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(ROW | {"goal": {"labels": {"pear": {"price": 0}}}}) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="reached before anything is done"):
        load(str(path))


def test_a_missing_column_is_named(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({key: value for key, value in ROW.items() if key != "goal"}) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="found no column 'goal', wanted goal as dict"):
        load(str(path))


def test_lookup_alone_is_told_by_names_for_small_models():
    env = marft_envs.make("marft/tools_duo-v0", data="embedded:lookup")
    env.reset(seed=0)
    assert "Your tools: read_price, hand_off" in env.observe("reader_0")
    assert "read_price(ware: string)" not in env.observe("reader_0")
    assert load("embedded").listing == load("embedded:shop").listing == "signature"


def test_the_budget_can_be_chosen():
    game = marft_envs.make("marft/tools_solo-v0", data="embedded:lookup", limits={"calls_per_turn": 1})
    game.reset(seed=0, options={"index": 0})
    game.step('read_price(ware="tube")\n' * 2)
    statuses = [event["status"] for event in game.unwrapped.episode().outcomes[0].events]
    assert statuses == ["ok", "refused"]
    assert game.unwrapped.settings["tool_limits"]["calls_per_turn"] == 1
    with pytest.raises(ValueError, match="calls_per_turn is 0, wanted more than 0"):
        load("embedded:lookup", limits={"calls_per_turn": 0})
    with pytest.raises(TypeError, match="calls_a_turn"):
        load("embedded:lookup", limits={"calls_a_turn": 1})


def test_a_listing_can_be_chosen():
    env = marft_envs.make("marft/tools_duo-v0", data="embedded:lookup", listing="schema")
    env.reset(seed=0)
    assert '"parameters"' in env.observe("reader_0")
