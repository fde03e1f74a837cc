"""Tiny random models of each published family: end tokens, the system role, training, and resume of a checkpoint."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from peft import PeftModel
from transformers import Llama4TextConfig

from baselines.cli.main import main
from marft_agents.generation.continuous_batching import Prompt, generate
from marft_agents.generation.sampling import SamplingParams
from marft_agents.generation.step_engine import StepEngine
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.learning.supervised import demonstration
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.chat_template import encode
from marft_agents.models.model_error import ModelError
from marft_agents.models.pretrained import context_length, load_tokenizer
from marft_agents.policies.adapter_files import save_adapter
from marft_agents.policies.policy import Request
from marft_agents.policies.team_building import build_team
from marft_agents.runs import checkpoint
from tests.helpers.fakes import CopyDigit
from tests.helpers.naive import BRIEF_CRITIC, adapters, play
from tests.marft_agents.properties.model_families import CHATML, FAMILIES, save_family

SAMPLING = SamplingParams(max_new_tokens=3)
PLAYS = [name for name, family in FAMILIES.items() if not family.refused]


class Chat(str):
    """An observation with a profile."""

    __slots__ = ()

    messages = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "how many?"})


class Profiles(CopyDigit):
    """`CopyDigit` whose agents have profiles."""

    def observe(self, agent):
        return Chat(super().observe(agent))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a function from the name of a family to the folder of its saved model."""
    saved = {}

    def of(name):
        if name not in saved:
            saved[name] = save_family(FAMILIES[name], tmp_path_factory.mktemp("models") / name.replace(" ", "-"))
        return saved[name]

    return of


def build(model, sampling=SAMPLING):
    return build_team(CopyDigit.speakers, {"*": model}, lora=LoraSettings(rank=2), sampling=sampling)


def says(base, token):
    """Return the head of a base, changed so that a token follows anything."""
    bias = 100 * torch.nn.functional.one_hot(torch.tensor(token), base.head.out_features)
    return lambda states, head=base.head: head(states) + bias


@pytest.mark.parametrize("name", PLAYS)
def test_an_action_ends_at_every_end_token_of_its_family(name, folder, monkeypatch):
    team = build(folder(name))
    [base] = team.bases
    assert set(base.tokenizer.convert_ids_to_tokens(sorted(base.end_ids))) == set(FAMILIES[name].ends)
    for token in base.end_ids:
        with monkeypatch.context() as patched:
            patched.setattr(base, "head", says(base, token))
            [action] = team.act([Request("speaker_0", "how many?", np.random.default_rng(0))])
        assert (action.text, action.token_ids.tolist(), action.stopped) == ("", [token], True)
    lesson = demonstration(team, "speaker_0", "how many?", "4")
    assert lesson.stopped
    assert base.tokenizer.convert_ids_to_tokens(int(lesson.token_ids[-1])) == FAMILIES[name].closing


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if place % 3 else ()) for place, name in enumerate(PLAYS)]
)
def test_blocks_of_steps_with_padding_sample_the_same_actions(name, folder):
    """As captured steps run: rounded sizes, one memory, tokens that are read a block late."""
    [base] = build(folder(name)).bases
    sampling = SamplingParams(max_new_tokens=20)
    rng = np.random.default_rng(0)
    beginning = rng.integers(3, base.head.out_features, 12)
    texts = [
        np.append(beginning[: 4 + 4 * (row % 3)], rng.integers(3, 9, 1 + row)).astype(np.int32) for row in range(7)
    ]

    def sampled(engine):
        names = [*base.adapters, None]
        prompts = [Prompt(ids, np.random.default_rng(row), names[row % len(names)]) for row, ids in enumerate(texts)]
        return generate(base, prompts, sampling, engine=engine)

    def replayed(step):
        output = step()
        return SimpleNamespace(replay=step), output

    blocks = StepEngine(base, max_rows=5, tokens=600, capture=replayed)
    for plain, other in zip(sampled(StepEngine(base, max_rows=5)), sampled(blocks), strict=True):
        assert plain.token_ids.tolist() == other.token_ids.tolist()
        np.testing.assert_allclose(plain.logprobs, other.logprobs, atol=1e-4)
    assert blocks.fallback is None


