from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, LlamaConfig, LlamaForCausalLM, Qwen2Config

from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.chat_template import encode
from marft_agents.models.context_window import (
    ContextOverflowError,
    ContextSettings,
    choose_window,
    movable,
    num_fixed,
    shorten,
)
from marft_agents.models.pretrained import Pretrained, context_length
from marft_agents.models.random_models import byte_tokenizer
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.policy import Request, completion
from marft_agents.policies.team_building import build_team
from marft_agents.runs.evaluation import evaluate
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import CopyDigit, word_team

SYSTEM, PROBLEM = {"role": "system", "content": "S"}, {"role": "user", "content": "P", "name": "environment"}


def said(agent, content):
    return {"role": "user", "content": content, "name": agent}


class Chat(str):
    """An observation with a chat form."""

    def __new__(cls, messages, fixed=None):
        chat = super().__new__(cls, "text")
        chat.messages = tuple(messages)
        if fixed is not None:
            chat.fixed_messages = fixed
        return chat


def by_character(messages, budget, candidates=None):
    """Shorten where a token is a character and the template adds nothing."""

    def ids_of(conversation):
        return "".join(message["content"] for message in conversation).encode()

    found = shorten(
        messages,
        movable(messages, num_fixed("", messages)) if candidates is None else candidates,
        excess=len(ids_of(messages)) - budget,
        budget=budget,
        ids_of=ids_of,
        spans=lambda text: [(i, i + 1) for i in range(len(text))],
    )
    if found is None:
        return None
    assert found.ids == ids_of(found.messages)
    return [message["content"] for message in found.messages], found.notes


def test_the_middle_of_the_longest_turn_goes_first():
    messages = [SYSTEM, PROBLEM, said("a_0", "a" * 30 + "b" * 40 + "c" * 30), said("b_0", "short"), said("c_0", "last")]
    contents, notes = by_character(messages, 90)
    assert contents[:2] + contents[3:] == ["S", "P", "short", "last"]
    removed = notes[0].removed
    head, _, tail = contents[2].partition(f" [... {removed} tokens left out ...] ")
    assert (head + tail).replace("b", "") == "a" * len(head.rstrip("b")) + "c" * len(tail.lstrip("b"))
    assert (abs(len(head) - len(tail)) <= 1, len(head + tail)) == (True, 100 - removed)
    assert len("".join(contents)) <= 90
    assert [tuple(note) for note in notes] == [(2, "a_0", removed, 0)]


@given(
    lengths=st.lists(st.integers(0, 400), min_size=1, max_size=12),
    budget=st.integers(1, 2000),
    authors=st.lists(st.sampled_from(["a_0", "b_0", "environment"]), min_size=12, max_size=12),
)
@settings(deadline=None)
def test_the_kept_parts_stay_whole_and_the_prompt_fits(lengths, budget, authors):
    turns = [
        said(author, chr(97 + i) * length) for i, (author, length) in enumerate(zip(authors, lengths, strict=False))
    ]
    messages = [SYSTEM, PROBLEM, *turns]
    candidates = movable(messages, num_fixed("", messages))
    kept = [message["content"] for i, message in enumerate(messages) if i not in candidates]
    if sum(len(message["content"]) for message in messages) <= budget:
        return  # `encode` does not ask
    found = by_character(messages, budget)
    if found is None:
        assert sum(map(len, kept)) + len(" [... 9,999 tokens left out ...] ") > budget
        return
    contents, notes = found
    assert sum(map(len, contents)) <= budget
    remaining = iter(contents)
    assert all(content in remaining for content in kept)  # in order
    removed = sum(note.removed for note in notes)
    text = "".join(contents)
    shown = [int(part.split(" ")[0].replace(",", "")) for part in text.split("[... ")[1:]]
    assert sum(shown) == removed
    originals = sum(len(messages[i]["content"]) for i in candidates)
    markers = sum(len(f" [... {count:,} tokens left out ...] ") for count in shown)
    if len(contents) == len(messages):  # not collapsed into one marker
        assert sum(map(len, contents)) == sum(map(len, kept)) + originals - removed + markers


def test_many_turns_collapse_into_one_marker_where_their_markers_do_not_fit():
    messages = [SYSTEM, PROBLEM, *(said(f"a_{i}", "x" * 40) for i in range(10)), said("z_0", "last")]
    contents, notes = by_character(messages, 40)
    assert contents == ["S", "P", "[... 400 tokens left out ...]", "last"]
    assert [note.removed for note in notes] == [40] * 10


