from __future__ import annotations

import copy
import json
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.vector.utils import create_shared_memory
from hypothesis import given
from hypothesis import strategies as st

from marft_envs.spaces import Message, TextObservation, UnicodeText, clean, is_clean


def test_space_takes_any_text_of_its_length():
    space = UnicodeText(10)
    for text in ("", "²≤中🙂\n\x00", "x" * 10, np.str_("x"), TextObservation("x")):
        assert text in space
    for other in ("x" * 11, "\ud800", b"x", None, 1):
        assert other not in space


def test_space_is_cheap_hashable_and_comparable():
    space = UnicodeText(2**24)
    assert len(repr(space)) < 100
    assert len(pickle.dumps(space)) < 100_000
    assert space == UnicodeText(2**24)
    assert hash(space) == hash(UnicodeText(2**24))
    assert space != UnicodeText(5)
    assert space != gymnasium.spaces.Text(2**24)
    assert "x" * 60_000 in space
    assert pickle.loads(pickle.dumps(space)) == copy.deepcopy(space) == space
    space.seed(3)
    twin = copy.deepcopy(space)
    drawn = [space.sample() for _ in range(3)]
    assert [twin.sample() for _ in range(3)] == drawn  # the copy has a generator of its own, in the same state


def test_samples_are_seeded_short_ascii():
    one, other = UnicodeText(10**6, seed=3), UnicodeText(10**6, seed=3)
    samples = [one.sample() for _ in range(50)]
    assert samples == [other.sample() for _ in range(50)]
    assert len(set(samples)) > 40
    assert all(sample in one and sample.isascii() and len(sample) <= 32 for sample in samples)
    assert UnicodeText(5, sample_fn=lambda generator: "yes").sample() == "yes"
    assert len(UnicodeText(5).sample(mask=(3, None))) == 3
    assert UnicodeText(0).sample() == ""


def test_shared_memory_is_refused_loudly():
    with pytest.raises(gymnasium.error.CustomSpaceError, match="shared_memory=False"):
        create_shared_memory(UnicodeText(5), n=2)


def test_observation_is_its_text_and_carries_its_messages():
    messages = (Message("system", "Be good."), Message("user", "héllo", "environment"))
    seen = TextObservation.of(messages)
    assert seen == "[system]\nBe good.\n\n[environment]\nhéllo"
    assert seen.messages == (
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "héllo", "name": "environment"},
    )
    assert json.loads(json.dumps(seen)) == str(seen)
    for twin in (copy.deepcopy(seen), pickle.loads(pickle.dumps(seen)), TextObservation(seen, seen.messages)):
        assert twin == seen
        assert twin.messages == seen.messages


def test_changing_the_messages_changes_no_observation():
    seen = TextObservation("x", [{"role": "user", "content": "x"}])
    seen.messages[0]["content"] = "forged"
    assert seen.messages[0]["content"] == "x"


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_cleaned_text_is_clean_and_as_long(text: str):
    assert is_clean(clean(text))
    assert len(clean(text)) == len(text)
    assert clean(text) == text or not is_clean(text)
