"""Secrets of a game: where canaries stand, that they replay, and which secrets tasks declare."""

from __future__ import annotations

from functools import partial

import pytest

import marft_envs
from marft_envs import Episode, replay
from marft_envs.game.secrets import PLACES, Secret
from marft_envs.testing import check_environment
from tests.helpers.toy_games import play_through, toy_game

PROFILE = "marft/profile_holders2-v0"


def canaries(record):
    return [secret for secret in record.secrets if not secret.needed]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "make", [lambda **kw: toy_game("a_0", "b_0", **kw), lambda **kw: marft_envs.make(PROFILE, **kw)]
)
def test_each_agent_alone_is_told_its_own_canary(make, place):
    game = make(canaries=place)
    game.reset(seed=1)
    record = game.unwrapped.episode()
    assert [secret.owner for secret in canaries(record)] == game.possible_agents
    for secret in canaries(record):
        assert [agent for agent in game.possible_agents if secret.text in game.observe(agent)] == [secret.owner]
        told = game.observe(secret.owner).messages
        [message] = [one for one in told if secret.text in one["content"]]
        assert (message["role"] == "system") == (place == "system")


def test_canaries_follow_from_the_seed_and_change_with_it():
    game = toy_game("a_0", "b_0", canaries="system")
    drawn = []
    for seed in (1, 1, 2):
        game.reset(seed=seed)
        drawn.append(tuple(secret.text for secret in canaries(game.episode())))
    assert drawn[0] == drawn[1]
    assert len({text for pair in drawn for text in pair}) == 4


def test_a_game_without_them_draws_and_records_as_before():
    with_them, without = (toy_game("a_0", "b_0", canaries=place) for place in ("round", None))
    records = []
    for game in (with_them, without):
        game.reset(seed=3)
        records.append(game.episode())
    assert records[0].task_id == records[1].task_id
    assert "canaries" not in records[1].settings
    assert not {"secrets", "answering"} & records[1].to_dict().keys()


@pytest.mark.parametrize("place", PLACES)
def test_records_with_canaries_replay_and_keep_their_secrets(place):
    env = marft_envs.make(PROFILE, canaries=place)
    env.reset(seed=5)
    record = play_through(env, lambda agent, observation: observation.messages[-1]["content"])
    assert replay(env, record) == []
    assert Episode.from_json(record.to_json()) == record
    assert record.answering == ("guesser_0",)


def test_tasks_say_which_of_their_own_secrets_are_needed():
    env = marft_envs.make(PROFILE)
    env.reset(seed=0, options={"index": 0})
    clues = env.unwrapped.task.clues
    assert env.unwrapped.episode().secrets == tuple(Secret(f"holder_{i}", clue, True) for i, clue in enumerate(clues))
    env = marft_envs.make("marft/shards_readers2-v0")
    env.reset(seed=0, options={"index": 0})
    secrets, task = env.unwrapped.episode().secrets, env.unwrapped.task
    assert [secret.text for secret in secrets if secret.needed] == list(task.sought)
    assert [secret.text for secret in secrets] == "\n".join(task.parts).splitlines()
    assert {secret.owner for secret in secrets} == {"reader_0", "reader_1"}


def test_one_agent_that_sees_all_has_no_secrets():
    env = marft_envs.make("marft/profile_whole2-v0")
    env.reset(seed=0)
    assert env.unwrapped.episode().secrets == ()


def test_a_place_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="canaries"):
        toy_game("a_0", canaries="everywhere")


def test_a_game_with_canaries_conforms():
    report = check_environment(partial(marft_envs.make, PROFILE, canaries="round"), cycles=3, thorough=False)
    assert [str(check) for check in report.checks if check.passed is False] == []
