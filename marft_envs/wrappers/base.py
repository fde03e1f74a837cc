"""Base classes of the wrappers: spaces as dicts, numeric infos, cheap copies, and actions that stand for utterances.

Each is a PettingZoo wrapper around any AEC environment with text actions (or observations).
"""

from __future__ import annotations

import copy
import operator
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo.utils.wrappers import BaseWrapper

from marft_envs.environment_capabilities import AnyAEC
from marft_envs.spaces import Message, TextObservation, UnicodeText, fit
from marft_envs.wrappers.episode_end import is_over
from marft_envs.wrappers.numeric_infos import NumericInfos

ADDED_CHARS = 2**24  # room in the observation for what a view adds to it


class TextView(BaseWrapper[str, Any, Any]):
    """Wrapper that changes only infos: numbers only, with fixed keys.

    Args:
        env: Any AEC environment.

    Attributes:
        shared: Names of attributes that deep copies share, such as tokenizers and models.
    """

    shared: ClassVar[tuple[str, ...]] = ()

    def __init__(self, env: AnyAEC) -> None:
        super().__init__(env)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in env.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in env.possible_agents}
        self._numeric = NumericInfos()

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; arguments as in the game."""
        self.env.reset(seed=seed, options=options)
        self.infos = self._make_infos()

    def step(self, action: Any) -> None:
        """Take the turn of `agent_selection`."""
        self.env.step(action)
        self.infos = self._make_infos()

    def _make_infos(self) -> dict[str, dict[str, Any]]:
        return self._numeric.of(self.env.infos)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same object each time."""
        return self.action_spaces[agent]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        for name in self.shared:
            memo[id(self.__dict__[name])] = self.__dict__[name]
        clone = object.__new__(type(self))
        memo[id(self)] = clone
        clone.__dict__.update({name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return clone


class UtteranceView(TextView):
    """Wrapper with numeric actions that stand for an utterance or a part of one.

    An illegal action never raises: the agent says nothing, and `infos[a]["invalid"]` counts it for the team, beside the
    invalid actions that the game itself counts there.

    Args:
        env: An AEC environment with text actions.

    Attributes:
        joint: True if agents that are ready may act in any order; False where the legal actions belong to the selected
            agent. Then only that one is ready.

    Raises:
        ValueError: Its actions are no text.
    """

    joint = True

    def __init__(self, env: AnyAEC) -> None:
        super().__init__(env)
        self._texts: dict[str, spaces.Text] = {}
        for agent, space in self.action_spaces.items():
            if not isinstance(space, spaces.Text):
                raise ValueError(f"{type(self).__name__}: the actions of {agent} are {space}, wanted text")
            self._texts[agent] = space
        self._illegal = 0

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; arguments as in the game."""
        self._illegal = 0
        super().reset(seed, options)

    def action_mask(self, agent: str) -> NDArray[np.int8]:
        """Return 1 for each action that is legal now; all of them for an agent that does not act now."""
        raise NotImplementedError

    def observe(self, agent: str) -> Any:
        """Return an agent's observation."""
        return as_text(self.env.observe(agent))

    def _is_acting(self, agent: str) -> bool:
        return agent == self.agent_selection and bool(self.agents) and not is_over(self.env, agent)

    def _refuse_none(self, action: Any) -> None:
        if action is None:
            raise TypeError(f"the action of {self.agent_selection} is None, which is only for an agent that has ended")

    def _say(self, text: str | None) -> None:
        """Pass an utterance to the game; None is an illegal one."""
        space = self._texts[self.agent_selection]
        said, fault = ("", "") if text is None else fit(text, space.max_length)
        if not space.contains(said):
            # An illegal action is said as silence: the empty text, or the shortest one that the space takes.
            silence = "" if space.min_length == 0 else min(space.character_set) * space.min_length
            said, text = silence, None
        if text is None or fault:
            self._illegal += 1
        super().step(said)

    def _make_infos(self) -> dict[str, dict[str, Any]]:
        infos = super()._make_infos()
        for agent, info in infos.items():
            info["invalid"] = info.get("invalid", 0) + self._illegal
            if not self.joint and "ready" in info:
                info["ready"] = int(bool(info["ready"]) and agent == self.agent_selection)
        return infos


def as_index(action: Any, size: int) -> int | None:
    """Read an action as a whole number from 0 to size - 1; None if it is not one.

    Examples:
        >>> as_index(np.array([2]), 3), as_index(3, 3), as_index(1.5, 3)
        (2, None, None)
    """
    if isinstance(action, np.ndarray) and action.size == 1:
        action = action.item()
    try:
        number = operator.index(action)
    except TypeError:
        return None
    return number if 0 <= number < size else None


def as_text(seen: Any) -> Any:
    """Return a plain string in the form that `api_test` accepts; anything else unchanged."""
    return TextObservation(seen) if type(seen) is str else seen


def add_message(seen: str, author: str, text: str) -> TextObservation:
    """Return an observation with one more message below it."""
    before = seen._messages if isinstance(seen, TextObservation) else (Message("user", str(seen)),)
    fixed = seen.fixed_messages if isinstance(seen, TextObservation) else 1
    return TextObservation(f"{seen}\n\n[{author}]\n{text}", (*before, Message("assistant", text, author)), fixed)


def wider(space: Any) -> Any:
    """Return a text space with room for the text that a wrapper adds; another space unchanged."""
    return UnicodeText(space.max_length + ADDED_CHARS) if isinstance(space, spaces.Text) else space


def state_text(env: AnyAEC) -> str:
    """Return the state of a game as text: its own, or else the observations of its agents, joined."""
    try:
        state = env.state()
    except NotImplementedError:
        state = None
    return state if isinstance(state, str) else "\n\n".join(str(env.observe(agent)) for agent in env.agents)
