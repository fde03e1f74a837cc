"""One running game of any AEC environment, played by whoever has its actions; what it raises becomes a record."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from marft_envs.game import FlexMG
from marft_envs.registry import AnyAEC
from marft_envs.trace import Episode


@dataclass(frozen=True, slots=True)
class Waiting:
    """A game that waits for an action.

    Attributes:
        index: Of the game, from 0.
        agent: Whose turn it is.
        observation: What it sees.
        info: Its info.
    """

    index: int
    agent: str
    observation: Any
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """A game that is over.

    Attributes:
        index: Of the game, from 0.
        seed: Of its reset; with the same options and actions it plays again.
        turns: Actions taken.
        rewards: Sum over the episode, by agent.
        infos: The last ones, by agent.
        terminated: It ended by its own rules.
        truncated: A limit cut it off.
        failure: Why it could not be played on, for reasons that are not the agents'; None if it could.
        record: Of a Flex-MG, with all that was said; None of other games.
    """

    index: int
    seed: int
    turns: int
    rewards: Mapping[str, float]
    infos: Mapping[str, Mapping[str, Any]]
    terminated: bool
    truncated: bool
    failure: str | None
    record: Episode | None


class LiveGame:
    """One game; at most one of its methods may run at a time, in whatever thread.

    Args:
        index: Of the game, for what it reports.
        env: The environment.

    Attributes:
        failure: Why the environment must not be used again; None where it may.
    """

    def __init__(self, index: int, env: AnyAEC) -> None:
        self.index, self.env = index, env
        self.failure: str | None = None
        self._begun = False

    def begin(self, seed: int, options: Mapping[str, Any] | None) -> Waiting | Ended:
        """Reset; return whose turn is first."""
        self._seed, self._turns, self._cut, self._begun = seed, 0, False, False
        self._rewards: dict[str, float] = {}
        self._infos: dict[str, Mapping[str, Any]] = {}
        self._doing = "reset"
        try:
            self.env.reset(seed=seed, options=None if options is None else dict(options))
            self._begun = True
            return self._next()
        except Exception as error:
            return self._fail(error)

    def play(self, agent: str, action: Any) -> Waiting | Ended:
        """Take an agent's turn; return whose turn is next."""
        self._doing = f"step of {agent}"
        try:
            env = self.env
            env.step(action)
            self._turns += 1
            for paid, reward in env.rewards.items():
                self._rewards[paid] = self._rewards.get(paid, 0.0) + float(reward)
            terminations = env.terminations
            self._cut = any(cut and not terminations[a] for a, cut in env.truncations.items())
            return self._next()
        except Exception as error:
            return self._fail(error)

    def close(self) -> None:
        """Close the environment; what one that failed raises is of no interest any more."""
        with nullcontext() if self.failure is None else suppress(Exception):
            self.env.close()

    def _next(self) -> Waiting | Ended:
        """Step agents that have ended out of the way; return whose turn is next."""
        env = self.env
        infos = env.infos
        self._infos.update(infos)
        while env.agents:
            agent = env.agent_selection
            if not (env.terminations[agent] or env.truncations[agent]):
                self._doing = f"observation of {agent}"
                return Waiting(self.index, agent, env.observe(agent), infos[agent])
            self._doing = f"last step of {agent}"
            env.step(None)
        return self._ended()

    def _fail(self, error: Exception) -> Ended:
        self.failure = f"{self._doing}: {type(error).__name__}: {error}"
        return self._ended()

    def _ended(self) -> Ended:
        game = self.env.unwrapped
        return Ended(
            index=self.index,
            seed=self._seed,
            turns=self._turns,
            rewards=self._rewards,
            infos=self._infos,
            terminated=self.failure is None and not self._cut,
            truncated=self.failure is None and self._cut,
            failure=self.failure,
            record=game.episode() if isinstance(game, FlexMG) and self._begun else None,
        )
