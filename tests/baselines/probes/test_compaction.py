"""The compaction probe: its oracle needs the view or the summary, and a window without a compactor is at chance."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

import marft_envs
from baselines.bench.plan_file import read_plan
from baselines.experiment.config_files import EXPERIMENTS
from baselines.experiment.gold_answers import oracle_of
from baselines.probes.compaction import BUDGET, CHANCE, COMPACTOR, WINDOW, CompactionTasks
from marft_envs import Episode, replay
from marft_envs.testing import check_environment

COMPACTED = {"context_rounds": WINDOW, "compaction": COMPACTOR}


def new_game(team="trio", **keywords):
    return marft_envs.make(f"baselines.probes.compaction:probe/compaction_{team}-v0", split="test", **keywords)


def play(env, index, say):
    env.reset(seed=0, options={"index": index})
    while not any(env.terminations.values()):
        env.step(say(env.agent_selection, env.observe(env.agent_selection)))
    return env.unwrapped.episode()


def success(env, say=None):
    oracle, count = oracle_of(env), len(env.unwrapped.tasks)
    said = say or (lambda agent, seen: oracle(env.unwrapped, agent, seen))
    return sum(play(env, index, said).success for index in range(count)) / count


@pytest.mark.parametrize(
    ("team", "keywords", "wanted"),
    [
        ("solo", {}, 1.0),
        ("duo", {}, 1.0),
        ("duo", {"context_rounds": WINDOW}, CHANCE),
        ("trio", COMPACTED, 1.0),
        ("trio", {"compaction": COMPACTOR}, 1.0),
        ("trio", COMPACTED | {"told": 7}, 1.0),
        ("duo", {"context_rounds": WINDOW, "told": 7}, CHANCE),
    ],
)
def test_the_oracle_needs_the_first_round_or_a_summary_of_it(team, keywords, wanted):
    assert success(new_game(team, **keywords)) == pytest.approx(wanted)


def test_in_a_window_every_policy_is_at_chance():
    """The best answers to what the answering agent sees, over the whole split."""
    env, answers = new_game("duo", context_rounds=WINDOW), Counter()
    for index in range(len(env.unwrapped.tasks)):
        turn = play(env, index, lambda agent, seen: "0").turns[-1]
        answers[turn.observation, env.unwrapped.task.answer] += 1
    best = {seen: max(answers[seen, str(digit)] for digit in range(3)) for seen, _ in answers}
    assert sum(best.values()) / sum(answers.values()) == pytest.approx(CHANCE)


def test_a_summary_that_keeps_nothing_leaves_chance():
    env = new_game(**COMPACTED)
    oracle = oracle_of(env)
    assert success(
        env, lambda agent, seen: "1" if agent == COMPACTOR else oracle(env.unwrapped, agent, seen)
    ) == pytest.approx(CHANCE)
    assert not play(env, 0, lambda agent, seen: "1").outcomes[-1].detail["kept"]


@pytest.mark.parametrize(("told", "rounds"), [(4, [3]), (7, [3, 6])])
def test_the_compactor_acts_over_the_budget_and_before_the_window_leaves_anything_out(told, rounds):
    env = new_game(told=told, **COMPACTED)
    env.reset(seed=0, options={"index": 0})
    acted = []
    while not any(env.terminations.values()):
        agent, info = env.agent_selection, env.infos[env.agent_selection]
        if agent == COMPACTOR:
            acted.append(info["round"])
            assert info["transcript"] > BUDGET
        env.step("0")
    assert acted == rounds
    record = env.unwrapped.episode()
    assert replay(new_game(told=told, **COMPACTED), Episode.from_json(record.to_json())) == []
    wide = play(new_game(told=told, compaction=COMPACTOR), 0, lambda agent, seen: "0")
    assert [str(turn.observation) for turn in wide.turns] == [str(turn.observation) for turn in record.turns]


def test_splits_share_no_game():
    train, test = (CompactionTasks(split) for split in ("train", "test"))
    assert (len({task.prompt for task in train}), len({task.prompt for task in test})) == (240, 120)
    assert not {task.prompt for task in train} & {task.prompt for task in test}
    for arguments in [("dev",), ("test", 5)]:
        with pytest.raises(ValueError, match="compaction: found split"):
            CompactionTasks(*arguments)


def test_it_conforms():
    report = check_environment(partial(new_game, **COMPACTED), cycles=5, thorough=False)
    left_out = {"random text wins nothing"}  # any character is a digit
    assert [str(check) for check in report.checks if check.passed is False and check.name not in left_out] == []


def test_every_task_of_the_plan_is_paid_for_as_many_games():
    games = set()
    for task in read_plan(EXPERIMENTS / "bench" / "compaction.toml").tasks:
        record = play(marft_envs.make(task.plan.env, **task.keywords("train", *task.teams.values())), 0, lambda *_: "a")
        games.add(task.plan.training_tokens / len(record.turns))
    assert games == {40 * 256}
