"""An AEC game as PettingZoo's parallel interface: the agents of a layer act in one step, other actions are ignored.

A layer are the agents that are ready (see `environment_capabilities`): none sees what another of them does. Independent
agents act in one joint step, a chain of N in N steps. In an AEC game that does not say who is ready, one agent acts per
step. `infos[a]["active"]` is 1 for each agent whose action the next step takes.

There are three more differences to `pettingzoo.utils.turn_based_aec_to_parallel`. The infos hold numbers only (a string
breaks TorchRL), with the same keys at every step. All agents end together, with the same flags. The game is drained at
its end (skrl reads `unwrapped.agents`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from marft_envs.environment_capabilities import AnyAEC, ready_agents
from marft_envs.wrappers.episode_end import drain, ending, let_go
from marft_envs.wrappers.masks import Mask, MaskPlace, Where, mask_of
from marft_envs.wrappers.numeric_infos import NumericInfos


class TurnParallel(ParallelEnv[str, Any, Any]):
    """PettingZoo parallel environment around an AEC game.

    An agent that leaves before the others stays in the game: idle, without reward, with its last observation.

    Args:
        env: An AEC environment.
        noop: Add a last action "do nothing" (`Discrete(n + 1)`): for an idle agent the only legal one, for an
            active agent illegal. Without it, learners train on actions that did nothing.
        mask: Place of the masks: "obs", "info" or nowhere.
        obs_key: With "obs": the key of the observation.
        mask_key: The key of the mask.

    Raises:
        ValueError: `noop` or `mask` with actions that are not `Discrete`.
    """

    def __init__(
        self,
        env: AnyAEC,
        *,
        noop: bool = False,
        mask: Where = None,
        obs_key: str = "observation",
        mask_key: str = "action_mask",
    ) -> None:
        self.env = env
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        self.possible_agents = list(env.possible_agents)
        self.noop = noop
        self.place = MaskPlace(mask, obs_key, mask_key)
        self.action_spaces = {}
        for agent in self.possible_agents:
            space = env.action_space(agent)
            if noop:
                if not isinstance(space, spaces.Discrete):
                    raise ValueError(f"noop: the actions are {space}, wanted Discrete ones")
                space = spaces.Discrete(int(space.n) + 1)
            self.action_spaces[agent] = space
        self.observation_spaces = {
            agent: self.place.space(env.observation_space(agent), self.action_spaces[agent])
            for agent in self.possible_agents
        }
        if hasattr(env, "state_space"):
            self.state_space = env.state_space
        self.agents: list[str] = []
        self._numeric = NumericInfos()
        self._seen: dict[str, Any] = {}
        self._told: dict[str, Mapping[str, Any]] = {}
        self._active: Collection[str] = ()

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
        self._seen, self._told = {}, {}
        self._active = ready_agents(self.env)
        return self._look()

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Take the turns of the active agents.

        Args:
            actions: Actions by agent; only those of the active agents count.

        Raises:
            KeyError: The action of an active agent is missing; nothing has been stepped.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        env, agents = self.env, self.agents
        if missing := [agent for agent in self._active if agent not in actions]:
            raise KeyError(f"it is the turn of {', '.join(missing)}, but there are only actions of {sorted(actions)}")
        rewards = dict.fromkeys(agents, 0.0)
        for agent in self._active:
            if env.agent_selection != agent:  # another layer comes between in the turn order
                env.select(agent)  # type: ignore[attr-defined]
            env.step(actions[agent])
            paid = env.rewards
            for each in agents:
                rewards[each] += float(paid.get(each, 0.0))
        terminated, truncated = ending(env)
        if terminated or truncated:
            self._active = ()
            observations, infos = self._look()
            drain(env)
            self.agents = []
        else:
            let_go(env)
            self._active = ready_agents(env)
            observations, infos = self._look()
        return observations, rewards, dict.fromkeys(agents, terminated), dict.fromkeys(agents, truncated), infos

    def _look(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Return the observations and infos of all agents."""
        env, active = self.env, self._active
        observe = env.observe
        self._seen.update({agent: observe(agent) for agent in env.agents})
        self._told.update(env.infos)
        numbers = self._numeric.of(self._told)
        masks: dict[str, Mask | None] = dict.fromkeys(self.agents)
        if self.place.where is not None:
            for agent in self.agents:
                legal = mask_of(env, agent)
                if self.noop:  # the last action does nothing: the only legal one of an agent whose turn it is not
                    legal = legal if agent in active else np.zeros_like(legal)
                    legal = np.append(legal, np.int8(agent not in active))
                masks[agent] = legal
        observations = {agent: self.place.observation(self._seen[agent], masks[agent]) for agent in self.agents}
        infos = {
            agent: self.place.info(numbers[agent] | {"active": int(agent in active)}, masks[agent])
            for agent in self.agents
        }
        return observations, infos

    def state(self) -> Any:
        """Return the state of the game."""
        return self.env.state()

    def render(self) -> Any:
        """Render the game."""
        return self.env.render()

    def close(self) -> None:
        """Close the game."""
        self.env.close()
