"""An AEC game as one Gymnasium environment: a single policy plays all agents in turn, for the team reward.

Each step is one turn. The reward is the team reward of that turn (the mean over the agents), so that a reward given at
the end of a round reaches the policy once. `info["agent_index"]` is the index of the next agent.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from marft_envs.wrappers.base import AnyAEC
from marft_envs.wrappers.episode_end import ending, let_go, team_reward
from marft_envs.wrappers.masks import MaskPlace, Where, mask_of
from marft_envs.wrappers.numeric_infos import NumericInfos


class SharedPolicyEnv(gymnasium.Env[Any, Any]):
    """Gymnasium environment in which one policy plays all agents.

    Args:
        env: An AEC environment whose agents share one space for observations and one for actions.
        mask: Place of the masks: "obs", "info" or nowhere (`action_masks()` is always there, for sb3-contrib).
        obs_key: With "obs": the key of the observation.
        mask_key: The key of the mask.

    Raises:
        ValueError: The spaces differ, or `mask` with actions that are not `Discrete`.
    """

    def __init__(
        self, env: AnyAEC, *, mask: Where = None, obs_key: str = "observation", mask_key: str = "action_mask"
    ) -> None:
        self.env = env
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        self.place = MaskPlace(mask, obs_key, mask_key)
        first, *others = env.possible_agents
        seen, self.action_space = env.observation_space(first), env.action_space(first)
        for agent in others:
            mine = (env.observation_space(agent), env.action_space(agent))
            if mine != (seen, self.action_space):
                raise ValueError(
                    f"one policy cannot play {first} and {agent}: the spaces are "
                    f"{seen}, {self.action_space} and {mine[0]}, {mine[1]}"
                )
        self.observation_space = self.place.space(seen, self.action_space)
        self._numeric = NumericInfos()
        self._over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game; arguments as in the game."""
        super().reset(seed=seed)
        self.env.reset(seed=seed, options=options)
        self._over = False
        self._numeric.of(self.env.infos)
        return self._look()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one turn.

        Raises:
            RuntimeError: The game is over.
        """
        if self._over:
            raise RuntimeError("the game is over: call reset() before the next step()")
        self.env.step(action)
        reward = team_reward(self.env.rewards, len(self.env.possible_agents))
        terminated, truncated = ending(self.env)
        self._over = terminated or truncated
        let_go(self.env)
        observation, info = self._look()
        return observation, reward, terminated, truncated, info

    def _look(self) -> tuple[Any, dict[str, Any]]:
        """Return the observation and info of the agent that acts now."""
        agent = self.env.agent_selection
        mask = None if self.place.where is None else mask_of(self.env, agent)
        observation, *_, own = self.env.last()
        info = self._numeric.of({agent: own})[agent] | {"agent_index": self.env.possible_agents.index(agent)}
        return self.place.observation(observation, mask), self.place.info(info, mask)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return True for each action that is legal now; the form of sb3-contrib."""
        return mask_of(self.env, self.env.agent_selection).astype(bool)

    def render(self) -> Any:
        """Render the game."""
        return self.env.render()

    def close(self) -> None:
        """Close the game."""
        self.env.close()
