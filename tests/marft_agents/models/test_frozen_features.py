"""Features of a frozen model: the mean of its last layer, by text, and as the blocks of a numeric view."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import marft_envs
from marft_agents import ScriptedPolicy
from marft_agents.models.frozen_features import REFERENCES, FrozenFeatures
from marft_agents.models.pretrained import ModelError, load, trunk_of
from marft_envs import Task, TaskList
from marft_envs.wrappers import BlockObservation, CandidateAction

WORDS = ("0", "7", "stop", "left")


@pytest.fixture(scope="module")
def tiny():
    return load("tiny")


@pytest.fixture(scope="module")
def features(tiny):
    return FrozenFeatures(tiny)


def mean_state(tiny, text):
    first = tiny.tokenizer.bos_token_id
    first = tiny.tokenizer.eos_token_id if first is None else first
    ids = [first, *tiny.tokenizer(text, add_special_tokens=False)["input_ids"]]
    with torch.no_grad():
        states = trunk_of(tiny.model)(torch.tensor([ids]), output_hidden_states=True).hidden_states
    return states[-1][0, 1:].mean(dim=0).numpy()


def test_they_are_the_mean_of_the_last_layer_standardised_over_the_references(tiny, features):
    references = np.stack([mean_state(tiny, text) for text in REFERENCES])
    wanted = (mean_state(tiny, "two cups") - references.mean(axis=0)) / references.std(axis=0)
    assert features("two cups").dtype == np.float32
    assert features("two cups").shape == (features.size,)
    assert np.allclose(features("two cups"), wanted, atol=1e-3)
    assert not features("").any()


def test_a_text_is_read_once_while_it_is_kept(tiny):
    features = FrozenFeatures(tiny, cached=2)
    read = []
    handle = trunk_of(tiny.model).register_forward_hook(lambda *_: read.append(1))
    try:
        first = features("a")
        assert features("a") is first
        features("b")
        assert len(read) == 2
        features("c")  # drops "a", the oldest
        features("b")
        assert len(read) == 3
        assert np.array_equal(features("a"), first)
        assert len(read) == 4
    finally:
        handle.remove()
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0


@settings(deadline=None, max_examples=10)
@given(
    st.sampled_from(["duo", "trio", "sextet"]),
    st.sampled_from([0, 1, 100]),
    st.permutations(range(len(WORDS))),
    st.integers(0, 4),
)
def test_a_partners_word_moves_the_hearer(features, team, length, words, speaker):
    task = Task("long", "word " * length, "1", "train")
    game = marft_envs.make(f"marft/math_{team}-v0", data=TaskList("long", [task]), dependency="full")
    env = BlockObservation(CandidateAction(game, WORDS), features)
    partners = len(env.possible_agents) - 1

    def heard(word):
        env.reset(seed=0)
        for place in range(partners):
            env.step(word if place == speaker % partners else words[2])
        return env.observe(env.agent_selection)

    before, after = heard(words[0]), heard(words[1])
    assert np.linalg.norm(before - after) >= 0.1 * np.linalg.norm(before)


def test_what_has_no_hidden_states_is_refused(tiny, features):
    with pytest.raises(ModelError, match="model: found ScriptedPolicy, wanted the name of a local model or a loaded"):
        FrozenFeatures(ScriptedPolicy({}))
    with pytest.raises(ModelError, match="no-such-model"):
        FrozenFeatures("no-such-model")
    with pytest.raises(ValueError, match="cached: found 0, wanted at least 1"):
        FrozenFeatures(tiny, cached=0)
    with pytest.raises(ValueError, match=r"a text of \d+ tokens does not fit into the model's context of \d+"):
        features("word " * tiny.model.config.max_position_embeddings)
