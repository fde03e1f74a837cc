from __future__ import annotations

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test

import marft_envs
from marft_envs import SharedPolicyEnv, TurnParallel
from tests.helpers.toy_games import toy_game, toy_tasks


def wrapped(**kwargs):
    return marft_envs.make("marft/math_trio-v0", data=toy_tasks(), **kwargs)


def test_official_parallel_tests():
    parallel_api_test(TurnParallel(wrapped(horizon=2)), num_cycles=50)
    parallel_seed_test(lambda: TurnParallel(wrapped(horizon=2)), num_cycles=50)


def test_only_the_active_agent_acts():
    env = TurnParallel(wrapped())
    observations, infos = env.reset(seed=0, options={"task_id": "add-3"})
    assert set(observations) == set(env.agents)
    assert "What is 3 + 1?" in observations["actor_0"]
    assert [infos[agent]["active"] for agent in env.agents] == [1, 0, 0]
    for turn, active in enumerate(env.possible_agents):
        actions = {agent: f"\\boxed{{4}} by {agent}" for agent in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)
        last = turn == 2
        assert set(rewards.values()) == {float(last)}
        assert set(terminations.values()) == {last}
        assert not any(truncations.values())
        assert sum(info["active"] for info in infos.values()) == (not last)
        assert f"by {active}" in observations["actor_0"]
    assert "by verifier_0" not in observations["reasoner_0"]
    assert env.agents == []
    assert env.env.unwrapped.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})
    assert set(infos) == set(env.possible_agents)


def test_the_active_agents_action_must_be_there():
    env = TurnParallel(wrapped())
    env.reset(seed=0)
    with pytest.raises(KeyError, match="the turn of reasoner_0"):
        env.step({"actor_0": "x"})


def test_parallel_attributes_that_libraries_read():
    env = TurnParallel(wrapped(render_mode="ansi"))
    env.reset(seed=0)
    assert env.observation_spaces["actor_0"] is env.observation_space("actor_0")
    assert env.action_spaces["actor_0"] is env.action_space("actor_0")
    assert env.state() in env.state_space
    assert "round 1" in env.render()
    assert env.unwrapped is env
    env.close()


def test_one_policy_plays_all_for_the_team_reward():
    env = SharedPolicyEnv(wrapped(horizon=2))
    observation, info = env.reset(seed=0, options={"index": 3})
    assert info["agent_index"] == 0
    assert "reasoner" in observation
    rewards, indices = [], []
    for action in ["a", "b", "\\boxed{1}", "c", "d", "\\boxed{4}"]:
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        indices.append(info["agent_index"])
    assert rewards == [0, 0, 0, 0, 0, 1]
    assert terminated
    assert not truncated
    assert indices[:5] == [1, 2, 0, 1, 2]


def test_gymnasium_check_env():
    check_env(SharedPolicyEnv(toy_game(horizon=2)), skip_render_check=True)


@pytest.mark.filterwarnings("ignore:.*")
def test_gymnasium_make_and_sync_vector():
    env = gymnasium.make("marft_envs:marft/math_duo-v0", data=toy_tasks(), render_mode="ansi")
    check_env(env.unwrapped)
    vector = gymnasium.make_vec("marft_envs:marft/math_duo-v0", num_envs=3, vectorization_mode="sync", data=toy_tasks())
    observations, _ = vector.reset(seed=5)
    single = SharedPolicyEnv(marft_envs.make("marft/math_duo-v0", data=toy_tasks()))
    assert observations == tuple(single.reset(seed=5 + place)[0] for place in range(3))
    observations, *_ = vector.step(("x", "y", "z"))
    assert "[reasoner_0]\ny" in observations[1]
    vector.close()


@pytest.mark.filterwarnings("ignore:.*")
def test_asynchronous_vectors_fail_loudly_instead_of_returning_zeros():
    with pytest.raises((ValueError, gymnasium.error.CustomSpaceError), match="shared_memory=False"):
        gymnasium.make_vec("marft_envs:marft/math_duo-v0", num_envs=2, vectorization_mode="async", data=toy_tasks())


def test_a_shared_game_that_is_over_asks_for_a_reset():
    env = SharedPolicyEnv(marft_envs.make("marft/math_duo-v0", data=toy_tasks()))
    env.reset(seed=0)
    env.step("a")
    assert any(env.step("b")[2:4])
    for action in ("c", None):
        with pytest.raises(RuntimeError, match=r"the game is over: call reset\(\)"):
            env.step(action)
    env.reset(seed=0)
    env.step("a")


def test_unequal_spaces_cannot_be_shared():
    game = toy_game()
    game.action_spaces["b_0"] = marft_envs.UnicodeText(3)
    with pytest.raises(ValueError, match="one policy cannot play a_0 and b_0"):
        SharedPolicyEnv(game)
