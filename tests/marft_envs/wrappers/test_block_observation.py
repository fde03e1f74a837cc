from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import marft_envs
from marft_envs import Task, TaskList
from marft_envs.wrappers import (
    BlockObservation,
    CandidateAction,
    EmbeddingObservation,
    HashedNgrams,
    RenamedAgents,
    TokenAction,
    VocabularyTokenizer,
)
from tests.helpers.fakes import CopyDigit
from tests.helpers.toy_games import toy_game

WORDS = ("0", "7", "stop", "left", "12 cups", "I heard that it is 3, so we go on")
VIEWS = {
    "candidates": lambda env: BlockObservation(CandidateAction(env, WORDS)),
    "small": lambda env: BlockObservation(CandidateAction(env, WORDS), HashedNgrams(dim=64)),
    "renamed inside": lambda env: BlockObservation(RenamedAgents(CandidateAction(env, WORDS))),
    "renamed outside": lambda env: RenamedAgents(BlockObservation(CandidateAction(env, WORDS))),
    "whole tokens": lambda env: BlockObservation(TokenAction(env, VocabularyTokenizer(WORDS), 1)),
}


def long_game(team, words):
    task = Task("long", " ".join(f"word{place % 97}" for place in range(words)), "1", "train")
    return marft_envs.make(f"marft/math_{team}-v0", data=TaskList("long", [task]), dependency="full")


def heard(env, words):
    """What the last agent sees after the others have chosen these words."""
    env.reset(seed=0)
    for word in words:
        env.step(word)
    return env.observe(env.agent_selection)


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(sorted(VIEWS)),
    st.sampled_from(["duo", "trio", "quartet", "sextet", "octet", "dozen"]),
    st.sampled_from([0, 1, 30, 3000]),
    st.lists(st.integers(0, len(WORDS) - 1), min_size=12, max_size=12),
    st.integers(0, 11),
    st.integers(1, len(WORDS) - 1),
)
def test_a_partners_word_moves_the_hearer_whatever_the_length_of_the_prompt(view, team, length, said, speaker, other):
    env = VIEWS[view](long_game(team, length))
    said = said[: len(env.possible_agents) - 1]
    changed = list(said)
    changed[speaker % len(said)] = (said[speaker % len(said)] + other) % len(WORDS)
    before, after = heard(env, said), heard(env, changed)
    assert np.linalg.norm(before - after) >= 0.1 * np.linalg.norm(before)


def test_the_first_version_drowns_the_word_in_the_prompt():
    env = EmbeddingObservation(CandidateAction(long_game("duo", 1000), WORDS))
    before, after = heard(env, [0]), heard(env, [1])
    assert np.linalg.norm(before - after) < 0.02 * np.linalg.norm(before)


def test_each_source_has_a_block():
    env = BlockObservation(marft_envs.make("marft/tools_duo-v0", data="embedded:lookup"))
    env.reset(seed=0)
    profile, wish = env.blocks("reader_0")["profile"], env.blocks("reader_0")["task"]
    assert "Your tools: read_price, hand_off" in profile
    assert profile.endswith('message="Write 71 on the label of the rope.")')  # of the last example
    assert wish == "Write the prices of the candle and the lid on their labels."
    for ware in ("candle", "lid"):
        env.step(f'read_price(ware="{ware}")')
    assert env.blocks("reader_0") == {
        "profile": profile,
        "task": wish,
        "environment": "Result of read_price: 44",
        "own": 'read_price(ware="lid")',
        "writer_0": "",
    }
    order = 'hand_off(to="writer_0", message="Please do write_label(ware=\\"candle\\", price=70)")'
    env.step(order)
    seen = env.blocks("writer_0")
    assert (seen["environment"], seen["own"], seen["reader_0"]) == ("", "", order)
    norms = np.linalg.norm(env.observe("writer_0").reshape(5, env.dim), axis=1)
    assert np.allclose(norms, [1, 1, 0, 0, 1])


def test_a_block_is_the_embedding_of_its_text_at_norm_1():
    env = BlockObservation(toy_game(), lambda text: [3.0, 4.0 * len(text), 0.0])
    env.reset(options={"index": 5})
    env.step("34")
    profile, task, told, own, partner = env.observe("b_0").reshape(5, 3)
    assert not told.any()
    assert not own.any()
    assert np.allclose(partner, np.array([3, 8, 0]) / np.hypot(3, 8))
    assert np.isclose(np.linalg.norm(profile), 1)
    assert np.isclose(np.linalg.norm(task), 1)
    assert env.observation_space("b_0").contains(env.observe("b_0"))


def test_the_state_is_what_each_agent_was_told_and_said():
    env = BlockObservation(CopyDigit(), HashedNgrams(dim=64))
    env.reset(seed=0)
    env.step("4")
    read = HashedNgrams(dim=64)
    state = env.state().reshape(2, 4, 64)
    assert np.allclose(state[0, 1], read(f"digit {env.unwrapped.answer}"))
    assert np.allclose(state[1, 1], read("heard 4"))
    assert not state[:, [0, 2, 3]].any()  # a third-party game with plain strings: it does not say who wrote what
    assert env.state_space.contains(env.state())


def test_what_is_being_written_is_the_writers_own_block_and_news_stay():
    env = BlockObservation(TokenAction(toy_game(), VocabularyTokenizer("34"), 4))
    env.reset(options={"index": 5})
    env.step(0)
    assert env.blocks("a_0")["own"] == "3"
    env.step(1)
    env.step(env.env.tokenizer.eos_token_id)
    env.step(1)
    assert (env.blocks("b_0")["own"], env.blocks("b_0")["a_0"]) == ("4", "34")


def test_news_stay_until_there_are_others():
    env = BlockObservation(marft_envs.make("marft/tools_solo-v0", data="embedded:lookup"))
    env.reset(seed=0)
    env.step('read_price(ware="candle")')
    env.step("Hm.")
    assert env.blocks("agent_0")["own"] == "Hm."
    told = env.blocks("agent_0")["environment"]
    env.step('read_price(ware="lid")')
    assert env.blocks("agent_0")["environment"] not in ("", told)


def test_copies_share_the_embedding_and_continue_alike():
    env = BlockObservation(CandidateAction(toy_game(), ["1", "2"]))
    env.reset(seed=0)
    clone = copy.deepcopy(env)
    assert clone.embed is env.embed
    for each in (env, clone):
        each.step(1)
    assert np.array_equal(env.observe("b_0"), clone.observe("b_0"))


@pytest.mark.parametrize(
    ("embed", "error", "message"),
    [
        ("smollm2-135m", TypeError, "embed: found 'smollm2-135m', wanted a function"),
        (lambda text: [], ValueError, "embed: found a vector without components"),
        (lambda text: [1.0] * (1 + bool(text)), ValueError, "embed: found 2 components for .*, wanted 1 finite"),
        (lambda text: [np.nan if text else 0.0], ValueError, "embed: found a component that is not finite for"),
    ],
)
def test_an_embedding_that_gives_no_vector_is_refused(embed, error, message):
    game = toy_game()
    game.reset(seed=0)
    with pytest.raises(error, match=message):
        BlockObservation(game, embed).observe("a_0")


def test_observations_that_are_no_text_are_refused():
    with pytest.raises(ValueError, match=r"BlockObservation: the observations of a_0 are Box\(.*\), wanted text"):
        BlockObservation(EmbeddingObservation(toy_game()))
