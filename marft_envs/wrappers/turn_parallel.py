"""An AEC game as PettingZoo's parallel interface: one agent is active per step, other actions are ignored.

Unlike `pettingzoo.utils.turn_based_aec_to_parallel` the infos hold numbers only (a string breaks TorchRL),
with the same keys at every step, and the game is drained at its end (skrl reads `unwrapped.agents`).
`infos[a]["active"]` is 1 for the agent whose action the next step takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from pettingzoo import AECEnv, ParallelEnv

_NUMBERS = (int, float, np.number, np.ndarray)


class TurnParallel(ParallelEnv[str, Any, Any]):
    """The view.

    Args:
        env: An AEC environment whose agents all end together.
    """

    def __init__(self, env: AECEnv[str, Any, Any]) -> None:
        self.env = env
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        self.possible_agents = list(env.possible_agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}
        if hasattr(env, "state_space"):
            self.state_space = env.state_space
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        """Return the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        """Return the same object each time."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin a game; arguments as in the game."""
        self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)
        return self._observations(), self._infos(self.env.agent_selection)

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Take the active agent's turn.

        Args:
            actions: By agent; only that of the active agent counts.

        Raises:
            KeyError: The active agent's action is missing.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        active = self.env.agent_selection
        if active not in actions:
            raise KeyError(f"it is the turn of {active}, but there are only actions of {sorted(actions)}")
        self.env.step(actions[active])
        agents = self.agents
        rewards = {agent: float(reward) for agent, reward in self.env.rewards.items()}
        terminations, truncations = dict(self.env.terminations), dict(self.env.truncations)
        ended = all(terminations[agent] or truncations[agent] for agent in agents)
        infos = self._infos(None if ended else self.env.agent_selection)
        observations = self._observations()
        if ended:
            self._drain()
        return observations, rewards, terminations, truncations, infos

    def _observations(self) -> dict[str, Any]:
        observe = self.env.observe
        return {agent: observe(agent) for agent in self.agents}

    def _infos(self, active: str | None) -> dict[str, dict[str, Any]]:
        return {agent: numbers_only(info) | {"active": int(agent == active)} for agent, info in self.env.infos.items()}

    def _drain(self) -> None:
        while self.env.agents:
            self.env.step(None)
        self.agents = []

    def state(self) -> Any:
        """Return the state of the game."""
        return self.env.state()

    def render(self) -> Any:
        """Render the game."""
        return self.env.render()

    def close(self) -> None:
        """Close the game."""
        self.env.close()


def numbers_only(info: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the numbers and arrays of an info.

    Example:
        >>> numbers_only({"turn": 1, "author": "a_0", "score": None})
        {'turn': 1}
    """
    return {key: value for key, value in info.items() if isinstance(value, _NUMBERS)}
