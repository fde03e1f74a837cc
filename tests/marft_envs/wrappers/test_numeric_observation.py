from __future__ import annotations

import itertools
from hashlib import blake2b

import numpy as np
import pytest

from marft_envs.wrappers import (
    CandidateAction,
    EmbeddingObservation,
    HashedNgrams,
    TokenAction,
    TokenObservation,
    VocabularyTokenizer,
)
from tests.helpers.fakes import CopyDigit, Market
from tests.helpers.toy_games import toy_game
from tests.marft_envs.wrappers.views import SPEECH

DIGITS = VocabularyTokenizer("0123456789+")


def test_ids_are_padded_and_cut_at_the_left():
    env = TokenObservation(CandidateAction(CopyDigit(), ["1 2 3", "4"]), DIGITS, 3, state_length=5)
    env.reset(seed=0)
    digit = int(env.unwrapped.answer)
    pad = len(DIGITS)
    assert env.observe("speaker_0").tolist() == [pad, pad, digit]
    assert env.observe("actor_0").tolist() == [pad] * 3
    assert env.state().tolist() == [pad] * 4 + [digit]  # of a third-party game: what all see
    assert env.observation_space("actor_0").contains(env.observe("actor_0"))
    game = toy_game()
    env = TokenObservation(game, DIGITS, 1)
    env.reset(options={"index": 5})
    assert env.observe("a_0").tolist() == [1]  # of "What is 5 + 1?"
    assert TokenObservation(game, DIGITS, 3).observe("a_0").tolist() == [5, 10, 1]


def test_one_hot_is_the_ids_with_zeros_for_pads():
    ids, hot = TokenObservation(toy_game(), DIGITS, 9), TokenObservation(toy_game(), DIGITS, 9, one_hot=True)
    for env in (ids, hot):
        env.reset(options={"index": 5})
        env.step("34")
    for agent in ("a_0", "b_0"):
        rows = hot.observe(agent).reshape(9, len(DIGITS))
        assert rows.dtype == np.float32
        assert rows.sum(axis=1).tolist() == (ids.observe(agent) < len(DIGITS)).astype(float).tolist()
        seen = rows.sum(axis=1) > 0
        assert rows[seen].argmax(axis=1).tolist() == ids.observe(agent)[seen].tolist()
    assert ids.observe("b_0").tolist()[-2:] == [3, 4]


class Padded(VocabularyTokenizer):
    def __init__(self, tokens, pad):
        super().__init__(tokens)
        self.pad_token_id = pad


@pytest.mark.parametrize(("pad", "id", "high"), [(0, 0, 11), (11, 12, 12), (None, 12, 12)])
def test_the_pad_is_the_tokenizers_unless_it_means_the_end(pad, id, high):
    env = TokenObservation(CopyDigit(), Padded("0123456789+", pad), 2)
    env.reset(seed=0)
    assert env.observe("actor_0").tolist() == [id, id]
    assert env.observation_space("actor_0").high.tolist() == [high, high]


def test_any_callable_embeds_and_is_asked_once_for_the_same_text():
    asked = []

    def embed(text):
        asked.append(text)
        return [len(text) / 1000, 7.0, -7.0]

    env = EmbeddingObservation(CandidateAction(toy_game(), ["a", "b"]), embed, bound=2.0)
    env.reset(seed=0)
    asked.clear()
    first = env.observe("a_0")
    assert np.allclose(first, [len(env.env.observe("a_0")) / 1000, 2, -2])
    assert first.dtype == np.float32
    first[:] = 0
    assert env.observe("a_0").any()
    env.observe("b_0")
    env.state()
    env.step(0)
    for agent in ("a_0", "b_0"):
        env.observe(agent)
    assert len(asked) == 5
    assert asked[0].messages[0]["role"] == "system"
    unbounded = EmbeddingObservation(toy_game(), embed, bound=np.inf)
    unbounded.reset(seed=0)
    assert unbounded.observe("a_0")[1] == 7


def test_hashed_ngrams_by_hand():
    vector = np.zeros(32)
    for gram in ("two", "cups", "3", "two cups", "cups 3"):
        code = int.from_bytes(blake2b(gram.encode(), digest_size=8).digest(), "little")
        vector[(code >> 1) % 32] += 1 if code % 2 else -1
    assert np.allclose(HashedNgrams(32)("Two cups3"), vector / np.linalg.norm(vector))
    assert not HashedNgrams(32)("").any()
    assert HashedNgrams(32)("中\ud800🙂").any()
    assert np.isclose(np.linalg.norm(HashedNgrams(8)("many words " * 50)), 1)


def test_hashed_ngrams_tell_short_texts_apart():
    embed = HashedNgrams()
    vectors = [embed(f"{word} {sign}") for word in ("digit", "heard", "value", "topic") for sign in "0123456789?ab"]
    assert max(float(one @ other) for one, other in itertools.combinations(vectors, 2)) < 0.9


def test_the_state_is_what_all_said_and_what_is_being_written():
    env = TokenObservation(TokenAction(toy_game(), SPEECH, 4), VocabularyTokenizer(["a_0", "b_0", "a", "0"]), 6)
    env.reset(options={"index": 2})
    for token in (2, 3):
        env.step(token)
    assert env.state().tolist()[-3:] == [0, 2, 3]
    assert env.observe("b_0").tolist()[-1:] != [3]
    env.step(SPEECH.eos_token_id)
    env.step(3)
    assert env.state().tolist()[-5:] == [0, 2, 3, 1, 3]


def test_what_cannot_be_wrapped_is_refused():
    with pytest.raises(ValueError, match=r"the observations of a_0 are Box\(.*\), wanted text"):
        TokenObservation(EmbeddingObservation(toy_game()), DIGITS, 3)
    with pytest.raises(ValueError, match="length: found 3 \\(state 0\\), wanted at least 1"):
        TokenObservation(Market(), DIGITS, 3, state_length=0)
