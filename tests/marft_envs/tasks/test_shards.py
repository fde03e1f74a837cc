"""Documents in parts: the oracle solves them, no agent sees two parts, and one agent has its notes alone."""

from __future__ import annotations

import re

import pytest

import marft_envs
from baselines.experiment.gold_answers import oracle_of
from marft_envs.tasks.shards import NAMES, PARTS, SPLITS, Shards, ShardTasks, draw

IDS = [env_id for env_id in marft_envs.envs() if env_id.startswith("marft/shards_")]
FEW = 12  # problems played


def play(env, index, say=None):
    """Play a problem with the oracle, or with `say(agent, observation)`; return the record and what agents saw."""
    oracle = oracle_of(env)
    env.reset(seed=0, options={"index": index})
    seen = []
    while not any(env.terminations.values()) and not any(env.truncations.values()):
        agent, observation = env.agent_selection, env.observe(env.agent_selection)
        seen.append((agent, observation))
        env.step(say(agent, observation) if say else oracle(env.unwrapped, agent, observation))
    return env.unwrapped.episode(), seen


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("env_id", IDS)
def test_the_oracle_solves_every_problem_with_every_team(env_id, in_order):
    env = marft_envs.make(env_id, split="test", in_order=in_order)
    for index in range(FEW):
        record, _ = play(env, index)
        assert record.success
        assert record.rewards[-1] == 1.0


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("parts", PARTS)
def test_splits_share_no_question_and_every_part_is_needed(parts, chained):
    asked = {}
    for split, (count, _) in SPLITS.items():
        problems = draw(parts, 3, split, chained=chained)
        assert len({problem.prompt for problem in problems}) == count
        asked[split] = {frozenset(line.split()[0] for line in problem.sought) for problem in problems}
        for problem in problems[:50]:
            assert [line in part for line, part in zip(problem.sought, problem.parts, strict=True)] == [True] * parts
            assert problem.answer.split() == [line.split()[1] for line in problem.sought]
            names = re.findall(r"^\w+", "\n".join(problem.parts), re.MULTILINE)
            assert len(set(names)) == 3 * parts
    assert not asked["train"] & asked["test"]
    assert not asked["train"] & asked["bench"]
    assert not asked["test"] & asked["bench"]


def test_a_chain_leads_from_part_to_part():
    for problem in draw(4, 3, "test", chained=True)[:50]:
        assert problem.question == f"Follow {problem.sought[0].split()[0]}."
        for line, following in zip(problem.sought, problem.sought[1:], strict=False):
            assert line.split()[1] == following.split()[0]


def test_readers_see_their_own_part_alone_and_the_writer_none():
    env = marft_envs.make("marft/shards_readers4-v0", split="test")
    _, seen = play(env, 3)
    task = env.unwrapped.task
    for agent, observation in seen:
        shown = [place for place, part in enumerate(task.parts) if part in observation]
        assert shown == ([int(agent.removeprefix("reader_"))] if agent != "writer_0" else [])


@pytest.mark.parametrize(("team", "kept"), [("solo2", ["second"]), ("notes2", ["first", "second"])])
def test_one_agent_reads_in_turns_and_remembers_its_notes_alone(team, kept):
    env = marft_envs.make(f"marft/shards_{team}-v0", split="test")
    notes = iter(["first", "second", "1 2"])
    _, seen = play(env, 0, lambda agent, observation: next(notes))
    task, last = env.unwrapped.task, seen[2][1]
    assert [[part in observation for part in task.parts] for _, observation in seen] == [
        [True, False],
        [False, True],
        [False, False],
    ]
    assert last.messages[-1]["content"] == f"Notes: {'; '.join(kept)}\n{task.question}"


def test_the_score_is_the_share_of_right_values_and_wrong_ones_lower_it():
    [tasks] = {marft_envs.make("marft/shards_readers2-v0").unwrapped.tasks}
    task = Shards("one", "", "7 3", "test", question="Rooms of Tim and Ann?", parts=("Tim 7", "Ann 3"), sought=())
    scores = {said: tasks.judged(task, said) for said in ("3 7", "Tim 7, Ann 3", "7", "7 7", "7 3 2", "37", "")}
    assert [round(each.reward, 2) for each in scores.values()] == [1.0, 1.0, 0.5, 0.5, 0.67, 0.0, 0.0]
    assert [each.success for each in scores.values()] == [True, True, False, False, False, False, False]
    assert scores[""].invalid


def test_in_order_a_value_counts_only_at_the_place_of_its_part():
    problems = draw(4, 4, "test")
    tasks = ShardTasks(problems, in_order=True)
    task = Shards("one", "", "7 3", "test", question="Rooms of Tim and Ann?", parts=("Tim 7", "Ann 3"), sought=())
    scores = {said: tasks.judged(task, said) for said in ("7 3", "3 7", "Tim 7, Ann 3", "7", "7 3 2", "")}
    assert [round(each.reward, 2) for each in scores.values()] == [1.0, 0.0, 1.0, 0.5, 0.67, 0.0]
    assert [each.success for each in scores.values()] == [True, False, True, False, False, False]
    assert tasks.vote([scores["7 3"]]) != tasks.vote([scores["3 7"]])
    both = ShardTasks(problems), tasks
    shares = [sum(by.judged(problem, "5 6 8 7").reward for problem in problems) / len(problems) for by in both]
    assert shares == pytest.approx([0.45, 0.10], abs=0.01)  # what a guess is worth


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"parts": 4}, "has 2 readers for 4 parts"),
        ({"parts": 3}, "parts: found 3, wanted one of 2, 4, 8"),
        ({"lines": len(NAMES)}, f"found {len(NAMES)}, wanted 2 to {len(NAMES) // 2}"),
        ({"split": "dev"}, "found split 'dev', wanted one of train, test, bench"),
        ({"view": "whole"}, "view='whole' is for one agent, found 2 readers"),
        ({"in_order": 1}, "in_order: found 1, wanted True or False"),
        ({"notes": "some"}, "notes: found 'some', wanted one of last, all"),
        ({"data": "hub:a/b"}, "the problems are drawn"),
    ],
)
def test_what_cannot_be_played_is_refused(keywords, told):
    with pytest.raises(ValueError, match=told):
        marft_envs.make("marft/shards_readers2-v0", **keywords)


def test_own_documents_need_one_number_of_parts():
    one, other = (Shards(name, "", "1", "test", parts=("a",) * count) for name, count in (("a", 1), ("b", 2)))
    with pytest.raises(ValueError, match=r"documents with \[1, 2\] parts"):
        ShardTasks([one, other])
