"""Random AEC games: agents leave early, dead agents stay for a while or for ever, limits cut, methods raise."""

from __future__ import annotations

import string
from typing import ClassVar

import numpy as np
from gymnasium.spaces import Text
from pettingzoo import AECEnv

ANY_TEXT = Text(max_length=200, min_length=0, charset=string.printable)
FAULTS = ("reset", "observe", "step", "last step", "nobody", "undead", "rewards")


class RandomGame(AECEnv):
    """A game whose rules, length and faults are functions of the seed of its reset.

    Every turn pays each agent a random multiple of the length of the action. Then each agent may terminate, be cut
    off, or both. A dead agent leaves after a few last steps; all are dead at the end. About half of the games have a
    fault of `FAULTS` from some turn on: a method raises, nobody known acts next, dead agents stay for ever, or a
    reward is no number.
    """

    metadata: ClassVar = {"name": "random_v0", "render_modes": []}

    def __init__(self):
        super().__init__()
        self.possible_agents = ["a_0", "b_0", "c_0"]
        self.render_mode = None
        self.fault, self.failing = "", False
        self.raised = False

    def observation_space(self, agent):
        return ANY_TEXT

    def action_space(self, agent):
        return ANY_TEXT

    def _raise(self, method):
        if self.failing and self.fault == method:
            self.raised = True
            raise OSError(f"broken by \ud800 in {method}")

    def reset(self, seed=None, options=None):
        assert not self.raised, "used again after it raised"
        self.rng = np.random.default_rng(seed)
        self.fault = str(self.rng.choice(FAULTS)) if self.rng.random() < 0.5 else ""
        self.sound_turns = int(self.rng.integers(5))
        self.failing = self.fault == "reset"
        self._raise("reset")
        self.left = int(self.rng.integers(1, 12))
        self.agents = [agent for agent in self.possible_agents if self.rng.random() < 0.8] or ["b_0"]
        self.last_steps = {agent: int(self.rng.integers(1, 4)) for agent in self.agents}
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {"left": self.left, "name": agent} for agent in self.agents}
        self.said = "?"
        self.failing = self.sound_turns == 0
        self._select()

    def observe(self, agent):
        self._raise("observe")
        return f"{self.left} {agent} {self.said}"

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            assert action is None
            self._raise("last step")
            self._last_step(agent)
            return
        self._raise("step")
        self.said = action
        self.left -= 1
        for one in self.agents:
            self.rewards[one] = float(self.rng.integers(-2, 3)) * len(action) / 8
            ends = self.left == 0 or self.rng.random() < 0.1
            cut = ends and self.rng.random() < 0.4
            self.truncations[one] = self.truncations[one] or cut
            self.terminations[one] = self.terminations[one] or (ends and (not cut or self.rng.random() < 0.2))
            self.infos[one] = {"left": self.left, "success": float(self.rng.random() < 0.5)}
        self.failing = self.failing or self.left <= 11 - self.sound_turns
        if self.failing and self.fault == "rewards":
            self.rewards[agent] = "much"
        self._select()

    def _last_step(self, agent):
        self.last_steps[agent] -= not (self.failing and self.fault == "undead")
        if self.last_steps[agent] <= 0:
            self.agents.remove(agent)
            for told in (self.rewards, self.terminations, self.truncations, self.infos):
                del told[agent]
        self._select()

    def _select(self):
        dead = [agent for agent in self.agents if self.terminations[agent] or self.truncations[agent]]
        if self.agents:
            self.agent_selection = dead[0] if dead else self.agents[int(self.rng.integers(len(self.agents)))]
        if self.failing and self.fault == "nobody":
            self.agent_selection = "nobody"

    def close(self):
        self.raised = True
