"""A TextArena game (0.7) as a PettingZoo AEC environment with our observation conventions.

The agents are `player_0`, `player_1`, ... Each sees its whole history as `TextObservation`, in chronological order.
The game's words have the author environment, the agent's own the role assistant. TextArena's action wrappers are
used, its observation wrappers are not.

TextArena draws from Python's global `random`. Each game here keeps a generator state of its own. It lends this state to
the global generator during a reset or a step, under a lock that all these games share. So equal seeds give equal games,
also in parallel, and the global state is restored afterwards.

There are three limits. Another thread that draws from `random` at that moment gets the game's numbers. Games that draw
from elsewhere (a jury of models, numpy's global generator) are not seeded. A few games raise on text that they cannot
read; that is a failed episode.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock
from types import SimpleNamespace
from typing import Any

import numpy as np
from gymnasium import logger, spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv

from marft_common.visible_text import visible
from marft_envs.spaces import Message, TextObservation, UnicodeText, clean, fit
from marft_envs.teams.profile import ENVIRONMENT

REQUIREMENT = "textarena>=0.7,<0.8"
_RANDOM = RLock()  # guards Python's global generator, which all games of TextArena draw from
_ROOM = 2**24


class TextArenaGame(AECEnv[str, Any, Any]):
    """A TextArena game; see `from_textarena`.

    Infos are numbers: `turn` (taken so far), `agent_index`, `invalid` (players that the game removed for invalid
    moves), and `success`. The last is 1 once this player was paid at least 1 and no player was removed. TextArena also
    pays for games that end by an invalid move.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - PettingZoo's own form
        "render_modes": ["human", "ansi"],
        "is_parallelizable": False,
        "render_fps": 1,
    }

    def __init__(
        self,
        game: Any,
        actions: Sequence[Callable[[str], str]],
        num_players: int,
        team: Sequence[str],
        max_chars: int,
        render_mode: str | None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.metadata = {**type(self).metadata, "name": f"textarena/{game.env_id}"}
        self.render_mode = render_mode
        self.possible_agents = [f"player_{place}" for place in range(num_players)]
        if unknown := [agent for agent in team if agent not in self.possible_agents]:
            raise ValueError(f"no player {unknown[0]!r}; there are {', '.join(self.possible_agents)}")
        self.observation_spaces = {agent: UnicodeText(_ROOM) for agent in self.possible_agents}
        self.action_spaces = {agent: UnicodeText(max_chars) for agent in self.possible_agents}
        self.agents = []
        self.np_random: np.random.Generator | None = None
        self._new, self._actions, self._team, self._max_chars = game, tuple(actions), tuple(team), max_chars
        self._numbers: Any = None  # the game's own state of Python's generator

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; there are no options."""
        if seed is not None or self.np_random is None:
            self.np_random, _ = seeding.np_random(seed)
        self._numbers = random.Random(int(self.np_random.integers(2**63))).getstate()
        self.agents = list(self.possible_agents)
        self._told: list[list[Any]] = [[] for _ in self.agents]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._turn = 0
        self._game = copy.deepcopy(self._new)  # some games keep the first player from game to game
        with self._own_numbers():
            self._game.reset(num_players=len(self.agents))
            self._listen()
        self._go_on(done=False)

    def step(self, action: str | None) -> None:
        """Take the turn of `agent_selection`; for an agent that has ended the action is None."""
        if not self.agents:
            return
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        if not isinstance(action, str):
            raise TypeError(f"{self.metadata['name']}: the action of {agent} is {type(action).__name__}, wanted str")
        text, _ = fit(str(action), self._max_chars)
        for form in self._actions:
            text = form(text)
        with self._own_numbers():
            done, _ = self._game.step(text)
            if not done:
                self._listen()
        self._turn += 1
        self._go_on(done)
        self._accumulate_rewards()

    @contextmanager
    def _own_numbers(self) -> Iterator[None]:
        """Lend this game's generator state to Python's global one, and restore both."""
        with _RANDOM:
            outside = random.getstate()
            random.setstate(self._numbers)
            try:
                yield
            finally:
                self._numbers = random.getstate()
                random.setstate(outside)

    def _listen(self) -> None:
        """Store the new messages of the current player: TextArena returns them only once."""
        place, told = self._game.get_observation()
        self._told[place] += told

    def _go_on(self, done: bool) -> None:
        paid = dict.fromkeys(self.agents, 0.0)
        if done:
            rewards = self._state.rewards or {}
            paid = {agent: float(rewards.get(place, 0.0)) for place, agent in enumerate(self.agents)}
            if self._team:  # all players get the mean of the team
                paid = dict.fromkeys(self.agents, sum(paid[agent] for agent in self._team) / len(self._team))
        thrown_out = sum(bool(info.get("invalid_move")) for info in self._state.game_info.values())
        self.terminations = dict.fromkeys(self.agents, bool(done))
        self.agent_selection = self.agents[0 if done else self._state.current_player_id]
        self.infos = {
            agent: {
                "success": int(paid[agent] >= 1 and not thrown_out),
                "invalid": thrown_out,
                "turn": self._turn,
                "agent_index": place,
            }
            for place, agent in enumerate(self.agents)
        }
        self.rewards = paid

    @property
    def _state(self) -> Any:
        return self._game.state

    def observe(self, agent: str) -> TextObservation:
        """Return all messages to a player and its own actions."""
        place = self.possible_agents.index(agent)
        messages = []
        for author, text, _ in (*self._told[place], *self._state.observations[place]):
            role = "assistant" if author == place else "user"
            name = self.possible_agents[author] if author >= 0 else ENVIRONMENT
            messages.append(Message(role, clean(text), name))
        return TextObservation.of(tuple(messages))

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same object each time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the same object each time."""
        return self.action_spaces[agent]

    def render(self) -> str | None:
        """Return the whole conversation ("ansi"), or print it ("human")."""
        if self.render_mode is None:
            logger.warn("render() does nothing: the game was made without a render_mode")
            return None
        text = "\n".join(f"[{author}] {said}" for author, said in self._state.logs)
        if self.render_mode == "ansi":
            return text
        print(visible(text))  # noqa: T201 - "human"
        return None

    def close(self) -> None:
        """Do nothing: no resources are held."""


def from_textarena(
    env_id: str,
    num_players: int,
    *,
    team: Sequence[str] = (),
    max_action_chars: int = 4096,
    render_mode: str | None = None,
    **kwargs: Any,
) -> TextArenaGame:
    """Make a TextArena game as an AEC environment.

    Args:
        env_id: Id in TextArena, e.g. `GuessTheNumber-v0`.
        num_players: Number of players that the game takes; its registry does not say.
        team: Players with a shared reward: all agents get the mean over these. Empty: each gets its own. Our learner
            uses the mean over all agents, which is always 0 in a zero-sum game of two. So train one player with
            `team=("player_0",)`, against scripts of the others.
        max_action_chars: Most characters of an action; longer actions are cut.
        render_mode: None, "human" (print) or "ansi" (return).
        **kwargs: Keywords of the game.

    Raises:
        ImportError: TextArena is not installed.
        ValueError: No such game, or player.
    """
    try:
        import textarena
    except ImportError as error:
        raise ImportError(f"games of TextArena need: pip install '{REQUIREMENT}'") from error
    game = textarena.make(env_id, **kwargs)
    actions: list[Callable[[str], str]] = []
    while isinstance(game, textarena.Wrapper):
        if isinstance(game, textarena.ActionWrapper):
            own = SimpleNamespace(**{name: value for name, value in vars(game).items() if name != "env"})
            actions.append(partial(type(game).action, own))  # wrappers themselves cannot be pickled
        game = game.env
    return TextArenaGame(game, actions, num_players, team, max_action_chars, render_mode)