def test_what_an_observation_says_of_its_fixed_messages_is_heard():
    example = [said("environment", "example"), said("a_0", "hint"), {"role": "assistant", "content": "solved"}]
    messages = [SYSTEM, *example, PROBLEM, said("a_0", "long"), said("b_0", "last")]
    assert num_fixed(Chat(messages), messages) == 2  # nothing said: up to the first turn
    assert num_fixed(Chat(messages, fixed=5), messages) == 5
    assert movable(messages, 5) == [5]
    assert num_fixed("", [SYSTEM, said("a_0", "the first message is the problem"), said("b_0", "x")]) == 2


@pytest.mark.parametrize("fixed", [-1, 4])
def test_fixed_messages_that_are_not_there_are_refused(fixed):
    messages = [SYSTEM, PROBLEM, said("a_0", "last")]
    with pytest.raises(ValueError, match=rf"fixed_messages = {fixed} of an observation: wanted 0 to 3"):
        num_fixed(Chat(messages, fixed=fixed), messages)


def test_the_latest_turn_stays_whole_beneath_what_the_environment_adds():
    messages = [SYSTEM, PROBLEM, said("a_0", "old"), said("b_0", "new"), said("environment", "Round 2 of 3.")]
    assert movable(messages, 2) == [2]


def test_a_text_without_messages_is_never_cut():
    with pytest.raises(ContextOverflowError, match=r"have 49 tokens, of 49 in all, wanted at most 40"):
        encode(byte_tokenizer(), "x" * 30, 40)


def test_overflow_error_says_how_long_the_prompt_is():
    messages = [SYSTEM, PROBLEM, said("a_0", "a" * 300), said("b_0", "last")]
    whole = encode(byte_tokenizer(), Chat(messages)).ids
    with pytest.raises(ContextOverflowError, match=f"the prompt has {len(whole)} tokens, wanted at most 200"):
        encode(byte_tokenizer(), Chat(messages), 200, "error")
    shortened = encode(byte_tokenizer(), Chat(messages), 200)
    assert len(shortened.ids) <= 200
    assert [note.author for note in shortened.shortened] == ["a_0"]
    assert encode(byte_tokenizer(), Chat(messages), len(whole)).ids.tolist() == whole.tolist()


class Counting:
    """A tokenizer that notes the texts it is asked to tokenise."""

    def __init__(self):
        self.tokenizer, self.texts = byte_tokenizer(), []

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def __call__(self, text, **options):
        self.texts.append(text)
        return self.tokenizer(text, **options)


@pytest.mark.parametrize("budget", [100, 130, 200, 300, 1000])
def test_no_text_is_tokenised_twice(budget):
    """The whole prompt, each turn that may be shortened, and each attempt to shorten them; 100 takes one marker."""
    turns = [said(f"a_{i}", f"{i}" * length) for i, length in enumerate((300, 150, 40))]
    tokenizer = Counting()
    prompt = encode(tokenizer, Chat([SYSTEM, PROBLEM, *turns, said("b_0", "last")]), budget)
    assert len(prompt.ids) <= budget
    assert bool(prompt.shortened) == (budget < 1000)
    assert len(tokenizer.texts) == len(set(tokenizer.texts))


def test_control_symbols_of_a_shortened_turn_stay_broken_up():
    turn = "<|im_end|>" * 200
    prompt = encode(byte_tokenizer(), Chat([SYSTEM, PROBLEM, said("a_0", turn), said("b_0", "last")]), 300)
    ends = byte_tokenizer().convert_tokens_to_ids("<|im_end|>")
    assert (prompt.ids == ends).sum() == 2  # the system prompt's and the user's


# ------------------------------------------------------------------ windows


@pytest.mark.parametrize(
    ("config", "length"),
    [
        (LlamaConfig(max_position_embeddings=2048), 2048),
        (GPT2Config(n_positions=1024), 1024),
        (
            LlamaConfig(
                max_position_embeddings=8192,
                rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4},
                original_max_position_embeddings=2048,
            ),
            None,
        ),
        (Qwen2Config(max_position_embeddings=32768), 32768),
    ],
)
def test_a_model_says_how_much_it_reads(config, length):
    found = context_length(config)
    assert found == length if length is not None else found in (2048, 8192)


@pytest.mark.parametrize(
    ("longest", "asked", "window"), [(128, None, 128), (32768, None, 8192), (None, None, 8192), (32768, 9000, 9000)]
)
def test_the_default_window_is_the_models_up_to_a_bound(longest, asked, window):
    assert choose_window("m", longest, ContextSettings(asked), 64) == window


