"""Third-party tests: those of PettingZoo and Gymnasium, unmodified, and the needs of their vector environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.vector.utils import create_shared_memory, iterate

from marft_envs.testing.playing import equal, plain_action
from marft_envs.testing.report import Make, NotApplicable, RuleBrokenError, require
from marft_envs.wrappers import SharedPolicyEnv, TurnParallel


def api(make: Make, cycles: int) -> str:
    """Run `api_test`, on the environment and on the bare one."""
    from pettingzoo.test import api_test

    api_test(make(), num_cycles=cycles)
    api_test(make().unwrapped, num_cycles=cycles)
    return ""


def seeds(make: Make, cycles: int) -> str:
    """Run `seed_test`."""
    from pettingzoo.test import seed_test

    seed_test(make, num_cycles=cycles)
    return ""


def parallel_api(make: Make, cycles: int) -> str:
    """Run `parallel_api_test` on our parallel view, and on PettingZoo's."""
    from pettingzoo.test import parallel_api_test
    from pettingzoo.utils.conversions import turn_based_aec_to_parallel

    parallel_api_test(TurnParallel(make()), num_cycles=cycles)
    parallel_api_test(turn_based_aec_to_parallel(make()), num_cycles=cycles)
    return ""


def parallel_seeds(make: Make, cycles: int) -> str:
    """Run `parallel_seed_test` on our parallel view, and on PettingZoo's."""
    from pettingzoo.test import parallel_seed_test
    from pettingzoo.utils.conversions import turn_based_aec_to_parallel

    parallel_seed_test(lambda: TurnParallel(make()), num_cycles=cycles)
    parallel_seed_test(lambda: turn_based_aec_to_parallel(make()), num_cycles=cycles)
    return ""


def render(make: Make, cycles: int) -> str:
    """Run `render_test`."""
    from pettingzoo.test import render_test

    run: Callable[..., None] = render_test  # its annotation omits that `make` takes render_mode
    run(make)
    return ""


def state(make: Make, cycles: int) -> str:
    """Run `state_test`."""
    from pettingzoo.test import state_test

    if not hasattr(make(), "state_space"):
        raise NotApplicable("it has no state_space, for central critics")
    state_test(make(), TurnParallel(make()), num_cycles=cycles)
    return ""


def benchmark(make: Make, cycles: int) -> str:
    """Run `performance_benchmark`; it takes five seconds."""
    from pettingzoo.test import performance_benchmark

    performance_benchmark(make())
    return ""


def shared_policy(make: Make) -> SharedPolicyEnv:
    """Return the view in which one policy plays all agents.

    Raises:
        NotApplicable: Their spaces differ.
    """
    try:
        return SharedPolicyEnv(make())
    except ValueError as error:
        raise NotApplicable(str(error)) from error


def gymnasium_check(make: Make, cycles: int) -> str:
    """Run Gymnasium's `check_env` on the view in which one policy plays all agents."""
    from gymnasium.utils.env_checker import check_env

    check_env(shared_policy(make))
    return ""


def vectors(make: Make, cycles: int) -> str:
    """Compare two games in Gymnasium's vector environment with one alone; request shared memory as well.

    `AsyncVectorEnv` silently returns zeros for text for ever, unless the space refuses shared memory.
    """
    alone = shared_policy(make)
    both = gymnasium.vector.SyncVectorEnv([lambda: shared_policy(make)] * 2)
    shown, _ = alone.reset(seed=1)
    seen, _ = both.reset(seed=[1, 1])
    ended = False
    while not ended:
        for each in iterate(both.observation_space, seen):
            require(equal(each, shown), "a vector of two games shows something else than one game alone")
        action = plain_action(alone.env, alone.env.agent_selection)
        shown, _, terminated, truncated, _ = alone.step(action)
        seen, _, _, _, _ = both.step((action, action))
        ended = terminated or truncated
    _require_refusal(alone.observation_space)
    return ""


def _require_refusal(space: gymnasium.Space[Any]) -> None:
    inner = space.spaces.values() if isinstance(space, spaces.Dict) else (space,)
    if not any(isinstance(entry, spaces.Text) for entry in inner):
        return
    try:
        create_shared_memory(space, 2)
    except gymnasium.error.CustomSpaceError:
        return
    raise RuleBrokenError(f"{space!r:.80} goes into shared memory, where gymnasium.make_vec(..., 'async') loses it")
