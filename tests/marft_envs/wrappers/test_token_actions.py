from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete

from marft_envs.wrappers import RenamedAgents, TokenAction, TokenObservation, TokenSequenceAction, VocabularyTokenizer
from tests.helpers.fakes import Market
from tests.helpers.toy_games import toy_game
from tests.marft_envs.wrappers.views import SPEECH, one_box

END = SPEECH.eos_token_id


def said(env):
    return [turn.action for turn in env.unwrapped.episode().turns]


def write(env, ids):
    for token in ids:
        env.step(token)


def test_token_by_token_equals_the_whole_text():
    texts = ["a", "\\boxed{1}", "", "aa\\boxed{0}a2}", "2", "\\boxed{2}"]
    whole, tokens = toy_game(horizon=3), TokenAction(toy_game(horizon=3), SPEECH, 9)
    whole.reset(seed=4, options={"index": 1})
    tokens.reset(seed=4, options={"index": 1})
    for text in texts:
        agent = whole.agent_selection
        for token in SPEECH.encode(text):
            assert tokens.agent_selection == agent
            tokens.step(token)
            assert tokens.rewards == dict.fromkeys(tokens.agents, 0.0)
            assert tokens.observe("a_0" if agent == "b_0" else "b_0") == whole.observe(
                "a_0" if agent == "b_0" else "b_0"
            )
        tokens.step(END)
        whole.step(text)
        assert tokens.agent_selection == whole.agent_selection
        assert tokens.rewards == whole.rewards
        assert tokens.infos == whole.infos
        assert tokens._cumulative_rewards == whole._cumulative_rewards
        assert [tokens.observe(agent) for agent in tokens.agents] == [whole.observe(agent) for agent in whole.agents]
        assert tokens.state() == whole.state()
    assert tokens.unwrapped.episode() == whole.episode()
    assert tokens.rewards == {"a_0": 1.0, "b_0": 1.0}


def test_an_utterance_ends_after_max_new_tokens():
    env = TokenAction(toy_game(), SPEECH, 3)
    assert env.action_space("a_0") == Discrete(7)
    env.reset(seed=0)
    write(env, [3, 3])
    assert env.agent_selection == "a_0"
    env.step(4)
    assert env.agent_selection == "b_0"
    assert said(env) == ["001"]


def test_every_utterance_of_a_grammar_and_nothing_else_can_be_said():
    def walk(prefix):
        env = TokenAction(toy_game(), SPEECH, 4, grammar=one_box)
        env.reset(seed=0, options={"index": 1})
        write(env, prefix)
        if env.agent_selection == "b_0":
            found.append(said(env)[0])
            return
        mask = env.action_mask("a_0")
        assert env.action_mask("b_0").all()
        assert mask.nonzero()[0].tolist() == one_box(prefix)
        for token in range(len(SPEECH)):
            if mask[token]:
                walk((*prefix, token))
            else:
                env.reset(seed=0, options={"index": 1})
                write(env, (*prefix, token))
                assert env.agent_selection == "b_0"
                assert said(env) == [""]
                assert env.infos["a_0"]["invalid"] == 1
                refused.append(token)

    found, refused = [], []
    walk(())
    assert sorted(found) == ["\\boxed{0}", "\\boxed{1}", "\\boxed{2}"]
    assert len(refused) == 6 + 4 + 3 * 6 + 3 * 6


def test_a_grammar_that_allows_nothing_allows_the_end():
    env = TokenAction(toy_game(), SPEECH, 4, grammar=lambda prefix: [3] if not prefix else [])
    env.reset(seed=0)
    env.step(3)
    assert env.action_mask("a_0").nonzero()[0].tolist() == [END]
    env.step(END)
    assert said(env) == ["0"]


@pytest.mark.parametrize("token", [7, -1, 1.0, "a", [1, 2]])
def test_an_illegal_token_ends_an_empty_utterance(token):
    env = TokenAction(toy_game(), SPEECH, 4)
    env.reset(seed=0)
    write(env, [2, 2])
    env.step(token)
    assert said(env) == [""]
    assert env.infos["b_0"]["invalid"] == 1


