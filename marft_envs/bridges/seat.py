"""One seat of a game, as ecosystems see it that train or serve one player: the other seats play by themselves.

A conversation is only told what is new: an observation of ours shows the whole game, a chat that goes on must not
repeat it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from marft_envs.factory import make
from marft_envs.game import FlexMG
from marft_envs.live_game import Ended, LiveGame, Waiting
from marft_envs.profile import ENVIRONMENT
from marft_envs.registry import AnyAEC

Make = str | Callable[..., AnyAEC]
Partners = Mapping[str, Callable[[Any], str]]
"""Agent -> what plays it: a function of its observation, which says its action."""
Messages = tuple[Mapping[str, str], ...]


class SeatError(ValueError):
    """A seat that the game does not have, or that nobody plays."""


class GameFailedError(RuntimeError):
    """The environment broke, for reasons that are not the agents'."""


class SeatGame:
    """A game with one open seat.

    Args:
        make_env: Makes an AEC environment of text; called again after one broke.
        seat: Who is played from outside.
        partners: Who plays the others.

    Attributes:
        over: The end of the last game; None while one is being played, or before the first.

    Raises:
        SeatError: No such seat, or another seat has no partner.
    """

    def __init__(self, make_env: Callable[[], AnyAEC], seat: str, partners: Partners | None = None) -> None:
        self.seat, self.partners = seat, dict(partners or {})
        self.over: Ended | None = None
        self._make_env = make_env
        self._game = LiveGame(0, make_env())
        if missing := open_seats(self._game.env, [seat, *self.partners]):
            raise SeatError(f"nobody plays {', '.join(missing)}: give each a function of its observation as partner")

    def begin(self, seed: int, options: Mapping[str, Any] | None = None) -> Any:
        """Start a game and return what the seat sees at its first turn; None if it ends before.

        Args:
            seed: Of the reset.
            options: Of the reset.

        Raises:
            GameFailedError: The environment raised.
        """
        self.over = None
        if self._game.failure is not None:  # what broke once is not trusted again
            self._game.close()
            self._game = LiveGame(0, self._make_env())
        return self._until_seat(self._game.begin(seed, options))

    def play(self, text: str) -> Any:
        """Take the seat's turn and return what it sees at its next; None if the game ends before.

        Raises:
            GameFailedError: The environment raised.
        """
        return self._until_seat(self._game.play(self.seat, text))

    @property
    def reward(self) -> float:
        """What the seat was paid in the game that is over; 0.0 while it is not."""
        return self.over.rewards.get(self.seat, 0.0) if self.over is not None else 0.0

    @property
    def infos(self) -> Mapping[str, Any]:
        """The last info of the seat in the game that is over; empty while it is not."""
        return self.over.infos.get(self.seat, {}) if self.over is not None else {}

    def close(self) -> None:
        """Close the environment."""
        self._game.close()

    def _until_seat(self, turn: Waiting | Ended) -> Any:
        while isinstance(turn, Waiting):
            if turn.agent == self.seat:
                return turn.observation
            turn = self._game.play(turn.agent, self.partners[turn.agent](turn.observation))
        self.over = turn
        if turn.failure is not None:
            raise GameFailedError(turn.failure)
        return None


def maker(env_id_or_make: Make, kwargs: Mapping[str, Any]) -> Callable[[], AnyAEC]:
    """Return what makes independent environments; copies of a Flex-MG share its tasks.

    Args:
        env_id_or_make: An id such as `marft/math_duo-v0`, or what makes an AEC environment.
        kwargs: For it.
    """
    if not isinstance(env_id_or_make, str):
        return partial(env_id_or_make, **kwargs)
    first = make(env_id_or_make, **kwargs)
    if isinstance(first.unwrapped, FlexMG):
        return partial(copy.deepcopy, first)
    return partial(make, env_id_or_make, **kwargs)


def chat(observation: Any) -> Messages:
    """Return an observation as messages: its own chat form, else its text as one message of the user."""
    return tuple(getattr(observation, "messages", ())) or ({"role": "user", "content": str(observation)},)


def open_seats(env: AnyAEC, taken: Iterable[str]) -> list[str]:
    """Return the seats that are not taken, in the order of the game.

    Args:
        env: The game.
        taken: Seats somebody plays.

    Raises:
        SeatError: There is no such seat.
    """
    agents, taken = env.possible_agents, list(taken)
    if unknown := [agent for agent in taken if agent not in agents]:
        raise SeatError(f"no seat {unknown[0]!r}; there are {', '.join(agents)}")
    return [agent for agent in agents if agent not in taken]


def news(known: Messages, messages: Messages) -> str:
    """Write down what an agent has not been told yet, its own last action left out; all, where the past was told anew.

    Args:
        known: What it saw at its turn before, as messages; none at its first.
        messages: What it sees now.

    Example:
        >>> known = ({"role": "user", "content": "2+2?", "name": "environment"},)
        >>> said = ({"role": "assistant", "content": "5"}, {"role": "user", "content": "no", "name": "critic_0"})
        >>> news(known, known + said)
        'critic_0: no'
    """
    if messages[: len(known)] == known:
        messages = messages[len(known) :]
    if messages and messages[0]["role"] == "assistant":
        messages = messages[1:]
    return "\n\n".join(_signed(message) for message in messages)


def _signed(message: Mapping[str, str]) -> str:
    name = message.get("name", ENVIRONMENT)
    return message["content"] if name == ENVIRONMENT else f"{name}: {message['content']}"
