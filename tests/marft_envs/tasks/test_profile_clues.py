"""Private clues: all of them together name the person, one less does not, and the list alone tells nothing."""

from __future__ import annotations

import pytest

import marft_envs
from baselines.experiment.gold_answers import oracle_of
from marft_envs.tasks.profile_clues import CLUES, SPLITS, ProfileTasks, Sought, draw

IDS = [env_id for env_id in marft_envs.envs() if env_id.startswith("marft/profile_")]


def success(env, count):
    oracle, solved = oracle_of(env), 0
    for index in range(count):
        env.reset(seed=0, options={"index": index})
        while not any(env.terminations.values()):
            env.step(oracle(env.unwrapped, env.agent_selection, env.observe(env.agent_selection)))
        solved += env.unwrapped.episode().success
    return solved / count


@pytest.mark.parametrize("env_id", IDS)
def test_the_oracle_solves_every_problem_with_every_team(env_id):
    assert success(marft_envs.make(env_id, split="test"), 50) == 1.0


@pytest.mark.parametrize("clues", CLUES)
def test_without_messages_the_oracle_is_at_chance(clues):
    env = marft_envs.make(f"marft/profile_holders{clues}-v0", split="test", communication="none")
    assert success(env, 400) == pytest.approx(1 / (clues + 1), abs=0.05)


@pytest.mark.parametrize("clues", CLUES)
def test_with_one_clue_less_two_people_fit_and_splits_share_no_list(clues):
    lists = {}
    for split, count in SPLITS.items():
        problems = draw(clues, split)
        assert len(problems) == count
        lists[split] = {frozenset(problem.people.splitlines()) for problem in problems}
        for problem in problems[:50]:
            people = dict(line.split() for line in problem.people.splitlines())
            for left_out in range(clues + 1):
                told = [clue for place, clue in enumerate(problem.clues) if place != left_out]
                fit = [name for name, word in people.items() if f"not {word}" not in told]
                assert problem.answer in fit
                assert len(fit) == (1 if left_out == clues else 2)
    assert not lists["train"] & lists["test"]
    assert not lists["train"] & lists["bench"]
    assert not lists["test"] & lists["bench"]


def test_a_holder_sees_its_clue_alone_and_the_guesser_the_list():
    env = marft_envs.make("marft/profile_holders4-v0")
    env.reset(seed=0, options={"index": 1})
    task = env.unwrapped.task
    for place, clue in enumerate(task.clues):
        shown = env.observe(f"holder_{place}").messages[-1]["content"]
        assert shown == f"Clue: {clue}"
    assert env.observe("guesser_0").messages[-1]["content"] == f"{task.people}\nWho is it?"


@pytest.mark.parametrize(("said", "success"), [("Ann", True), ("It is Ann.", True), ("Ann or Ben", False), ("", False)])
def test_one_name_is_an_answer(said, success):
    task = Sought("one", "", "Ann", "test", people="Ann tea\nBen milk\nEva fig", clues=("not milk", "not fig"))
    env = marft_envs.make("marft/profile_holders2-v0", data=ProfileTasks([task]))
    env.reset(seed=0)
    for action in ("not milk", "not fig", said):
        env.step(action)
    assert env.unwrapped.episode().success == success


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"clues": 4}, "has 2 holders for 4 clues"),
        ({"clues": 3}, "clues: found 3, wanted one of 2, 4, 8"),
        ({"split": "dev"}, "found split 'dev', wanted one of train, test, bench"),
        ({"data": "hub:a/b"}, "problems are drawn"),
    ],
)
def test_what_cannot_be_played_is_refused(keywords, told):
    with pytest.raises(ValueError, match=told):
        marft_envs.make("marft/profile_holders2-v0", **keywords)
