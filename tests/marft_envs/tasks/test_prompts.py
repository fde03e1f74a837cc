"""Prompts with a reward function are tasks, and system prompts are a team."""

from __future__ import annotations

from functools import partial

import gymnasium
import pytest

import marft_envs
from marft_envs import TaskList, TaskSet, Team, TeamError
from marft_envs.dependency import independent
from marft_envs.registration import registry
from marft_envs.testing import check_environment

ROWS = [{"prompt": f"Say {word}.", "word": word} for word in ("yes", "no", "yes")]
DUO = {"writer_0": "Write one word.", "editor_0": "Correct the word."}


def share_of_word(row, answer):
    """Return the share of the word's letters that the answer begins with."""
    same = [a == b for a, b in zip(row["word"], answer, strict=False)]
    return sum(same) / len(row["word"])


@pytest.fixture
def forget(monkeypatch):
    """Forget what a test registers."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    yield
    for name in [name for name in gymnasium.registry if name.startswith("told/")]:
        del gymnasium.registry[name]


def final_reward(env, *actions, index=0):
    env.reset(seed=0, options={"index": index})
    for action in actions:
        env.step(action)
    return env.rewards[env.possible_agents[0]]


def test_the_game_pays_what_the_function_returns():
    tasks = TaskList.from_prompts(ROWS, share_of_word, name="words")
    env = marft_envs.make("marft/math_duo-v0", data=tasks, team=Team.from_prompts(DUO))
    assert [tasks[place].id for place in range(3)] == ["train-0", "train-1", "train-2"]
    assert final_reward(env, "yep", "yep", index=0) == pytest.approx(2 / 3)
    assert (env.infos["editor_0"]["success"], env.terminations["editor_0"]) == (0, True)
    assert final_reward(env, "?", "no", index=1) == 1.0
    assert env.infos["editor_0"]["success"] == 1
    assert env.unwrapped.settings["reward"] == "outcome"
    asked = marft_envs.make("marft/math_duo-v0", data=tasks, reward="success")
    assert final_reward(asked, "yep", "yep") == 0.0


def test_the_name_of_the_protocol_makes_tasks_and_asks_no_set_for_it():
    class Plain:
        name = "plain"
        index = begin = __len__ = __getitem__ = lambda *arguments: 0

    class Short(Plain):
        begin = None

    tasks = TaskSet.from_prompts(ROWS, share_of_word, name="words", solved_at=0.5)
    assert isinstance(tasks, TaskList)
    assert isinstance(tasks, TaskSet)
    assert final_reward(marft_envs.make("marft/math_solo-v0", data=tasks), "yes") == 1.0
    assert isinstance(Plain(), TaskSet)
    assert not hasattr(Plain, "from_prompts")
    assert not isinstance(Short(), TaskSet)
    assert not isinstance(ROWS, TaskSet)


def test_texts_alone_are_prompts_and_a_game_goes_on_until_it_is_solved():
    tasks = TaskList.from_prompts(["Count to three."], lambda prompt, answer: len(answer) / 3, solved_at=0.9)
    env = marft_envs.make("marft/math_solo-v0", data=tasks, horizon=3)
    assert final_reward(env, "1") == pytest.approx(1 / 3)
    assert not env.terminations["actor_0"]
    env.step("123")
    assert (env.rewards["actor_0"], env.terminations["actor_0"]) == (1.0, True)


def test_it_registers_trains_and_conforms(forget):
    sets = {split: TaskList.from_prompts(ROWS, share_of_word, split=split) for split in ("train", "test")}
    marft_envs.register_task("words", sets, namespace="told", teams={"duo": Team.from_prompts(DUO)})
    report = check_environment(partial(marft_envs.make, "told/words_duo-v0"), cycles=5)
    assert report.passed, str(report)
    assert marft_envs.make("told/words_duo-v0", split="test").unwrapped.tasks is sets["test"]
    with pytest.raises(ValueError, match="task 'words' has no split 'dev', it was registered with train, test"):
        marft_envs.make("told/words_duo-v0", split="dev")
    with pytest.raises(ValueError, match=r"registered with its problems: found data='mine.jsonl'"):
        marft_envs.make("told/words_duo-v0", data="mine.jsonl")


def test_one_set_is_the_split_train(forget):
    marft_envs.register_task("words", TaskList.from_prompts(ROWS, share_of_word), namespace="told", teams=["solo"])
    assert final_reward(marft_envs.make("told/words_solo-v0"), "yes") == 1.0
    with pytest.raises(ValueError, match=r"register_task\('words', {'train': \.\.\., 'test': \.\.\.}\)"):
        marft_envs.make("told/words_solo-v0", split="test")


@pytest.mark.parametrize("returned", [[1.0], None, float("nan"), "1"])
def test_a_reward_that_is_no_number_is_refused_with_the_task(returned):
    env = marft_envs.make("marft/math_solo-v0", data=TaskList.from_prompts(["Say x."], lambda prompt, answer: returned))
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"the reward of task 'train-0' is .*, wanted one finite number"):
        env.step("x")


@pytest.mark.parametrize("prompt", [{"question": "Say x."}, {"prompt": ["Say x."]}, 3])
def test_a_row_without_a_text_is_refused(prompt):
    with pytest.raises(ValueError, match=r"train-1 is .*, wanted a text, or a row with a text as 'prompt'"):
        TaskList.from_prompts(["fine", prompt], share_of_word)


def test_system_prompts_are_a_team():
    team = Team.from_prompts(DUO)
    assert team.roster == (("writer_0", "editor_0"), frozenset({"editor_0"}))
    assert [profile.system_prompt for profile in team.profiles] == list(DUO.values())
    numbered = Team.from_prompts(["One.", "Two."], dependency="independent", answers=["agent_0", "agent_1"])
    assert numbered.roster.answering == {"agent_0", "agent_1"}
    assert numbered.dependency == independent()
    assert Team.from_dict(numbered.to_dict()) == numbered
    with pytest.raises(TeamError, match="answers: unknown agent 'reader_0'; the team has writer_0, editor_0"):
        Team.from_prompts(DUO, answers=["reader_0"])
    with pytest.raises(TeamError, match="'writer': wanted lower-case letters"):
        Team.from_prompts({"writer": "Write."})
    with pytest.raises(TeamError, match=r"team 'team': .*unknown agent 'reader_0'"):
        Team.from_prompts(DUO, dependency={"kind": "chain", "active": ["reader_0"]})
    with pytest.raises(TeamError, match=r"team 'team': .*'chian'"):
        Team.from_prompts(DUO, dependency="chian")
    with pytest.raises(TeamError, match=r"found one text, wanted a system prompt for each agent: \['Write."):
        Team.from_prompts("Write.")
    with pytest.raises(TeamError, match="found no agents"):
        Team.from_prompts([])


def pay(prompt, answer):
    return 1.0


@pytest.mark.parametrize(
    ("prompts", "reward", "message"),
    [
        ("a text", pay, "found prompts = 'a text', wanted a list"),
        ([], pay, "found no prompts"),
        (["a"], None, "wanted a function reward\\(prompt, answer\\)"),
        (["a"], lambda answer: 1.0, "too many positional arguments; wanted a function"),
    ],
)
def test_what_is_no_list_of_prompts_or_no_reward_is_refused_at_once(prompts, reward, message):
    with pytest.raises(ValueError, match=message):
        TaskSet.from_prompts(prompts, reward)
