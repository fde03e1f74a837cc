"""Overhead of the environment: turns per CPU-second with plain actions."""

from __future__ import annotations

import time
from collections.abc import Iterator

from marft_envs.testing.playing import begun, plain_action
from marft_envs.testing.report import Make, require

MIN_TURNS_PER_CPU_S = 200
_STRETCHES = 5
_LONG_ENOUGH_S = 0.02


def overhead(make: Make, cycles: int) -> str:
    """Observe and act like a policy's loop, for up to five periods of a fiftieth of a second of CPU time.

    The fastest period counts, and one that is fast enough ends the check. In a large process a single garbage
    collection takes longer than a period, and that is not the environment's cost.
    """
    fastest = 0.0
    for turns_per_cpu_s in _stretches(make):
        fastest = max(fastest, turns_per_cpu_s)
        if fastest >= MIN_TURNS_PER_CPU_S:
            break
    require(
        fastest >= MIN_TURNS_PER_CPU_S, f"{fastest:,.0f} turns per CPU-second, wanted at least {MIN_TURNS_PER_CPU_S}"
    )
    return f"{fastest:,.0f} turns per CPU-second"


def _stretches(make: Make) -> Iterator[float]:
    env = begun(make)
    actions = {agent: plain_action(env, agent) for agent in env.possible_agents}
    for _ in range(_STRETCHES):
        turns, start = 0, time.process_time()
        while (spent_s := time.process_time() - start) < _LONG_ENOUGH_S:
            if not env.agents:
                env.reset()
            _, _, terminated, truncated, _ = env.last()
            ended = terminated or truncated
            env.step(None if ended else actions[env.agent_selection])
            turns += not ended
        yield turns / spent_s
