"""The problem and the latest turn reach the model whole, regardless of the length of other turns."""

from __future__ import annotations

import json
import string
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from baselines.cli.main import main
from marft_agents.models.chat_template import encode
from marft_agents.models.random_models import byte_tokenizer
from marft_agents.policies.scripted import ScriptedPolicy
from marft_agents.rollouts.rollout import EpisodeStart, collect
from marft_agents.runs.run_folder import episode_record
from marft_envs import FlexMG, Outcome, Profile, Task, Team
from marft_envs.dependency import full
from marft_envs.game.episode import Episode as GameRecord
from marft_envs.records.replay import replay

SIZES = range(1, 13)
FORMS = ("full", "last", "record", "summary", "tail:300", "none")
MARKS = ("<<start>>", "<<middle>>", "<<end>>")
PROBLEM = f"{MARKS[0]} What is one and one? {MARKS[1]} Think of apples, not of pears. {MARKS[2]}"
PLAIN_TEMPLATE = (
    "{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
CORPUS = [PROBLEM, "apples and pears, then one by one, so it is two and so on 0 1 2 3 4 5 6 7 8 9", "tokens left out"]


class Problems:
    """One problem with a marker at its start, in its middle and at its end."""

    name = "marked"

    def __init__(self):
        self.tasks = [Task("marked-0", PROBLEM, "2", "test")]

    def __len__(self):
        return len(self.tasks)

    def __getitem__(self, index):
        return self.tasks[index]

    def index(self, task_id):
        return {"marked-0": 0}[task_id]

    def judge(self, task, answer, *, round, last_round):
        return Outcome(reward=0.0, terminated=last_round, success=False, invalid=False)


def game(size, form="full", horizon=1):
    profiles = [Profile(f"agent_{i}", f"system of agent_{i}.", answers=i == size - 1) for i in range(size)]
    return FlexMG(Problems(), Team("marked", tuple(profiles), full()), communication=form, horizon=horizon)


class WithoutOffsets:
    """A tokenizer that does not tell which characters its tokens come from."""

    is_fast = False

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __call__(self, text, **options):
        return self._tokenizer(text, **options)


@cache
def tokenizers():
    """Return tokenizers of several kinds: bytes, byte-level BPE, Unigram, and one without offsets."""
    merged = Tokenizer(models.BPE())
    merged.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    merged.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    merged.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    pieces = Tokenizer(models.Unigram())
    pieces.pre_tokenizer, pieces.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    letters = sorted(set("".join(CORPUS) + string.printable))
    options = {"vocab_size": 200, "initial_alphabet": letters, "unk_token": "<u>", "special_tokens": ["<u>"]}
    pieces.train_from_iterator(CORPUS, trainers.UnigramTrainer(**options))
    wrapped = [
        PreTrainedTokenizerFast(tokenizer_object=one, eos_token="<eos>", chat_template=PLAIN_TEMPLATE)
        for one in (merged, pieces)
    ]
    return {
        "bytes": byte_tokenizer(),
        "byte-level BPE": wrapped[0],
        "Unigram": wrapped[1],
        "without offsets": WithoutOffsets(byte_tokenizer()),
    }


KINDS = ("bytes", "byte-level BPE", "Unigram", "without offsets")


def observation_of_the_last(env, say):
    """Play until the last agent of the last round must act; return what it sees."""
    env.reset(seed=0)
    last = env.possible_agents[-1]
    while not (env.agent_selection == last and env.infos[last]["round"] == env.horizon - 1):
        env.step(say(env.agent_selection))
    return env.observe(last)


def long_turn(agent):
    return f"[{agent} begins]" + " apples and pears, one by one" * 40 + f"\n\nSummary: [{agent} ends]"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES)
def test_the_problem_survives_whatever_teammates_write(size, form, kind):
    tokenizer = tokenizers()[kind]
    seen = observation_of_the_last(game(size, form), long_turn)
    last_turn = [message["content"] for message in seen.messages if message.get("name") == f"agent_{size - 2}"]
    kept = encode(tokenizer, type(seen)("", [*seen.messages[:2], *seen.messages[2:][-1:]]))
    budget = len(kept.ids) + 60
    prompt = encode(tokenizer, seen, budget)
    text = tokenizer.decode(prompt.ids)
    assert len(prompt.ids) <= budget
    for wanted in (f"system of agent_{size - 1}.", PROBLEM, *last_turn):
        assert "".join(wanted.split()) in "".join(text.split())
    whole = encode(tokenizer, seen).ids
    assert bool(prompt.shortened) == (len(whole) > budget)
    for note in prompt.shortened:
        assert seen.messages[note.message]["name"] == note.author
        assert note.author not in ("environment", f"agent_{size - 1}", f"agent_{size - 2}")


@given(
    turns=st.lists(st.text(max_size=300), min_size=36, max_size=36),
    size=st.integers(2, 12),
    form=st.sampled_from(FORMS),
    kind=st.sampled_from(["bytes", "byte-level BPE"]),
    room=st.integers(40, 400),
)
@settings(deadline=None, max_examples=30)
def test_any_words_leave_the_problem_whole_over_several_rounds(turns, size, form, kind, room):
    said = iter(turns)
    env = game(size, form, horizon=3)
    seen = observation_of_the_last(env, lambda agent: next(said))
    tokenizer = tokenizers()[kind]
    spoken = [m for m in seen.messages[2:] if m["role"] == "assistant" or m.get("name") != "environment"]
    kept = [*seen.messages[:2], *([spoken[-1]] if spoken[-1] != seen.messages[-1] else []), seen.messages[-1]]
    budget = len(encode(tokenizer, type(seen)("", kept)).ids) + room
    prompt = encode(tokenizer, seen, budget)
    assert len(prompt.ids) <= budget
    text = tokenizer.decode(prompt.ids)
    assert PROBLEM in text
    assert f"system of agent_{size - 1}." in text


