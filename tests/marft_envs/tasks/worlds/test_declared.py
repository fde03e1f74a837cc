"""Worlds that a data file declares: tools as data, and what is refused."""

import json
from functools import partial

import pytest

import marft_envs
from envs_data import DataError
from marft_envs.tasks.worlds import play, script
from marft_envs.testing import check_environment

OBJECT = {"type": "object", "additionalProperties": False}
WARE = {"ware": {"type": "string"}}
READ = {
    "name": "price_of",
    "description": "Read a price.",
    "parameters": {**OBJECT, "required": ["ware"], "properties": WARE},
    "returns": "wares/{ware}/price",
}
SELL = {
    "name": "sell",
    "description": "Sell a ware.",
    "parameters": {**OBJECT, "required": ["ware", "price"], "properties": {**WARE, "price": {"type": "integer"}}},
    "sets": {"wares/{ware}/sold": True, "wares/{ware}/paid": "{price}"},
}
SALE = {
    "id": "sale",
    "world": "stall",
    "instruction": "Sell the pear/plum at its price.",
    "database": {"wares": {"pear/plum": {"price": 7, "sold": False, "paid": 0}}},
    "goal": {"wares": {"pear/plum": {"sold": True, "paid": 7}}},
    "calls": [
        {"tool": "price_of", "arguments": {"ware": "pear/plum"}},
        {"tool": "sell", "arguments": {"ware": "pear/plum", "price": 7}},
    ],
}


def written(folder, *rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def world(*tools, name="stall"):
    return {"world": name, "tools": list(tools)}


def game(path, **keywords):
    env = marft_envs.make("marft/tools_solo", data=path, **keywords)
    env.reset(seed=0)
    return env


def test_the_reference_solves_a_task_of_a_declared_world(tmp_path):
    env = game(written(tmp_path, world(READ, SELL), SALE))
    assert play(env, script(env)).success
    assert set(env.unwrapped.tasks.surface.owned) == {"stall"}
    shown = env.unwrapped.tasks.surface.opening("stall", "agent_0")
    assert "sell(ware: string, price: integer): Sell a ware." in shown


def test_a_declaration_may_stand_in_the_row_of_a_task(tmp_path):
    path = written(tmp_path, {**SALE, "tools": [READ, SELL]}, {**SALE, "id": "again", "tools": [READ, SELL]})
    assert len(game(path).unwrapped.tasks) == 2


def test_a_game_of_a_declared_world_conforms(tmp_path):
    path = written(tmp_path, world(READ, SELL), SALE)
    report = check_environment(partial(marft_envs.make, "marft/tools_solo-v0", data=path), cycles=5)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('price_of(ware="fig")', "wares has no 'fig'"),
        ('price_of(ware="pear/plum")', "Result of price_of: 7"),
        ('sell(ware="pear/plum", price="7")', "wanted integer"),
        ('sell(ware="pear/plum", price=7)', 'Result of sell: "done"'),
    ],
)
def test_what_an_agent_is_told_of_a_call(tmp_path, call, said):
    env = game(written(tmp_path, world(READ, SELL), SALE))
    env.step(call)
    assert said in str(env.observe("agent_0"))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (world(READ, name="shop"), "tools of the world 'shop', wanted a name other than lookup, shop"),
        (world(READ, name=""), "tools of the world '', wanted its name"),
        ({"world": "stall", "tools": {"name": "x"}}, "wanted a list of objects"),
        (world({**READ, "run": "rm"}), "is no object with name, description, parameters, sets, returns"),
        (world({**READ, "returns": 7}), "has other than texts as name, description and returns"),
        (world({**READ, "returns": "wares/{ware}"}), "the path 'wares/{ware}' of price_of is not TABLE/RECORD/FIELD"),
        (world({**SELL, "sets": {"wares/{kind}/sold": 1}}), "{kind} is no required parameter of sell"),
        (world({**READ, "parameters": {"type": "objekt"}}), "its schema is no JSON Schema"),
        (world(READ, READ), "two tools 'price_of', wanted each name once"),
    ],
)
def test_what_declares_no_world_is_refused_with_its_place(tmp_path, declared, message):
    with pytest.raises(DataError, match=r"rows\.jsonl:1: found") as refused:
        game(written(tmp_path, declared, SALE))
    assert message in str(refused.value)


def test_two_declarations_of_one_world_are_refused(tmp_path):
    with pytest.raises(DataError, match="other tools of the world 'stall', wanted one declaration"):
        game(written(tmp_path, world(READ, SELL), world(READ), SALE))
