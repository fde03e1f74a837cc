"""A game of another author: no Flex-MG, no base class of ours."""

from __future__ import annotations

from pettingzoo import AECEnv

from marft_envs import TextObservation, UnicodeText


class ThirdPartyGame(AECEnv):
    """Two players in turn say numbers, none below the one before."""

    metadata = {"name": "third party", "render_modes": ["ansi"], "is_parallelizable": False, "render_fps": 1}  # noqa: RUF012

    def __init__(self, turns=3, render_mode=None):
        super().__init__()
        self.turns, self.render_mode = turns, render_mode
        self.possible_agents = ["player_0", "player_1"]
        self.observation_spaces = {agent: UnicodeText(10_000) for agent in self.possible_agents}
        self.action_spaces = {agent: UnicodeText(100) for agent in self.possible_agents}
        self.agents = []

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.agent_selection = self.agents[0]
        self.said = []
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {"turn": 0} for agent in self.agents}

    def observe(self, agent):
        return TextObservation("\n".join(self.said) or "Say a number.")

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self.said.append(action[:100].encode("utf-8", "replace").decode())
        ended = len(self.said) == self.turns * len(self.possible_agents)
        numbers = [int(said) for said in self.said if said.isascii() and said.isdigit()]
        rising = len(numbers) == len(self.said) and numbers == sorted(numbers)
        self.rewards = dict.fromkeys(self.agents, float(ended and rising))
        self.terminations = dict.fromkeys(self.agents, ended)
        self.infos = {agent: {"turn": len(self.said)} for agent in self.agents}
        self.agent_selection = self.possible_agents[len(self.said) % 2] if not ended else self.agents[0]
        self._accumulate_rewards()

    def render(self):
        return "\n".join(self.said)

    def close(self):
        pass
