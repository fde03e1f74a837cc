"""Control condition of routed teams: each route is drawn at random, so that the orchestrator's choice is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from pettingzoo.utils.wrappers import BaseWrapper

from baselines.bench.controls import scenario_key
from marft_envs.dependency import Routed
from marft_envs.environment_capabilities import dependency_game


class RandomRouter(BaseWrapper[str, Any, Any]):
    """Wrapper that replaces each route of an orchestrator by one that names a single other agent, drawn uniformly.

    The orchestrator still writes its action, so a team spends the same tokens on it; the action itself is dropped.
    Drawn are all agents but the orchestrator and the answering agent (`answer_by`). Without such an agent, they are
    those that answer.

    Args:
        env: AEC environment of a Flex-MG with the dependency `routed`.
        seed: Seed of the routes; they are a function of it and of the scenario.

    Raises:
        ValueError: The dependency is not `routed`.
    """

    def __init__(self, env: Any, seed: int) -> None:
        super().__init__(env)
        game = dependency_game(env)
        if game is None or not isinstance(game.dependency, Routed):
            raise ValueError("random routes: wanted a Flex-MG whose dependency is `routed`")
        route, roster = game.dependency, game.team.roster
        self._by, self._seed = route.by, seed
        asked = roster.agents if route.answer_by else [agent for agent in roster.agents if agent in roster.answering]
        self._asked = [agent for agent in asked if agent not in (route.by, route.answer_by)]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; arguments as in the game."""
        # By the scenario, not one stream: games are played side by side, in any order.
        scenario = scenario_key(options or {"seed": seed})
        self._rng = np.random.default_rng([self._seed, *scenario.encode()])
        self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> None:
        """Take the turn of `agent_selection`."""
        if action is not None and self.env.agent_selection == self._by:
            action = f"-> {self._asked[self._rng.integers(len(self._asked))]}"
        self.env.step(action)