class Shortening(ScriptedPolicy):
    """Plays a script as a model with a short context window would."""

    def act(self, requests):
        from dataclasses import replace

        prompts = [encode(byte_tokenizer(), request.observation, 1000) for request in requests]
        return [
            replace(action, prompt_ids=prompt.ids, token_ids=np.zeros(3, np.int32), shortened=prompt.shortened)
            for action, prompt in zip(super().act(requests), prompts, strict=True)
        ]


@pytest.mark.parametrize(
    ("form", "reader", "wanted"),
    [
        ("full", "agent_2", [("agent_0", 0), ("agent_1", 0), ("agent_2", 0), ("agent_0", 1)]),
        ("last", "agent_2", [("agent_2", 0), ("agent_0", 1)]),
    ],
)
def test_records_say_which_turns_were_shortened(form, reader, wanted):
    policy = Shortening(lambda agent, _: f"{agent} " + "x" * 400)
    [played] = collect(lambda: game(3, form, horizon=2), policy, [EpisodeStart(0, 0, 0)], seed=0)
    turn = played.game["turns"][-1]
    assert turn["agent"] == reader
    assert [(entry["author"], entry["round"]) for entry in turn["shortened"]] == wanted
    assert all(entry["removed"] > 0 for entry in turn["shortened"])
    reduced = episode_record(0, played)
    assert reduced["game"]["turns"][-1]["shortened"] == turn["shortened"]
    assert [note["author"] for note in reduced["turns"][-1]["shortened"]] == [author for author, _ in wanted]
    assert "shortened" not in reduced["turns"][0]
    record = GameRecord.from_dict(json.loads(json.dumps(played.game)))
    assert GameRecord.from_json(record.to_json()) == record
    assert replay(game(3, form, horizon=2), record) == []


def test_a_run_counts_shortened_prompts_and_raises_an_alarm(tmp_path, capsys):
    arguments = ["train", "--env", "marft/math_trio-v0", "--model", "tiny", "--updates", "1", "--groups", "1"]
    arguments += ["--group-size", "2", "--max-new-tokens", "200", "--context-window", "1300", "--out"]
    assert main([*arguments, str(tmp_path / "run")]) == 0
    [metrics] = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    episodes = [json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()]
    turns = [turn for episode in episodes for turn in episode["turns"]]
    assert max(turn["prompt_tokens"] for turn in turns) <= 1100
    assert metrics["team/prompts_shortened"] == np.mean([bool(turn.get("shortened")) for turn in turns]) > 0
    longest = max(turn["prompt_tokens"] for turn in turns if turn["agent"] == "actor_0")
    assert metrics["actor_0/prompt_tokens_max"] == longest
    assert metrics["team/alarm_context"] == 1
    assert "context of team" in capsys.readouterr().err
    state = json.loads((tmp_path / "run" / "checkpoints" / "update-00001" / "state.json").read_text())
    assert state["context"] == {
        "context_window": 1300,
        "overflow": "shorten",
        "windows": dict.fromkeys(["reasoner_0", "verifier_0", "actor_0"], 1300),
    }
    evaluation = ["eval", "--env", "marft/math_trio-v0", "--checkpoint", str(tmp_path / "run"), "--limit", "2", "--out"]
    assert main([*evaluation, str(tmp_path / "eval")]) == 0
    summary = json.loads((tmp_path / "eval" / "evaluation.json").read_text())
    assert summary["context"] == {"context_window": 1300, "overflow": "shorten"}
    assert summary["prompt_tokens"]["actor_0"]["max"] <= 1100
    assert 0 <= summary["prompts_shortened"] <= 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--context-window", "5000"], "context_window = 5000: model 'tiny' reads at most 4096 tokens"),
        (["--context-window", "-3"], "context_window = -3, wanted >= 2 or none"),
        (["--context-window", "64", "--max-new-tokens", "64"], "max_new_tokens = 64 leaves no room for a prompt"),
        (["--max-new-tokens", "4096"], "wanted fewer than 4096"),
        (["--context-window", "99", "--max-new-tokens", "9"], "agent 'reasoner_0': system prompt, problem and latest"),
    ],
)
@pytest.mark.parametrize("command", ["train", "eval"])
def test_windows_that_do_not_fit_are_refused_before_anything_loads(
    command, flags, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("marft_agents.policies.team_building.load", None)
    arguments = [command, "--env", "marft/math_duo-v0", "--model", "tiny", "--out", str(tmp_path / "out"), *flags]
    assert main(arguments) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_window_means_nothing_to_an_endpoint(tmp_path, capsys):
    arguments = ["eval", "--env", "marft/math_duo-v0", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m"]
    assert main([*arguments, "--overflow", "error", "--out", str(tmp_path / "out")]) == 1
    assert "leave out --overflow, of models that run here" in capsys.readouterr().err


def test_an_endpoint_is_asked_for_one_model(tmp_path, capsys):
    arguments = ["eval", "--env", "marft/math_duo-v0", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m"]
    assert main([*arguments, "--model", "n", "--out", str(tmp_path / "out")]) == 1
    assert "--endpoint asks one model: found --model m n, wanted one NAME" in capsys.readouterr().err
