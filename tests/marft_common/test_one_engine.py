"""One engine: random games go the same way through `make_vec`, through `collect`, and by hand."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marft_agents.policies.scripted import ScriptedPolicy
from marft_agents.rollouts.rollout import collect
from marft_agents.trajectory import EpisodeStart
from marft_envs import make_vec
from tests.marft_common.random_games import FAULTS, RandomGame


def say(agent, observation):
    """An action whose length, which is paid, depends on all that was seen."""
    return agent * (1 + sum(map(ord, observation)) % 7)


def vectorised(seeds, threads):
    with make_vec(RandomGame, len(seeds), threads=threads) as games:
        waiting = games.reset(seeds=seeds)
        ended = list(games.ended)
        while waiting:
            waiting = games.step({turn.index: say(turn.agent, turn.observation) for turn in waiting})
            ended += games.ended
    return sorted(ended, key=lambda game: game.index)


def collected(seeds, threads, num_envs):
    episodes = [EpisodeStart(number, number, seed) for number, seed in enumerate(seeds)]
    return collect(RandomGame, ScriptedPolicy(say), episodes, seed=0, num_envs=num_envs, step_threads=threads)


def by_hand(seed):
    """Play with PettingZoo's own loop, to the end or to the first exception."""
    env = RandomGame()
    found = SimpleNamespace(actions=[], paid={}, team=[], truncated=False, infos={}, error=None, env=env)
    try:
        env.reset(seed=seed)
        for agent in env.agent_iter(max_iter=200):
            dead = env.terminations[agent] or env.truncations[agent]
            action = None if dead else say(agent, env.observe(agent))
            env.step(action)
            if dead:
                continue
            paid = {one: float(reward) for one, reward in env.rewards.items()}
            found.actions.append((agent, action))
            found.team.append(sum(paid.values()) / len(paid))
            found.truncated = any(env.truncations[one] and not env.terminations[one] for one in env.agents)
            for one, reward in paid.items():
                found.paid[one] = found.paid.get(one, 0.0) + reward
        assert not env.agents, "does not end"
    except Exception as error:
        found.error = error
    return found


@given(seeds=st.lists(st.integers(0, 10**6), min_size=1, max_size=6), threads=st.sampled_from([0, 3]))
def test_random_games_end_alike_through_make_vec_through_collect_and_by_hand(seeds, threads):
    vector, trajectories = vectorised(seeds, threads), collected(seeds, threads, num_envs=2)
    for seed, ended, trajectory in zip(seeds, vector, trajectories, strict=True):
        hand = by_hand(seed)
        assert ended.failure == trajectory.failure
        assert (ended.failure is None) == (hand.error is None)
        assert [(turn.agent, turn.action.text) for turn in trajectory.turns] == hand.actions
        assert [turn.reward for turn in trajectory.turns] == pytest.approx(hand.team)
        if hand.error is None:
            assert (ended.turns, ended.rewards) == (len(hand.actions), hand.paid)
            assert ended.truncated == trajectory.truncated == hand.truncated
            assert ended.terminated == trajectory.terminated == (not hand.truncated)
        elif hand.env.fault != "undead":
            assert f"{type(hand.error).__name__}: " in ended.failure


def test_the_random_games_have_every_fault_and_every_end():
    ended = vectorised(range(300), 0)
    starts = {str(game.failure).split(" ")[0].rstrip(":") for game in ended}
    assert starts == {"None", "reset", "observation", "step", "last", "who"}
    faults = [by_hand(seed).env.fault for seed, game in enumerate(ended) if game.failure is not None]
    assert set(faults) == set(FAULTS)
    assert {(game.terminated, game.truncated) for game in ended} == {(True, False), (False, True), (False, False)}
    assert max(game.turns for game in ended) > 5
