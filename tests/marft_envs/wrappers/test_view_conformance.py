"""Every stack of views over every game passes the unmodified tests of PettingZoo and Gymnasium."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test, state_test

from marft_envs.wrappers import SharedPolicyEnv, TurnParallel
from tests.marft_envs.wrappers.views import GAMES, MASKED, NUMERIC, VIEWS, turns

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")  # these tests warn of whatever is no plain array
PAIRS = list(itertools.product(GAMES, VIEWS))


@pytest.mark.parametrize(("game", "view"), PAIRS)
def test_aec(game, view):
    api_test(VIEWS[view](GAMES[game]()), num_cycles=30)
    seed_test(lambda: VIEWS[view](GAMES[game]()), num_cycles=30)


@pytest.mark.parametrize(("game", "view"), PAIRS)
def test_parallel(game, view):
    parallel_api_test(TurnParallel(VIEWS[view](GAMES[game]())), num_cycles=30)
    parallel_seed_test(lambda: TurnParallel(VIEWS[view](GAMES[game]())), num_cycles=30)


@pytest.mark.parametrize(("game", "view", "mask"), list(itertools.product(GAMES, MASKED, ["obs", "info", None])))
def test_parallel_with_a_no_op(game, view, mask):
    def make():
        return TurnParallel(VIEWS[view](GAMES[game]()), noop=True, mask=mask)

    parallel_api_test(make(), num_cycles=30)
    parallel_seed_test(make, num_cycles=30)


@pytest.mark.parametrize(("game", "view"), list(itertools.product(GAMES, NUMERIC)))
def test_state(game, view):
    state_test(VIEWS[view](GAMES[game]()), TurnParallel(VIEWS[view](GAMES[game]())), num_cycles=30)


@pytest.mark.parametrize(("game", "view"), PAIRS)
def test_gymnasium(game, view):
    check_env(SharedPolicyEnv(VIEWS[view](GAMES[game]())), skip_render_check=True)


@pytest.mark.parametrize(
    ("game", "view", "mask"), list(itertools.product(["duo, 2 rounds", "third party"], MASKED, ["obs", "info"]))
)
def test_gymnasium_with_masks(game, view, mask):
    env = SharedPolicyEnv(VIEWS[view](GAMES[game]()), mask=mask, obs_key="obs", mask_key="mask")
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize(("game", "view"), PAIRS)
def test_infos_are_numbers_with_fixed_keys(game, view):
    env = VIEWS[view](GAMES[game]())
    env.reset(seed=0)
    shapes = {key: np.shape(value) for key, value in env.infos[env.agent_selection].items()}
    assert "invalid" in shapes
    for seed in range(3):
        env.reset(seed=seed)
        for agent in turns(env):
            env.step(env.action_space(agent).sample())
            for info in env.infos.values():
                assert {key: np.shape(value) for key, value in info.items()} == shapes
                assert all(np.issubdtype(np.asarray(value).dtype, np.number) for value in info.values())
