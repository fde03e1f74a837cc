"""Renaming of agents: their prefix decides which agents share a network in TorchRL and AgileRL.

Role names (`reasoner_0`, `actor_0`; the names in our games) give each role a policy of its own. `agent_0, agent_1, ...`
give one network for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marft_envs.wrappers.base import AnyAEC, TextView
from marft_envs.wrappers.masks import mask_of


class RenamedAgents(TextView):
    """Wrapper with new agent names; observations keep the names of the game.

    Args:
        env: An AEC environment.
        names: New names by old ones, other agents keep theirs; None is `agent_0, agent_1, ...` in team order.

    Raises:
        ValueError: An old name is unknown, or two agents would have the same.
    """

    def __init__(self, env: AnyAEC, names: Mapping[str, str] | None = None) -> None:
        super().__init__(env)
        old = list(env.possible_agents)
        given = {agent: f"agent_{place}" for place, agent in enumerate(old)} if names is None else dict(names)
        self._new: dict[str, str] = {agent: given.get(agent, agent) for agent in old}
        self._old = {new: agent for agent, new in self._new.items()}
        if not set(given) <= set(old) or len(self._old) < len(old):
            raise ValueError(f"names: found {given}, wanted different new names for agents among {old}")
        self.possible_agents = list(self._old)
        self.observation_spaces = {self._new[agent]: space for agent, space in self.observation_spaces.items()}
        self.action_spaces = {self._new[agent]: space for agent, space in self.action_spaces.items()}

    def observe(self, agent: str) -> Any:
        """Return an agent's observation."""
        return self.env.observe(self._old[agent])

    def action_mask(self, agent: str) -> NDArray[np.int8]:
        """Return the mask of an agent."""
        return mask_of(self.env, self._old[agent])

    def select(self, agent: str) -> None:
        """Let an agent that is ready take its turn now."""
        self.env.select(self._old[agent])  # type: ignore[attr-defined]

    def _make_infos(self) -> dict[str, dict[str, Any]]:
        return self._rename(super()._make_infos())

    def _rename(self, by_agent: Mapping[str, Any]) -> dict[str, Any]:
        return {self._new[agent]: value for agent, value in by_agent.items()}

    @property
    def agents(self) -> list[str]:  # type: ignore[override]
        """Agents in the game."""
        return [self._new[agent] for agent in self.env.agents]

    @property
    def agent_selection(self) -> str:  # type: ignore[override]
        """Agent that acts now."""
        return self._new[self.env.agent_selection]

    @property
    def rewards(self) -> dict[str, float]:  # type: ignore[override]
        """Rewards of the last step."""
        return self._rename(self.env.rewards)

    @property
    def _cumulative_rewards(self) -> dict[str, float]:  # type: ignore[override]
        return self._rename(self.env._cumulative_rewards)

    @property
    def terminations(self) -> dict[str, bool]:  # type: ignore[override]
        """True for each agent that ended by the rules."""
        return self._rename(self.env.terminations)

    @property
    def truncations(self) -> dict[str, bool]:  # type: ignore[override]
        """True for each agent that ended by a limit."""
        return self._rename(self.env.truncations)
