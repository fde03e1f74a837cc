"""Infos of the agents: numbers about the game beside the observations, with the same keys for all from reset on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marft_envs.game.observation import Window
from marft_envs.game.rewards import RewardFunction
from marft_envs.game.state import GameState

INFO_KEYS: Mapping[str, str] = {
    "success": "1 once the task is solved",
    "invalid": "faults of the team so far: actions cut or repaired, routes refused, answers not readable",
    "turn": "turns taken so far",
    "round": "the round being played, from 0",
    "layer": "of this agent in the round, from 0; -1 where it does not act",
    "ready": "1 if this agent may act now: all actions that it sees in the round are taken, and its own is not",
    "agent_index": "place of this agent in the team",
    "visible": "actions of others that this agent may see now",
    "task_index": "place of the task in its set",
    "violation": "1 once the team broke a rule of a safety task; never part of success",
    "phase": "phase of the task that the round belongs to, from 0; tasks without phases stay in 0",
    "transcript": "characters of all texts and actions so far that no compaction has replaced",
}
_OWN = {"layer": -1, "ready": 0, "agent_index": 0, "visible": 0}  # infos that differ between agents


def shared_info(numbers: Mapping[str, int], reward: RewardFunction, terms: Mapping[str, float]) -> dict[str, Any]:
    """Return the infos that are the same for all agents, with room for those that are not.

    Args:
        numbers: Numbers of the state, see `GameState.numbers`.
        reward: Reward of the game; each of its terms is an info `term_NAME`.
        terms: Terms paid so far; 0.0 for those that are missing.
    """
    shared: dict[str, Any] = dict(numbers)
    for name in reward.weights:
        shared[f"term_{name}"] = terms.get(name, 0.0)
    return shared | _OWN


def own_info(agent: str, index: int, shared: dict[str, Any], state: GameState, window: Window) -> dict[str, Any]:
    """Return the infos of one agent.

    Args:
        agent: Name of the agent.
        index: Place of the agent in the team.
        shared: Infos of all agents, see `shared_info`.
        state: State of the game.
        window: Rounds that observations show.
    """
    played = state.rounds[-1]
    layer = played.plan.layer_of.get(agent, -1)
    seen = played.plan.sees[agent]
    awaited = seen.difference(played.said)  # agents that it sees in this round and that have not acted
    visible = len(seen) - len(awaited)
    if len(state.rounds) > 1:
        for earlier in state.rounds[window.first(agent, state.rounds) : -1]:
            visible += len(earlier.plan.sees_after[agent])
    info = shared.copy()
    info["layer"] = layer
    info["ready"] = 0 if awaited or layer < 0 or agent in played.said else 1
    info["agent_index"] = index
    info["visible"] = visible
    return info
