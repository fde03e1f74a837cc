"""The half of a game that changes nothing: observations, infos, the state as text, pictures and copies.

Policies, records and people read it at any time between a reset and the next. The rules are in `flex_mg`.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, Self

import numpy as np
from gymnasium import logger, spaces
from pettingzoo import AECEnv

from marft_common.visible_text import visible
from marft_envs.dependency import RoundPlan
from marft_envs.game.infos import Infos
from marft_envs.game.observation import Views
from marft_envs.game.render import picture, transcript
from marft_envs.game.state import GameState
from marft_envs.game.task import Session, Task, Tasks
from marft_envs.spaces import TextObservation
from marft_envs.teams.team import Team


class ReadableGame(AECEnv[str, Any, Any]):
    """Base of `FlexMG`, which adds the definition, `reset` and `step`: all that reads a running game."""

    # Of the definition, what is read here.
    tasks: Tasks
    team: Team
    horizon: int
    render_mode: str | None
    observation_spaces: dict[str, spaces.Space[Any]]
    action_spaces: dict[str, spaces.Space[Any]]

    # The running game, new with each reset.
    np_random: np.random.Generator | None  # The environment's own generator; None before the first reset
    agents: list[str]  # Agents that have not left
    agent_selection: str  # Agent that acts next
    rewards: dict[str, float]  # Reward of the last step, the same for all
    terminations: dict[str, bool]  # True once the task lets nothing follow
    truncations: dict[str, bool]  # True once the horizon has ended the game
    _cumulative_rewards: dict[str, float]  # Rewards since the agent's last turn
    _state: GameState  # Task, rounds, turns, outcomes and rewards; missing before the first reset
    _views: Views  # Observations and visible actions, as D, the forms and the window make them of the state
    _infos: Infos  # Numbers about the state beside the observations

    def observe(self, agent: str) -> TextObservation:
        """Return an agent's current observation; pure, cheap, for every possible agent at any time after a reset."""
        return self._views.of(agent)[0]

    def last(self, observe: bool = True) -> tuple[TextObservation | None, float, bool, bool, dict[str, Any]]:
        """Return observation, cumulative reward, terminated, truncated and info of the selected agent alone."""
        # PettingZoo's own `last` makes the infos of all agents to return those of one.
        agent = self.agent_selection
        return (
            self.observe(agent) if observe else None,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self._infos.of(agent),
        )

    @property
    def infos(self) -> dict[str, dict[str, Any]]:  # type: ignore[override]
        """Infos of the agents that have not left; new ones after each step."""
        return self._infos.of_all(self.agents)

    @property
    def task(self) -> Task:
        """The task being played, from the first reset on."""
        return self._state.task

    @property
    def task_index(self) -> int:
        """Place of the task in its set."""
        return self._state.task_index

    @property
    def session(self) -> Session:
        """The task's side of the running game, without a grader around it."""
        session = self._state.session
        while (inner := getattr(session, "inner", None)) is not None:
            session = inner
        return session

    @property
    def plans(self) -> tuple[RoundPlan, ...]:
        """Plans of the rounds so far, none before the first reset.

        That of a routed round grows with the orchestrator's action.
        """
        return () if self.np_random is None else tuple(played.plan for played in self._state.rounds)

    # PettingZoo requires the same space at each call: wrappers seed it once, and then draw from it.

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same object each time."""
        return self.action_spaces[agent]

    def state(self) -> TextObservation:  # type: ignore[override]
        """Return the whole conversation without visibility limits (not the gold answer)."""
        return transcript(self._state)

    def render(self) -> str | None:
        """Return the transcript ("ansi"), or print it ("human")."""
        if self.render_mode is None:
            logger.warn("render() does nothing: the game was made without a render_mode")
            return None
        text = picture(self.metadata["name"], self._state, self.horizon)
        if self.render_mode == "ansi":
            return text
        # Actions come from a model: escape sequences among them must not reach the terminal.
        sys.stdout.write(visible(text))
        return None

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the running game; copies share the tasks and the team, which never change."""
        memo |= {id(self.tasks): self.tasks, id(self.team): self.team}
        clone = memo[id(self)] = object.__new__(type(self))
        clone.__dict__ = copy.deepcopy(self.__dict__, memo)
        return clone
