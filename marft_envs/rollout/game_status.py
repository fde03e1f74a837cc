"""A running game that reports the turn that waits for an action, or how the game ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marft_common.running_game import RunningGame
from marft_envs.environment_capabilities import AnyAEC, recording_game
from marft_envs.game.episode import Episode


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


class ReportingGame(RunningGame):
    """A running game that reports after each turn: it waits for an action, or it has ended.

    Args:
        index: Index of the game, for its reports.
        env: AEC environment of the game.

    Attributes:
        report: Result of the last call of `begin` or `play`.
    """

    env: AnyAEC
    report: Waiting | Ended

    def __init__(self, index: int, env: AnyAEC) -> None:
        super().__init__(env)
        self.index = index
        self._record_begun = False
        self._infos: dict[str, Mapping[str, Any]] = {}

    def begin(self, seed: int, options: Mapping[str, Any] | None) -> Waiting | Ended:
        """Reset; return the first waiting turn, or the end."""
        self._seed = seed
        self.reset(seed, options)
        return self._report()

    def play(self, action: Any) -> Waiting | Ended:
        """Take the turn of the agent that acts next; return the next waiting turn, or the end."""
        self.step(action)
        return self._report()

    def _reset(self, seed: int, options: Mapping[str, Any] | None) -> None:
        super()._reset(seed, options)
        self._record_begun = True
        self._infos.update(self.env.infos)

    def _step(self, action: Any) -> None:
        super()._step(action)
        self._infos.update(self.env.infos)

    def _report(self) -> Waiting | Ended:
        waiting = None if self.over else self.attempt(f"observation of {self.agent}", self._wait)
        self.report = self._end() if waiting is None else waiting
        return self.report

    def _wait(self) -> Waiting:
        return Waiting(self.index, self.agent, self.env.observe(self.agent), self._infos[self.agent])

    def _end(self) -> Ended:
        recorded = recording_game(self.env) if self._record_begun else None
        return Ended(
            index=self.index,
            seed=self._seed,
            turns=self.turns,
            rewards=self.rewards,
            infos=self._infos,
            terminated=self.failure is None and not self.cut_off,
            truncated=self.failure is None and bool(self.cut_off),
            failure=self.failure,
            record=None if recorded is None else recorded.episode(),
        )
