"""One running game of any AEC environment; exceptions of the environment become records of failed games."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from marft_envs.capabilities import AnyAEC, recording_game
from marft_envs.records.episode import Episode


@dataclass(frozen=True, slots=True)
class Waiting:
    """A game that waits for an action.

    Attributes:
        index: Index of the game, from 0.
        agent: Agent that acts next.
        observation: Observation of that agent.
        info: Info of that agent.
    """

    index: int
    agent: str
    observation: Any
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """A game that is over.

    Attributes:
        index: Index of the game, from 0.
        seed: Seed of its reset; with the same options and actions it plays again.
        turns: Number of actions taken.
        rewards: Sum over the episode, by agent.
        infos: Last infos by agent.
        terminated: It ended by its own rules.
        truncated: It ended by a limit.
        failure: Reason that it could not be played on, if not caused by the agents; None if it could.
        record: Record with the whole conversation; None of games that do not record episodes.
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
    """One game; at most one of its methods may run at a time, in any thread.

    Args:
        index: Index of the game, for its reports.
        env: AEC environment of the game.

    Attributes:
        failure: Reason that the environment must not be used again; None if it may.
    """

    def __init__(self, index: int, env: AnyAEC) -> None:
        self.index, self.env = index, env
        self.failure: str | None = None
        self._begun = False

    def begin(self, seed: int, options: Mapping[str, Any] | None) -> Waiting | Ended:
        """Reset; return the first waiting turn, or the end."""
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
        """Take an agent's turn; return the next waiting turn, or the end."""
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
        """Close the environment; exceptions of one that failed are suppressed."""
        with nullcontext() if self.failure is None else suppress(Exception):
            self.env.close()

    def _next(self) -> Waiting | Ended:
        """Step agents that have ended; return the next waiting turn, or the end."""
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
        recorded = recording_game(self.env) if self._begun else None
        return Ended(
            index=self.index,
            seed=self._seed,
            turns=self._turns,
            rewards=self._rewards,
            infos=self._infos,
            terminated=self.failure is None and not self._cut,
            truncated=self.failure is None and self._cut,
            failure=self.failure,
            record=None if recorded is None else recorded.episode(),
        )
