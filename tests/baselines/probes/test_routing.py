"""The routing probe, its control with random routes, and the plan that compares them."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

import marft_envs
from baselines.bench.plan_errors import PlanError
from baselines.bench.plan_file import plan_of
from baselines.bench.random_router import RandomRouter
from baselines.bench.units import Training, cells_of, units_of
from baselines.probes.routing import AGENTS, CHANCE, EXPERTS, ORCHESTRATOR

ASK = "baselines.probes.routing:probe/ask_routed-v0"
TASK = {
    "name": "ask",
    "env": ASK,
    "model": "tiny",
    "teams": ["solo"],
    "test_on_trained": True,
    "training_tokens": 100,
    "max_new_tokens": 1,
}


def new_game(**keywords):
    return marft_envs.make(ASK, **keywords)


def play(env, index, say):
    """Play a task; return the record."""
    env.reset(seed=index, options={"index": index})
    while not env.terminations[ORCHESTRATOR]:
        env.step(say(env.agent_selection, env.observe(env.agent_selection)))
    return env.unwrapped.episode()


def test_the_oracle_asks_the_expert_of_the_topic_and_wins():
    env = new_game()
    game = env.unwrapped
    asked = Counter()
    for index in range(100):
        record = play(env, index, lambda agent, seen: game.tasks.oracle(game.task, agent, seen))
        assert record.success
        assert not any(turn.fault for turn in record.turns)
        assert [turn.agent for turn in record.turns[:1]] == [ORCHESTRATOR]
        asked[record.turns[1].agent] += 1
    assert set(asked) == set(EXPERTS)
    assert min(asked.values()) > 30


@pytest.mark.parametrize("mute", [False, True])
def test_no_team_wins_more_than_chance_without_using_the_topic(mute):
    """The best answers to what the asked expert sees, whoever is always asked."""
    best = 0.0
    for route in ("a", "-> b", "digit"):
        answers, env = defaultdict(Counter), new_game(mute=mute)
        for index in range(512):
            env.reset(seed=0, options={"index": index})
            env.step(route)
            expert = env.agent_selection
            assert expert == ("b_0" if "b" in route else "a_0")
            answers[env.observe(expert)][env.unwrapped.session.answer] += 1
        best = max(best, sum(max(counts.values()) for counts in answers.values()) / 512)
    assert best == pytest.approx(CHANCE, abs=0.05)
    env.reset(seed=0, options={"index": 0})
    assert ("topic ?" in env.observe(ORCHESTRATOR)) == mute


def test_random_routes_take_no_notice_of_what_the_orchestrator_says():
    def routes(said, seed):
        env = RandomRouter(new_game(), seed)
        records = [play(env, index, lambda agent, seen: said) for index in range(40)]
        assert not any(turn.fault for record in records for turn in record.turns)
        return [record.turns[1].agent for record in records]

    assert routes("-> a_0", 0) == routes("nobody", 0) != routes("-> a_0", 1)
    assert 10 < routes("x", 0).count("a_0") < 30
    preset = RandomRouter(marft_envs.make("marft/math_routed-v0"), 0)
    preset.reset(seed=0, options={"index": 0})
    preset.step("-> actor_0")
    assert preset.agent_selection in ("arithmetic_0", "algebra_0", "geometry_0")
    with pytest.raises(ValueError, match="wanted a Flex-MG whose dependency is `routed`"):
        RandomRouter(marft_envs.make("marft/math_duo-v0"), 0)


def a_plan(*tasks, arms=("team", "random_router")):
    return plan_of({"name": "routing", "arms": list(arms), "tasks": list(tasks)})


def test_only_routed_teams_have_the_arm_with_random_routes(tmp_path):
    own = tmp_path / "routed.json"
    new_game().unwrapped.team.save(own)
    routed = {**TASK, "teams": [str(own)]}
    chain = {**routed, "name": "chain", "keywords": {"dependency": "chain"}}
    found = [(cell.task, cell.arm) for cell in cells_of(a_plan(routed, chain))]
    assert found == [("ask", "team"), ("ask", "random_router"), ("chain", "team")]
    trainings = {unit.name for unit in units_of(a_plan(routed)).values() if isinstance(unit, Training)}
    assert len(trainings) == 1  # both arms play the same trained team
    with pytest.raises(PlanError, match="no team is `routed`"):
        a_plan(chain)
    with pytest.raises(PlanError, match="wanted both among the arms"):
        a_plan(routed, arms=["random_router"])


def test_the_agents_of_the_probe_are_named_after_topics():
    assert AGENTS == (ORCHESTRATOR, "a_0", "b_0")
