"""What the environment itself costs: turns per CPU-second with plain actions."""

from __future__ import annotations

import time

from marft_envs.testing.playing import begun, plain_action
from marft_envs.testing.report import Make, require

MIN_TURNS_PER_CPU_S = 200
_LONG_ENOUGH_S = 0.05


def overhead(make: Make, cycles: int) -> str:
    """Look and act like a policy's loop, for a twentieth of a second of CPU time."""
    env = begun(make)
    actions = {agent: plain_action(env, agent) for agent in env.possible_agents}
    turns, start = 0, time.process_time()
    while (spent_s := time.process_time() - start) < _LONG_ENOUGH_S:
        if not env.agents:
            env.reset()
        _, _, terminated, truncated, _ = env.last()
        ended = terminated or truncated
        env.step(None if ended else actions[env.agent_selection])
        turns += not ended
    speed = turns / spent_s
    require(speed >= MIN_TURNS_PER_CPU_S, f"{speed:,.0f} turns per CPU-second, wanted at least {MIN_TURNS_PER_CPU_S}")
    return f"{speed:,.0f} turns per CPU-second"
