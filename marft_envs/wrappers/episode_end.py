"""Helpers for joint termination, draining and the team reward of an AEC game."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any


def is_over(env: Any, agent: str) -> bool:
    """Return True if an agent of an AEC game has ended."""
    return bool(env.terminations[agent] or env.truncations[agent])


def ending(env: Any) -> tuple[bool, bool]:
    """Return (terminated, truncated) of the whole game; it is truncated if one of its last agents is."""
    agents, terminations, truncations = env.agents, env.terminations, env.truncations  # once: wrappers cost a call each
    if not all(terminations[agent] or truncations[agent] for agent in agents):
        return False, False
    cut = any(truncations[agent] and not terminations[agent] for agent in agents)
    return not cut, cut


def let_go(env: Any) -> None:
    """Step agents that have ended, so that one that still plays is selected."""
    while is_over(env, env.agent_selection) and not any(ending(env)):
        env.step(None)


def drain(env: Any) -> None:
    """Step all agents of a game that is over, until none is left."""
    while env.agents:
        env.step(None)


def team_reward(rewards: Mapping[str, float], num_agents: int) -> float:
    """Return the team reward: the mean over its agents, or the reward itself if all share it.

    Examples:
        >>> team_reward({"a_0": 0.1, "b_0": 0.1, "c_0": 0.1}, 3), team_reward({"a_0": 1.0}, 2)
        (0.1, 0.5)
    """
    paid = [float(reward) for reward in rewards.values()] + [0.0] * (num_agents - len(rewards))
    return paid[0] if len(set(paid)) == 1 else fmean(paid)
