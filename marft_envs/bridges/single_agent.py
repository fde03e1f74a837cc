"""A game with one agent played from outside; partner functions play the others.

Ecosystems that train or serve one player see this interface. An observation of ours shows the whole game. A running
chat must not repeat it, so a conversation gets only the new messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from marft_common.parallel_games import ParallelGames
from marft_envs.environment_capabilities import AnyAEC, independent_games
from marft_envs.registration.factory import make
from marft_envs.rollout.game_status import Ended, ReportingGame, Waiting
from marft_envs.teams.profile import ENVIRONMENT

Make = str | Callable[..., AnyAEC]
Partners = Mapping[str, Callable[[Any], str]]
"""Agent -> what plays it: a function of its observation, which says its action."""
Messages = tuple[Mapping[str, str], ...]


class AgentAssignmentError(ValueError):
    """The game has no such agent, or no partner plays it."""


class GameFailedError(RuntimeError):
    """The environment failed, for reasons not caused by the agents."""


class SingleAgentGame:
    """A game with one agent played from outside.

    Args:
        make_env: Makes an AEC environment of text; called again after one failed.
        agent: Name of the agent that is played from outside.
        partners: Policies of the other agents.

    Attributes:
        over: The end of the last game; None while one is being played, or before the first.

    Raises:
        AgentAssignmentError: No such agent, or another agent has no partner.
    """

    def __init__(self, make_env: Callable[[], AnyAEC], agent: str, partners: Partners | None = None) -> None:
        self.agent, self.partners = agent, dict(partners or {})
        self.over: Ended | None = None
        self._games = ParallelGames[ReportingGame](make_env)
        self._game = self._games.enter(0, partial(ReportingGame, 0))
        if missing := unassigned_agents(self._game.env, [agent, *self.partners]):
            raise AgentAssignmentError(
                f"nobody plays {', '.join(missing)}: give each a function of its observation as partner"
            )

    def begin(self, seed: int, options: Mapping[str, Any] | None = None) -> Any:
        """Start a game and return the agent's first observation; None if the game ends before.

        Args:
            seed: Seed of the reset.
            options: Options of the reset.

        Raises:
            GameFailedError: The environment raised.
        """
        self.over = None
        self._game = self._games.enter(0, partial(ReportingGame, 0))
        return self._until_its_turn(self._game.begin(seed, options))

    def play(self, text: str) -> Any:
        """Take the agent's turn and return its next observation; None if the game ends before.

        Raises:
            GameFailedError: The environment raised.
        """
        return self._until_its_turn(self._game.play(text))

    @property
    def reward(self) -> float:
        """Reward of the agent in the game that is over; 0.0 while it is not."""
        return self.over.rewards.get(self.agent, 0.0) if self.over is not None else 0.0

    @property
    def infos(self) -> Mapping[str, Any]:
        """Last info of the agent in the game that is over; empty while it is not."""
        return self.over.infos.get(self.agent, {}) if self.over is not None else {}

    def close(self) -> None:
        """Close the environment."""
        self._games.close()

    def _until_its_turn(self, turn: Waiting | Ended) -> Any:
        while isinstance(turn, Waiting):
            if turn.agent == self.agent:
                return turn.observation
            turn = self._game.play(self.partners[turn.agent](turn.observation))
        self.over = turn
        if turn.failure is not None:
            raise GameFailedError(turn.failure)
        return None


def maker(env_id_or_make: Make, kwargs: Mapping[str, Any]) -> Callable[[], AnyAEC]:
    """Return a factory of independent environments; copies share large data where the game allows it.

    Args:
        env_id_or_make: An id such as `marft/math_duo-v0`, or a function that makes an AEC environment.
        kwargs: Keywords for the environment.
    """
    if not isinstance(env_id_or_make, str):
        return partial(env_id_or_make, **kwargs)
    return independent_games(partial(make, env_id_or_make, **kwargs))


def chat(observation: Any) -> Messages:
    """Return an observation as messages: its own chat form, else its text as one message of the user."""
    return tuple(getattr(observation, "messages", ())) or ({"role": "user", "content": str(observation)},)


def unassigned_agents(env: AnyAEC, taken: Iterable[str]) -> list[str]:
    """Return the agents that are not taken, in the order of the game.

    Args:
        env: AEC environment of the game.
        taken: Agents that already have a policy.

    Raises:
        AgentAssignmentError: There is no such agent.
    """
    agents, taken = env.possible_agents, list(taken)
    if unknown := [agent for agent in taken if agent not in agents]:
        raise AgentAssignmentError(f"no agent {unknown[0]!r}; there are {', '.join(agents)}")
    return [agent for agent in agents if agent not in taken]


def news(known: Messages, messages: Messages) -> str:
    """Return the new messages since the agent's last turn; all of them if the history was rewritten.

    The agent's own last action is left out.

    Args:
        known: Its previous observation as messages; empty at its first turn.
        messages: Its current observation as messages.

    Examples:
        >>> known = ({"role": "user", "content": "2+2?", "name": "environment"},)
        >>> said = ({"role": "assistant", "content": "5"}, {"role": "user", "content": "no", "name": "critic_0"})
        >>> news(known, known + said)
        'critic_0: no'
    """
    if messages[: len(known)] == known:
        messages = messages[len(known) :]
    if messages and messages[0]["role"] == "assistant":
        messages = messages[1:]
    texts = []
    for message in messages:
        name = message.get("name", ENVIRONMENT)
        texts.append(message["content"] if name == ENVIRONMENT else f"{name}: {message['content']}")
    return "\n\n".join(texts)
