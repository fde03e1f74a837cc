"""Infos of the agents: numbers about the game beside the observations, with the same keys for all from reset on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


class Infos:
    """Infos of the current step. Those of an agent are made when they are looked at: most steps show only one.

    Args:
        agents: Agents of the team, in its order.
        window: Rounds that observations show.
        reward: Reward of the game; each of its terms is an info `term_NAME`, 0.0 before it is paid.
    """

    _state: GameState
    _numbers: dict[str, int]  # Infos that are the same for all agents

    def __init__(self, agents: Sequence[str], window: Window, reward: RewardFunction) -> None:
        self._places = {agent: place for place, agent in enumerate(agents)}
        self._window = window
        self._terms = [(f"term_{name}", name) for name in reward.weights]
        self._made: dict[str, dict[str, Any]] = {}

    def begin_step(self, state: GameState) -> Mapping[str, int]:
        """Begin new infos, as the caller may hold the old ones; return the numbers of the state."""
        self._state = state
        self._numbers = state.numbers()
        self._made = {}
        return self._numbers

    def of_all(self, agents: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the infos of several agents, in their order; PettingZoo takes those of agents that leave out of it."""
        if len(self._made) < len(agents):
            self._made = {agent: self.of(agent) for agent in agents}
        return self._made

    def of(self, agent: str) -> dict[str, Any]:
        """Return the infos of one agent."""
        if agent in self._made:
            return self._made[agent]
        state = self._state
        played = state.rounds[-1]
        layer = played.plan.layer_of.get(agent, -1)
        seen = played.plan.sees[agent]
        awaited = seen.difference(played.said)  # agents that it sees in this round and that have not acted
        visible = len(seen) - len(awaited)
        # Counted, not listed: `visible_turns` would build a list in every step.
        if len(state.rounds) > 1:
            for earlier in state.rounds[self._window.first(agent, state.rounds) : -1]:
                visible += len(earlier.plan.sees_after[agent])
        info: dict[str, Any] = self._numbers.copy()
        for key, name in self._terms:
            info[key] = state.terms.get(name, 0.0)
        info["layer"] = layer
        info["ready"] = 0 if awaited or layer < 0 or agent in played.said else 1
        info["agent_index"] = self._places[agent]
        info["visible"] = visible
        self._made[agent] = info
        return info
