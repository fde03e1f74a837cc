"""`marft check ID --learns`: a tiny model of the environment's words learns a game that can be learned."""

from __future__ import annotations

import pytest

import marft_envs
from baselines.bench.learns import FEW_WORDS, Learns, learns, words_of
from baselines.cli.main import main
from baselines.experiment.experiment import Experiment, read_model
from baselines.probes import digit_games
from marft_agents.models.pretrained import load_tokenizer
from marft_agents.models.random_models import random_model
from marft_envs import TaskList, Team

COPY = f"{digit_games.__name__}:probe/copy_duo-v0"


def test_the_words_are_those_of_right_actions_then_those_of_the_prompts():
    tasks = TaskList.from_prompts([f"Say word{place} or another" for place in range(40)], lambda prompt, answer: 1.0)
    team = Team.from_prompts({"a_0": "You advise.", "b_0": "Say what you were told."})
    env = marft_envs.make("marft/math_duo-v0", data=tasks, team=team)
    words, longest = words_of(env, [{"index": place} for place in range(40)])
    assert len(words) == FEW_WORDS
    assert set(words[:2]) == {"or", "another"}  # in all tasks, and of no profile
    assert "You" not in words  # those of profiles come last
    assert longest == 4  # nobody knows how long a right action is
    solved, longest = words_of(marft_envs.make("marft/gsm8k_duo-v0", data="embedded:stories"), [{"index": 0}])
    assert solved[0].startswith("\\boxed{")
    assert longest == 2  # the box, and the end of the action


def test_a_model_takes_any_words():
    name = "tiny-words:yes no yes <unk> \\boxed{4}"
    assert read_model(name) == name
    assert read_model("tiny-words:" + "word " * 200) == "tiny-words:" + "word " * 200  # longer than a file's name
    tokenizer = load_tokenizer(name)
    assert len(tokenizer) == 6
    assert tokenizer("yes \\boxed{4} maybe").input_ids == [3, 5, 0]
    assert random_model("tiny-words").config().vocab_size == 24
    assert random_model("smollm2-135m") is None
    experiment = Experiment("marft/math_duo-v0", models=name)
    assert experiment.models == {"*": name}


@pytest.mark.probes
def test_copying_a_digit_is_learned_with_messages_alone():
    found = learns(COPY, {})
    assert len(found.intact) == len(found.muted) == 24
    assert found.verdict.startswith("learned: success rises from 0.")
    assert "the agents use what they tell each other" in found.verdict
    assert [line.split()[0] for line in str(found).splitlines()[1:4]] == ["updates", "intact", "muted"]


@pytest.mark.parametrize(
    ("intact", "muted", "wanted"),
    [
        ([0.0] * 8, [0.0] * 8, "no signal: none of 1024 episodes was solved"),
        ([0.3] * 8, [0.3] * 8, "not learned: success stays near 0.30"),
        ([0.1] * 4 + [0.9] * 4, [0.1] * 4 + [0.9] * 4, "and to 0.90 without messages: they are not needed"),
        (
            [0.1] * 4 + [0.9] * 4,
            [0.1] * 8,
            "learned: success rises from 0.10 to 0.90, and without messages only to 0.10",
        ),
        ([0.1, 0.9], None, "learned: success rises from 0.10 to 0.90"),
    ],
)
def test_the_verdict(intact, muted, wanted):
    assert wanted in Learns("x", ("a",), intact, muted, 1.0).verdict


def test_the_command_prints_both_curves(capsys):
    assert main(["check", COPY, "--learns", "--updates", "1"]) == 0
    out = capsys.readouterr().out
    assert "a random model of" in out
    assert "1 updates" in out
    assert "muted" in out
