"""The memory probe: its agents have no profiles, the oracle solves it, and its plan pays for as many episodes each."""

from __future__ import annotations

import pytest

import marft_envs
from baselines.bench.plan_file import read_plan
from baselines.experiment.config_files import EXPERIMENTS
from baselines.experiment.gold_answers import oracle_of
from baselines.probes.memory import CHANCE, TEAMS

HERE = "baselines.probes.memory:probe"


def success(env, count=60):
    oracle, solved = oracle_of(env), 0
    for index in range(count):
        env.reset(seed=0, options={"index": index})
        while not any(env.terminations.values()):
            agent = env.agent_selection
            action = oracle(env.unwrapped, agent, env.observe(agent))
            assert len(action) == 1
            env.step(action)
        solved += env.infos[agent]["success"]
    return solved / count


@pytest.mark.parametrize("team", TEAMS)
def test_the_oracle_solves_it_with_words_of_one_token_and_no_profile(team):
    env = marft_envs.make(f"{HERE}/recall_{team}-v0", split="test")
    assert success(env) == 1.0
    assert env.observe(env.possible_agents[-1]).messages[0]["content"].startswith("topic ")
    assert success(marft_envs.make(f"{HERE}/recall_{team}-v0", split="test", memory="none")) == pytest.approx(CHANCE)
    distilled = marft_envs.make(f"{HERE}/recall_{team}-v0", split="test", memory={"distil": "agents"}, horizon=7)
    assert success(distilled) == 1.0


def test_every_task_of_the_plan_is_paid_for_as_many_episodes():
    plan = read_plan(EXPERIMENTS / "bench" / "memory.toml")
    episodes = set()
    for task in plan.tasks:
        env = marft_envs.make(task.plan.env, **task.keywords("train", *task.teams.values()))
        env.reset(seed=0, options={"index": 0})
        while not any(env.terminations.values()):
            env.step("a")
        episodes.add(task.plan.training_tokens / len(env.unwrapped.episode().turns))
    assert episodes == {60 * 256}