@pytest.mark.parametrize(
    ("asked", "new_tokens", "message"),
    [
        (200, 64, "context_window = 200: model 'm' reads at most 128 tokens"),
        (None, 240, "max_new_tokens = 240 leaves no room .* wanted fewer than 128"),
        (64, 64, "max_new_tokens = 64 leaves no room .* wanted fewer than 64"),
    ],
)
def test_windows_that_do_not_fit_are_refused(asked, new_tokens, message):
    with pytest.raises(SettingsError, match=message):
        choose_window("m", 128, ContextSettings(asked), new_tokens)


@pytest.mark.parametrize("window", [-1, 0, 1])
def test_a_window_without_room_is_refused(window):
    with pytest.raises(SettingsError, match=r"context_window = .*, wanted >= 2 or none"):
        ContextSettings(window)


def test_a_window_beyond_the_model_is_refused_before_weights_are_loaded(monkeypatch):
    monkeypatch.setattr("marft_agents.policies.team_building.load", None)
    with pytest.raises(SettingsError, match="model 'tiny' reads at most 4096 tokens"):
        build_team(
            ["a_0"],
            {"*": "tiny"},
            lora=LoraSettings(),
            sampling=SamplingParams(),
            context=ContextSettings(context_window=5000),
        )


def small_team(window=128, overflow="shorten", new_tokens=8):
    config = LlamaConfig(
        vocab_size=260, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=window, bos_token_id=None, eos_token_id=257, pad_token_id=258,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    base = AdaptedBase(Pretrained("small", "", model, byte_tokenizer()), ["a_0", "b_0"], LoraSettings(), seed=0)
    local_agents = {agent: LocalAgent(base, agent) for agent in ("a_0", "b_0")}
    return LanguageModelTeam(
        local_agents, SamplingParams(max_new_tokens=new_tokens), context=ContextSettings(overflow=overflow)
    )


def request(agent, observation):
    return Request(agent, observation, np.random.default_rng(0))


LONG = Chat([SYSTEM, PROBLEM, said("a_0", "a" * 300), said("b_0", "last")])


def test_the_models_own_context_bounds_a_prompt_and_its_action():
    team = small_team()
    whole, cut, unfit = team.act([request("a_0", "hi"), request("b_0", LONG), request("a_0", "x" * 619)])
    assert len(cut.prompt_ids) + 8 <= 128
    assert (whole.shortened, whole.failure, cut.failure) == ((), None, None)
    assert [note.author for note in cut.shortened] == ["a_0"]
    assert unfit.failure.startswith("agent 'a_0': system prompt, problem and latest turn have 638 tokens")
    assert "wanted at most 120 " in unfit.failure
    assert "(context_window = 128 less max_new_tokens = 8)" in unfit.failure


def test_overflow_error_ends_the_run():
    with pytest.raises(ContextOverflowError, match=r"agent 'b_0': the prompt has \d+ tokens, wanted at most 120"):
        small_team(overflow="error").act([request("a_0", "hi"), request("b_0", LONG)])


def test_a_judge_whose_prompt_does_not_fit_says_so():
    with pytest.raises(ContextOverflowError, match="agent 'a_0'"):
        completion(small_team(), "a_0")([{"role": "user", "content": "x" * 619}])


def test_other_sampling_parameters_keep_the_window():
    team = small_team(overflow="error")
    again = team.under(SamplingParams(temperature=0, max_new_tokens=5))
    assert (again.context, again.windows) == (team.context, {"a_0": 128, "b_0": 128})


def test_what_was_neither_shortened_nor_refused_is_as_before():
    team = word_team(["speaker_0"])
    observation = "digit 1"
    [action] = team.act([request("speaker_0", observation)])
    assert action.prompt_ids.tolist() == encode(team.local_agent("speaker_0").base.tokenizer, observation).ids.tolist()
    assert (action.shortened, action.failure) == ((), None)


class OneLongProblem(CopyDigit):
    """Episodes whose seed is 1 begin with a problem that no window takes."""

    def reset(self, seed=None, options=None):
        self.long = seed == 1
        super().reset(seed=seed, options=options)

    def observe(self, agent):
        return "x" * 619 if self.long else "hi"


def test_an_episode_whose_prompt_does_not_fit_fails_alone():
    team = small_team()
    agents = OneLongProblem.speakers
    team = LanguageModelTeam(dict.fromkeys(agents, team.local_agents["a_0"]), team.sampling)
    result = evaluate(OneLongProblem, team, [{"seed": i} for i in range(3)], num_envs=2)
    failures = [trajectory.failure for trajectory in result.trajectories]
    assert [failure is None for failure in failures] == [True, False, True]
    assert failures[1].startswith(f"agent {agents[0]!r}: system prompt, problem and latest turn have 638 tokens")
    assert result.prompts_shortened == 0
    assert result.prompt_tokens[agents[0]] == {"mean": 21.0, "max": 21.0}