def test_what_is_being_written_is_seen_by_its_author_only():
    env = TokenAction(toy_game(), SPEECH, 4)
    env.reset(seed=0)
    before, state = env.observe("a_0"), env.state()
    write(env, [2, 5])
    assert env.observe("a_0") == f"{before}\n\n[a_0]\na2"
    assert env.observe("a_0").messages == (*before.messages, {"role": "assistant", "content": "a2", "name": "a_0"})
    assert "a2" not in env.observe("b_0")
    assert env.state() == f"{state}\n\n[a_0]\na2"
    assert env.state_space.contains(env.state())
    assert env.observation_space("a_0").contains(env.observe("a_0"))
    env.reset(seed=0)
    assert env.observe("a_0") == before


def test_rewards_of_a_third_party_game_are_counted_once():
    """Paid for each word: what `last` says over the episode is what the game paid."""
    letters = VocabularyTokenizer("ab1")
    totals = {}
    for name, env in {"text": Market(), "tokens": RenamedAgents(TokenAction(Market(), letters, 2), {})}.items():
        env.reset(seed=0)
        totals[name] = dict.fromkeys(env.possible_agents, 0.0)
        for agent in env.agent_iter():
            _, reward, terminated, truncated, _ = env.last()
            totals[name][agent] += reward
            if terminated or truncated:
                env.step(None)
            elif name == "text":
                env.step("a")
            else:
                env.step(letters.encode("a")[0])
                assert env.last()[:4] == (env.observe(agent), 0.0, False, False)  # what was paid before, it was told
                env.step(letters.eos_token_id)
    assert totals["tokens"] == totals["text"]
    assert totals["text"]["buyer_0"] == 4


def test_a_whole_utterance_at_once():
    env = TokenSequenceAction(toy_game(), SPEECH, 4)
    assert env.action_space("a_0") == MultiDiscrete([7] * 4)
    for ids, text in [
        ([3, END, 4, 9 - 3], "0"),
        ([0, 5, 1, 2], "\\boxed{2}a"),
        ([END] * 4, ""),
        (np.array([2] * 4), "aaaa"),
    ]:
        env.reset(seed=0)
        env.step(ids)
        assert said(env) == [text]
        assert env.infos["a_0"]["invalid"] == 0
    for illegal in ([1, 2], [0, 0, 0, 7], [0, 0, 0, -1], 3, "abcd", [[1, 2]] * 4, [0.5] * 4):
        env.reset(seed=0)
        env.step(illegal)
        assert said(env) == [""]
        assert env.infos["a_0"]["invalid"] == 1


def test_sequences_say_what_tokens_say():
    for ids in itertools.product(range(len(SPEECH)), repeat=2):
        whole, single = TokenSequenceAction(toy_game(), SPEECH, 2), TokenAction(toy_game(), SPEECH, 2)
        whole.reset(seed=0)
        single.reset(seed=0)
        whole.step(ids)
        while single.agent_selection == "a_0":
            single.step(ids[len(single.written)])
        assert said(whole) == said(single)


def test_a_tokenizer_of_transformers():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    symbols = ["<end>", "<unk>", "yes", "no", "maybe", "?"]
    backend = Tokenizer(models.WordLevel({word: place for place, word in enumerate(symbols)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", eos_token="<end>", pad_token="<end>"
    )
    env = TokenObservation(TokenAction(toy_game(), tokenizer, 5), tokenizer, 8)
    assert env.action_space("a_0") == Discrete(6)
    env.reset(seed=0)
    write(env, [2, 4])
    assert env.observe("a_0")[-2:].tolist() == [2, 4]
    assert env.observation_space("a_0").contains(env.observe("a_0"))
    write(env, [5, 0])
    assert said(env) == ["yes maybe ?"]


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="max_new_tokens: found 0"):
        TokenAction(toy_game(), SPEECH, 0)
    with pytest.raises(ValueError, match="end_token: found 7, wanted an id from 0 to 6"):
        TokenAction(toy_game(), SPEECH, 1, end_token=7)
    with pytest.raises(ValueError, match="length: found 0"):
        TokenSequenceAction(toy_game(), SPEECH, 0)
    for tokens in ([], ["a", "a"], ["a", ""]):
        with pytest.raises(ValueError, match="all different and none of them empty"):
            VocabularyTokenizer(tokens)
