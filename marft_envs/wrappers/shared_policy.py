"""An AEC game as one Gymnasium environment: a single policy plays all agents in turn, for the team reward.

Each step is one turn; the reward is what the team gets in it, so that a reward given at the end of a round
reaches the policy once. `info["agent_index"]` says whose turn is next.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from pettingzoo import AECEnv

from marft_envs.wrappers.turn_parallel import numbers_only


class SharedPolicyEnv(gymnasium.Env[Any, Any]):
    """The view.

    Args:
        env: An AEC environment whose agents share one space for observations, one for actions, and end
            together.

    Raises:
        ValueError: The spaces differ.
    """

    def __init__(self, env: AECEnv[str, Any, Any]) -> None:
        self.env = env
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        first, *others = env.possible_agents
        self.observation_space = env.observation_space(first)
        self.action_space = env.action_space(first)
        for agent in others:
            mine = (env.observation_space(agent), env.action_space(agent))
            if mine != (self.observation_space, self.action_space):
                raise ValueError(
                    f"one policy cannot play {first} and {agent}: the spaces are "
                    f"{self.observation_space}, {self.action_space} and {mine[0]}, {mine[1]}"
                )
        self._first = first

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game; arguments as in the game."""
        super().reset(seed=seed)
        self.env.reset(seed=seed, options=options)
        agent = self.env.agent_selection
        return self.env.observe(agent), self._info(agent)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one turn."""
        acting = self.env.agent_selection
        self.env.step(action)
        agent = self.env.agent_selection
        return (
            self.env.observe(agent),
            float(self.env.rewards[acting]),
            bool(self.env.terminations[agent]),
            bool(self.env.truncations[agent]),
            self._info(agent),
        )

    def _info(self, agent: str) -> dict[str, Any]:
        return numbers_only(self.env.infos[agent])

    def render(self) -> Any:
        """Render the game."""
        return self.env.render()

    def close(self) -> None:
        """Close the game."""
        self.env.close()
