"""Minimal cooperative communication game, as a third-party environment in plain PettingZoo with plain strings.

`speaker_0` observes a secret digit and says a digit. `listener_0` observes only the digit said, and answers. Both get
reward 1 if the answer is the secret. A listener that ignores the message succeeds in one game out of three. Messages
have no meaning until both agents agree on one.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv

SECRETS = ("0", "1", "2")


class CheapTalk(AECEnv[str, Any, Any]):
    """Cheap-talk game as an AEC environment; `infos[a]["success"]` is 1 after a correct answer.

    Args:
        muted: The listener hears "?" whatever is said: the control, in which no team wins more often than by chance.
    """

    metadata: dict[str, Any] = {"name": "cheap_talk", "render_modes": []}  # noqa: RUF012 - PettingZoo's own form

    def __init__(self, *, muted: bool = False) -> None:
        self.muted = muted
        self.render_mode = None
        self.possible_agents = ["speaker_0", "listener_0"]
        self.observation_spaces = {agent: _text() for agent in self.possible_agents}
        self.action_spaces = {agent: _text() for agent in self.possible_agents}
        self._generator = np.random.default_rng()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the agent's observation space, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the agent's action space, always the same object."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode with a random secret."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self.secret, self.said = str(self._generator.choice(SECRETS)), "?"
        self.agents = list(self.possible_agents)
        self.agent_selection = "speaker_0"
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {"success": 0} for agent in self.agents}

    def observe(self, agent: str) -> str:
        """Return the secret for the speaker, the message for the listener."""
        return f"secret {self.secret}" if agent == "speaker_0" else f"heard {self.said}"

    def step(self, action: str | None) -> None:
        """Take the speaker's message or the listener's answer."""
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._clear_rewards()
        self._cumulative_rewards[agent] = 0.0
        if agent == "speaker_0":
            self.said = action if action in SECRETS and not self.muted else "?"
            self.agent_selection = "listener_0"
        else:
            won = action == self.secret
            self.rewards = dict.fromkeys(self.agents, float(won))
            self.terminations = dict.fromkeys(self.agents, True)
            self.infos = {member: {"success": int(won)} for member in self.agents}
            self.agent_selection = "speaker_0"
        self._accumulate_rewards()

    def close(self) -> None:
        """Do nothing: the environment holds no resources."""


def _text() -> spaces.Text:
    return spaces.Text(max_length=40, min_length=0, charset=string.printable)
