"""Dialogues: who acts after a message or a call, and who sees it."""

from __future__ import annotations

import pytest

from marft_envs.dependency import DependencyError, Roster, as_dependency
from marft_envs.testing import check_environment
from tests.helpers.toy_games import play_out, toy_game

TEAM = ("user_0", "assistant_0", "expert_0")
CALL = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
UNREADABLE = "<tool_call>{"


def dialogue(**keywords):
    return as_dependency({"kind": "dialogue", **keywords})


def played(*actions, agents=TEAM, **keywords):
    game = toy_game(*agents, dependency=dialogue(**keywords), horizon=len(actions))
    game.reset(seed=0)
    said = iter(actions)
    return play_out(game, lambda agent: next(said))


def test_a_message_passes_the_word_on_and_a_call_keeps_it():
    game = played("hello", CALL, UNREADABLE, "found it", "good", "bye")
    acted = [turn.agent for turn in game.episode().turns]
    assert acted == ["user_0", "assistant_0", "assistant_0", "assistant_0", "expert_0", "user_0"]


def test_others_see_messages_and_no_calls():
    turns = played("hello", CALL, "found it", CALL, "good", "x").episode().turns
    assert [sorted(turn.visible) for turn in turns[1:]] == [
        [(0, "user_0")],
        [(0, "user_0")],
        [(0, "user_0"), (2, "assistant_0")],
        [(0, "user_0"), (2, "assistant_0")],
        [(2, "assistant_0"), (4, "expert_0")],  # the user again
    ]
    assert CALL not in str(turns[3].observation)
    assert "found it" in str(turns[3].observation)


def test_the_start_and_the_json_form():
    assert played("hello", "x", start="assistant_0").episode().turns[0].agent == "assistant_0"
    for made in (dialogue(), dialogue(start="expert_0")):
        assert as_dependency(made.to_dict()) == made


@pytest.mark.parametrize(
    ("keywords", "answering", "message"),
    [
        ({"start": "nobody_0"}, "user_0", "dialogue starts with 'nobody_0': unknown agent; the team has user_0"),
        ({"start": 3}, "user_0", "dialogue.start: found 3, wanted the name of an agent"),
        ({"begin": "user_0"}, "user_0", "unknown key 'begin'"),
        ({}, "", "no agent of the dialogue answers"),
    ],
)
def test_a_dialogue_that_cannot_be_played_is_refused(keywords, answering, message):
    with pytest.raises(DependencyError, match=message):
        dialogue(**keywords).check(Roster(TEAM, frozenset({answering} - {""})))


def test_a_dialogue_conforms():
    report = check_environment(lambda **more: toy_game(*TEAM[:2], dependency=dialogue(), horizon=3, **more), cycles=5)
    assert all(check.passed for check in report.checks), str(report)
