"""Base models by name: what loads, what does not and how that is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.model_error import ModelError
from marft_agents.models.pretrained import load
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.policy import Request
from tests.helpers.fakes import Market, word_model
from tests.helpers.naive import play

CPU = torch.device("cpu")


def test_tiny_is_the_same_every_time_and_frozen():
    state = torch.random.get_rng_state()
    one, two = load("tiny", device=CPU), load("tiny", device=CPU)
    assert torch.equal(state, torch.random.get_rng_state())
    for (name, a), b in zip(one.model.named_parameters(), two.model.parameters(), strict=True):
        assert torch.equal(a, b), name
        assert not a.requires_grad
    assert not one.model.training
    assert len(one.tokenizer) == one.model.config.vocab_size == 260


def test_tiny_words_reads_the_texts_of_a_probe_game_without_an_unknown_word():
    found = load("tiny-words", device=CPU)
    assert len(found.tokenizer) == found.model.config.vocab_size == 24
    ids = found.tokenizer("digit 2 topic k a ? 0 value 1 heard b", add_special_tokens=False)["input_ids"]
    assert found.tokenizer.unk_token_id not in ids
    assert found.tokenizer.decode(ids[:2]) == "digit 2"
    with torch.no_grad():
        logits = found.model(input_ids=torch.as_tensor([ids])).logits[0, -1]
    assert 0.5 < float(logits.std()) < 3  # adapters on its linear layers alone can make it certain of a word


@pytest.fixture
def saved(tmp_path):
    """Return a folder written by save_pretrained."""
    made = word_model()
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_saved_folder_loads(saved):
    found = load(str(saved), device=CPU)
    wanted = word_model()
    ids = torch.arange(10)[None]
    with torch.no_grad():
        assert torch.equal(found.model(input_ids=ids).logits, wanted.model(input_ids=ids).logits)
    assert found.tokenizer.pad_token_id == found.tokenizer.eos_token_id == 2
    assert found.source == str(saved)
    assert not any(p.requires_grad for p in found.model.parameters())


def refused(name, message):
    with pytest.raises(ModelError, match=message) as caught:
        load(str(name), device=CPU)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_folder_without_weights(saved):
    (saved / "model.safetensors").unlink()
    refused(saved, rf"model folder {saved} has a config\.json but no weights")


def test_a_folder_without_a_configuration(saved):
    (saved / "config.json").unlink()
    refused(saved, rf"model folder {saved} has no config\.json")


def test_damaged_weights(saved):
    file = saved / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    refused(saved, f"model '{saved}' could not be loaded")


def test_a_damaged_configuration(saved):
    (saved / "config.json").write_text("{")
    refused(saved, f"model '{saved}' could not be loaded")


def test_an_unknown_architecture(saved):
    (saved / "config.json").write_text('{"model_type": "abacus"}')
    refused(saved, f"model '{saved}' could not be loaded.*abacus")


def test_a_folder_without_a_tokenizer(saved):
    for file in saved.glob("tokenizer*"):
        file.unlink()
    refused(saved, "tokenizer|could not be loaded")


def test_a_model_without_a_chat_template(tmp_path):
    made = word_model()
    made.tokenizer.chat_template = None
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    refused(tmp_path, "has no chat template")


def test_a_missing_gguf_file(tmp_path):
    refused(tmp_path / "gone.gguf", "does not exist")


def test_a_gguf_file_that_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("MARFT_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "text.gguf"
    file.write_text("this is no model")
    refused(file, rf"{file} could not be read as GGUF")
    assert list((tmp_path / "cache").iterdir()) == []  # nothing half-converted is left


@pytest.mark.parametrize("name", ["smollm3", "./nowhere", "/no/such/folder", "a/b/c"])
def test_a_name_that_is_nothing(name):
    refused(
        name, "is neither a folder, a .gguf file nor a hub id owner/name; built-in names are 'smollm2-135m', 'tiny'"
    )


@pytest.mark.slow
def test_the_real_model_loads_answers_and_trains_at_ratio_one():
    pretrained = load("smollm2-135m", device=CPU)
    assert all(torch.equal(weight.half().float(), weight) for weight in pretrained.model.parameters())
    base = AdaptedBase(pretrained, ["buyer_0", "seller_0"], LoraSettings(), seed=0)
    local_agents = {name: LocalAgent(base, name) for name in base.adapters}
    team = LanguageModelTeam(local_agents, SamplingParams(temperature=0, max_new_tokens=16))
    [action] = team.act([Request("buyer_0", "What is the capital of France?", np.random.default_rng(0))])
    assert action.text == "The capital of France is Paris."
    assert action.stopped

    for sampling in (
        SamplingParams(max_new_tokens=8),
        SamplingParams(temperature=0.8, top_k=50, top_p=0.9, max_new_tokens=8),
    ):
        team = LanguageModelTeam(local_agents, sampling)
        for level in ("action", "token"):
            learner = Learner(team, LearnerSettings(level=level, policy_lr=1e-4, entropy_bonus=0.01))
            metrics = learner.update(play(team, Market, episodes=3))
            for agent in local_agents:
                assert metrics[f"{agent}/first_pass_log_ratio_max"] < 1e-3
                assert metrics[f"{agent}/grad_norm"] > 0