@pytest.mark.filterwarnings("ignore:the chat template of .* takes no system message")
@pytest.mark.parametrize("name", PLAYS)
def test_a_family_trains_and_resumes(name, folder, tmp_path):
    team = build(folder(name))
    before = adapters(team)
    learner = Learner(team, LearnerSettings(policy_lr=1e-2, entropy_bonus=0.1, **BRIEF_CRITIC))
    learner.update(play(team, Profiles, episodes=4))
    assert all(
        not torch.equal(before[p][k], v) for p, own in adapters(team).items() for k, v in own.items() if "B" in k
    )
    path = checkpoint.save(tmp_path, team, learner)

    other = build(folder(name))
    resumed = Learner(other, learner.settings)
    assert checkpoint.load(path, other, resumed) == 1
    for trained, one in ((learner, team), (resumed, other)):
        trained.update(play(one, Profiles, episodes=4, seed=1))
    found = adapters(other)
    for policy, tensors in adapters(team).items():
        for key, tensor in tensors.items():
            torch.testing.assert_close(found[policy][key], tensor, rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.refused])
def test_a_family_that_cannot_be_played_is_refused(name, folder):
    with pytest.raises(ModelError, match=FAMILIES[name].refused):
        build(folder(name))


def test_a_model_without_q_proj_and_v_proj_is_evaluated_without_a_word_about_layers(folder, tmp_path):
    play = ["--env", "marft/gsm8k_solo-v0", "--data", "embedded:stories", "--limit", "1", "--max-new-tokens", "2"]
    assert main(["eval", *play, "--model", folder("phi-3.5"), "--out", str(tmp_path / "evaluation")]) == 0


def test_chunked_attention_bounds_the_context_window():
    config = Llama4TextConfig(num_hidden_layers=4, attention_chunk_size=512, max_position_embeddings=4096)
    assert context_length(config) == 512


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT reads a renamed attribute of transformers
@pytest.mark.parametrize("name", ["gemma-3 with vision", "llama-4 with vision", "mistral-3"])
def test_an_adapter_of_the_text_part_is_one_of_the_published_model(name, folder, tmp_path):
    team = build(folder(name))
    [base] = team.bases
    for number, tensor in enumerate(base.parameters("actor_0").values()):
        torch.nn.init.normal_(tensor, std=0.1, generator=torch.Generator().manual_seed(number))
    save_adapter(team.local_agent("actor_0"), tmp_path / "actor_0")
    whole = getattr(transformers, FAMILIES[name].model).from_pretrained(folder(name)).eval()
    ids = torch.arange(3, 9)[None]
    with base.active_adapter("actor_0"), torch.no_grad():
        wanted, plain = base.peft(input_ids=ids).logits, whole(input_ids=ids).logits
        published = PeftModel.from_pretrained(whole, tmp_path / "actor_0")  # warns of tensors that are missing
        torch.testing.assert_close(published(input_ids=ids).logits, wanted)
    assert (wanted - plain).abs().max() > 1e-2
    adapted = {key.split(".lora_")[0] for key, _ in published.named_parameters() if ".lora_" in key}
    assert len(adapted) == 4  # queries and values of two layers, nothing of the vision tower


def test_a_conversation_that_a_template_refuses_names_the_model_and_the_way_out(folder):
    tokenizer = load_tokenizer(folder("qwen-3"))
    tokenizer.chat_template = "{% if messages[-1]['content'] == 'x' %}{{ raise_exception('no') }}{% endif %}" + CHATML
    with pytest.raises(ModelError, match=r"template of .*qwen-3 refuses the messages of user: no; play with a model"):
        encode(tokenizer, "x")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_profile_is_read_whatever_the_template_does_with_the_system_role(name, tmp_path):
    model = save_family(FAMILIES[name], tmp_path)
    tokenizers = [load_tokenizer(model) for _ in range(2)]
    if FAMILIES[name].system:
        text = tokenizers[0].decode(encode(tokenizers[0], Chat("x")).ids)
    else:
        with pytest.warns(UserWarning, match="takes no system message: each profile is put before") as told:
            texts = [tokenizer.decode(encode(tokenizer, Chat("x")).ids) for tokenizer in tokenizers]
        assert len(told) == 1  # said once
        assert texts[0] == texts[1]
        text = texts[0]
        assert "be brief\n\nhow many?" in text
    assert text.count("be brief") == text.count("how many?") == 1
