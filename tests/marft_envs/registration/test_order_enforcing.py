"""The faster order wrapper checks what PettingZoo's own does, with the same errors and warnings."""

from __future__ import annotations

import copy

import pytest
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from marft_envs.registration.order_enforcing import OrderEnforced
from tests.helpers.toy_games import toy_game

WRAPPERS = (OrderEnforcingWrapper, OrderEnforced)
LOOKS = ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos", "num_agents")
CALLS = {
    "step": lambda env: env.step("1"),
    "last": lambda env: env.last(),
    "observe": lambda env: env.observe("a_0"),
    "state": lambda env: env.state(),
    "render": lambda env: env.render(),
    "agent_iter": lambda env: env.agent_iter(),
    **{name: lambda env, name=name: getattr(env, name) for name in LOOKS},
}


def told(wrapper, ask, *, begin=False):
    """Return type and text of the error."""
    env = wrapper(toy_game("a_0", "b_0"))
    if begin:
        env.reset(seed=1)
    with pytest.raises((AttributeError, AssertionError)) as caught:
        ask(env)
    return caught.type, str(caught.value)


@pytest.mark.parametrize("call", CALLS)
def test_before_the_first_reset_everything_is_refused_as_pettingzoo_does(call):
    theirs, ours = (told(wrapper, CALLS[call]) for wrapper in WRAPPERS)

    assert ours == theirs


def play(env):
    """Play a game to its end and beyond; return all that was seen."""
    seen = []
    env.reset(seed=1, options={"index": 0})
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        seen.append((agent, str(observation), reward, terminated, truncated, dict(info), dict(env.rewards)))
        env.step(None if terminated or truncated else f"{agent} says 1")
    return [*seen, env.agents, env.num_agents, str(env), env.last(observe=False) if env.agents else None]


def test_a_game_is_the_same_behind_both():
    theirs, ours = (play(wrapper(toy_game("a_0", "b_0", horizon=2))) for wrapper in WRAPPERS)

    assert ours == theirs


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_step_after_the_end_warns(wrapper, caplog):
    env = wrapper(toy_game("a_0", "b_0"))
    play(env)
    caplog.clear()
    env.step("again")

    assert [record.getMessage() for record in caplog.records] == [
        "[WARNING]: step() called after all agents are terminated or truncated. Should reset() first."
    ]


def test_a_loop_without_a_step_is_refused():
    def idle(env):
        for _ in env.agent_iter():
            pass

    theirs, ours = (told(wrapper, idle, begin=True) for wrapper in WRAPPERS)

    assert ours == theirs
    assert ours[0] is AssertionError


@pytest.mark.parametrize("most", [0, 1, 3])
def test_the_turns_of_a_loop_are_limited_and_it_can_begin_again(most):
    def turns(env):
        env.reset(seed=1)
        loop, taken = env.agent_iter(most), []
        for _ in range(2):
            for agent in loop:
                taken.append(agent)
                env.step(f"{agent} says 1")
        return taken

    theirs, ours = (turns(wrapper(toy_game("a_0", "b_0", horizon=4))) for wrapper in WRAPPERS)

    assert ours == theirs
    assert len(ours) == 2 * most


def test_a_copy_goes_on_alone():
    env = OrderEnforced(toy_game("a_0", "b_0"))
    env.reset(seed=1)
    clone = copy.deepcopy(env)
    clone.step("1")

    assert (env.agent_selection, clone.agent_selection) == ("a_0", "b_0")
