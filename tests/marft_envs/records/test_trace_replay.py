from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from marft_envs import Episode, replay
from marft_envs.dependency import full, routed
from tests.helpers.toy_games import play_out, toy_game

KINDS = {
    "chain": {"horizon": 2},
    "verdict": {"horizon": 3, "feedback": "verdict", "dependency": full(delayed="all")},
    "last": {"horizon": 3, "communication": "last", "dependency": full()},
    "routed": {"horizon": 2, "dependency": routed(by="a_0")},
    "short": {"max_action_chars": 5},
}


def recorded(kind: str, actions: list[str], seed: int = 5):
    said = iter(actions * 20)
    env = OrderEnforcingWrapper(toy_game("a_0", "b_0", "c_0", **KINDS[kind]))
    env.reset(seed=seed)
    play_out(env, lambda agent: next(said))
    return env.unwrapped.episode()


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.text(alphabet=st.characters(exclude_categories=())), min_size=1, max_size=9),
    st.integers(0, 2**32 - 1),
)
def test_a_record_rebuilds_every_observation(kind: str, actions: list[str], seed: int):
    record = recorded(kind, actions, seed)
    read = Episode.from_json(record.to_json())
    assert read == record
    game = toy_game("a_0", "b_0", "c_0", **KINDS[kind])
    assert replay(game, read) == []
    assert [turn.observation for turn in game.episode().turns] == [turn.observation for turn in record.turns]
    assert replay(OrderEnforcingWrapper(game), replace(read, seed=None)) == []  # the task id is enough


def test_a_record_says_how_it_went():
    record = recorded("chain", ["I think 6", "ok", "\\boxed{0}"])
    assert [turn.agent for turn in record.turns] == ["a_0", "b_0", "c_0"] * 2
    assert record.turns[4].visible == ((0, "a_0"), (1, "a_0"))
    assert record.truncated
    assert not record.terminated
    assert not record.success
    assert record.rewards == (0.0, 0.0)
    assert record.outcomes[0].verdict == "The answer 0 is wrong."
    assert json.loads(record.to_json())["settings"]["horizon"] == 2
    short = recorded("short", ["123456"])
    assert [turn.action for turn in short.turns] == ["12345"] * 3
    assert short.turns[0].fault == "cut from 6 to 5 characters"
    assert short.terminated


def test_replay_says_where_it_differs():
    record = recorded("chain", ["one", "two", "three"])
    forged = record.turns[1]._replace(observation=record.turns[1].observation.replace("one", "uno"))
    other = replace(record, turns=(record.turns[0], forged, *record.turns[2:]))
    game = toy_game("a_0", "b_0", "c_0", horizon=2)
    assert replay(game, record) == []
    (difference,) = replay(game, other)
    assert difference.startswith("turn 1 (b_0): the observation differs from character")
    assert "'uno'" in difference
    assert "'one'" in difference
    assert any("settings" in line for line in replay(toy_game("a_0", "b_0", "c_0"), record))
    swapped = replace(record, turns=(record.turns[1], *record.turns[1:]))
    assert replay(game, swapped) == ["turn 0: recorded b_0 acting, now a_0"]
    (wrong,) = replay(game, replace(record, rewards=(0.0, 1.0)))
    assert wrong.startswith("rewards: recorded (0.0, 1.0)")
    longer = replace(record, turns=record.turns + record.turns[:1])
    assert "now nobody" in replay(game, longer)[-1]


def test_an_unfinished_game_has_a_record_too():
    game = toy_game("a_0", "b_0")
    game.reset(seed=0)
    game.step("x")
    record = game.episode()
    assert not record.terminated
    assert not record.truncated
    assert len(record.turns) == 1
    assert replay(game, record) == []


@pytest.mark.parametrize("text", ["[]", "{}", '{"turns": 3, "outcomes": []}', "{"])
def test_no_record(text: str):
    with pytest.raises(ValueError, match=r"no record|Expecting"):
        Episode.from_json(text)
