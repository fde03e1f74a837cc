"""Vectorised games for batched policies: a server of language models, or a third-party learner.

Steps run in threads, so that a slow judge (compiling, a sandbox, a model: ms to seconds) stalls no other game.
`step` hands over the given actions and returns as soon as some games wait for the next one. At most one step
of a game runs at a time. Observations and rewards do not depend on the threads; the composition of batches does.

    with marft_envs.make_vec("marft/math_duo-v0", 64) as games:
        waiting = games.reset(seeds=0)
        while waiting:
            answers = answer_batch([(turn.agent, turn.observation) for turn in waiting])
            waiting = games.step({turn.index: answer for turn, answer in zip(waiting, answers)})
            for game in games.ended:
                print(game.index, game.rewards, game.failure)

A game whose environment raises has *failed*: it ends with a record that names the cause, and its environment is
replaced. Leave failed games out of training and of scores. Nothing here is specific to Flex-MG: any AEC environment
works.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from gymnasium.spaces import Text

from marft_common.parallel_games import MAX_THREADS, BackgroundJobs, ParallelGames
from marft_envs.environment_capabilities import AnyAEC
from marft_envs.rollout.game_status import Ended, ReportingGame, Waiting

PATIENCE = 0.25  # share of the caller's own time that `step` may spend on making its next batch larger
_T = TypeVar("_T")


class VectorGames:
    """Several games side by side; the object itself must not be called from several threads.

    Args:
        make_env: Makes an independent AEC environment; called in the caller's thread.
        num_envs: Number of games.
        threads: Number of steps that run at once; None is one per game up to 32, 0 takes every step in the caller's
            thread (a fifth cheaper if steps take microseconds).
        autoreset: A game that ended begins anew, with a seed that follows from its first one.
    """

    def __init__(
        self,
        make_env: Callable[[], AnyAEC],
        num_envs: int,
        *,
        threads: int | None = None,
        autoreset: bool = False,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs: found {num_envs}, wanted at least 1")
        threads = min(num_envs, MAX_THREADS) if threads is None else threads
        if threads < 0:
            raise ValueError(f"threads: found {threads}, wanted at least 1, or 0 for none")
        self.autoreset = autoreset
        self.ended: list[Ended] = []
        self._jobs = BackgroundJobs(threads)
        self._games = ParallelGames[ReportingGame](make_env, self._jobs)
        for index in range(num_envs):
            self._games.enter(index, partial(ReportingGame, index))
        self._first_seeds, self._episodes = [0] * num_envs, [0] * num_envs
        self._waiting: dict[int, Waiting] = {}
        self._returned_s = time.monotonic()
        self._closed = False

    def __len__(self) -> int:
        return len(self._first_seeds)

    @property
    def waiting(self) -> list[Waiting]:
        """All games that wait for an action now."""
        return [self._waiting[index] for index in sorted(self._waiting)]

    @property
    def running(self) -> list[int]:
        """The games whose step or reset has not been reported yet."""
        return self._jobs.pending

    def reset(
        self,
        seeds: int | Sequence[int] | None = None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Waiting]:
        """Begin all games, and wait until all have begun.

        Args:
            seeds: One per game; a number s is s, s + 1, ...; None draws fresh ones (the records name them).
            options: Reset options for all games, or one per game.

        Returns:
            The games that wait for an action, by index; those that could not begin are in `ended`.
        """
        self._refuse_closed()
        if isinstance(seeds, int | np.integer):
            seeds = range(int(seeds), int(seeds) + len(self))
        if options is None or isinstance(options, Mapping):
            options = [options] * len(self)
        each = _one_per_game([None] * len(self) if seeds is None else seeds, len(self), "seeds")
        given = _one_per_game(options, len(self), "options")
        self._gather("all")
        self._waiting.clear()
        self.ended = []
        for index in range(len(self)):
            self._begin_first(index, each[index], given[index])
        fresh = self._gather("all")
        self._returned_s = time.monotonic()
        return fresh

    def restart(self, index: int, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begin one game anew; it is reported by a later `step`, as if it had been given an action.

        Args:
            index: Index of a game that has no step under way.
            seed: Seed of the reset; None draws a fresh one.
            options: Options of the reset.

        Raises:
            ValueError: Its step is under way, or there is no such game.
        """
        self._refuse_closed()
        if index in self.running or index not in range(len(self)):
            raise ValueError(f"game {index} cannot begin anew: {self._situation(index)}")
        self._begin_first(index, seed, options)

    def step(self, actions: Mapping[int, Any], *, wait: Literal["any", "all"] = "any") -> list[Waiting]:
        """Take the actions of games that wait for one.

        Args:
            actions: Actions by index of the game; games that are left out continue to wait.
            wait: "any" returns when some game waits for its next action (it lets others catch up for at most a
                quarter of the time that the caller took since the last call); "all" when no step is under way.

        Returns:
            The games that have begun to wait for an action since the last call, by index. Empty: nothing is
            under way, so all games have ended or were waiting before. `ended` has those that ended since the last
            call.

        Raises:
            ValueError: A game does not wait for an action, or `wait` is none of the two; nothing has been stepped.
            TypeError: An action is None, or no string where strings are wanted; nothing has been stepped.
        """
        self._refuse_closed()
        if wait not in ("any", "all"):
            raise ValueError(f"wait: found {wait!r}, wanted 'any' or 'all'")
        patience_s = PATIENCE * (time.monotonic() - self._returned_s)
        for index, action in actions.items():
            self._check(index, action)
        self.ended = []
        for index, action in actions.items():
            del self._waiting[index]
            self._jobs.submit(index, self._games[index].play, action)
        fresh = self._gather(wait, patience_s)
        self._returned_s = time.monotonic()
        return fresh

    def close(self) -> None:
        """Wait for the steps under way, then close all environments; any number of times."""
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
        self._games.close()

    def __enter__(self) -> VectorGames:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RuntimeError("these games are closed: make new ones")

    def _check(self, index: int, action: Any) -> None:
        if index not in self._waiting:
            raise ValueError(f"game {index} does not wait for an action: {self._situation(index)}")
        agent = self._waiting[index].agent
        text = isinstance(self._games[index].env.action_space(agent), Text)
        if action is None or (text and not isinstance(action, str)):
            wanted = "str" if text else "an action of its space"
            raise TypeError(f"game {index}: the action of {agent} is {type(action).__name__}, wanted {wanted}")

    def _situation(self, index: int) -> str:
        if index not in range(len(self)):
            return f"there are games 0 to {len(self) - 1}"
        if index in self.running:
            return "its step is under way; wait until step() reports it"
        return "it has ended or was never begun; restart(index) or reset() begins it"

    def _begin_first(self, index: int, seed: int | None, options: Mapping[str, Any] | None) -> None:
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
        self._first_seeds[index], self._episodes[index] = seed, 0
        self._begin(index, seed, options)

    def _begin(self, index: int, seed: int, options: Mapping[str, Any] | None) -> None:
        self._waiting.pop(index, None)
        game = self._games.enter(index, partial(ReportingGame, index))
        self._jobs.submit(index, game.begin, seed, options)

    def _gather(self, wait: Literal["any", "all"], patience_s: float = 0.0) -> list[Waiting]:
        """Wait for steps under way, and sort them into those that wait again and those that ended."""
        fresh: dict[int, Waiting] = {}
        while len(self._jobs) and (wait == "all" or not fresh):
            ended = []
            for index in self._jobs.finished(math.inf if wait == "all" else patience_s):
                report = self._games[index].report
                if isinstance(report, Waiting):
                    self._waiting[index] = fresh[index] = report
                else:
                    ended.append(report)
            self.ended += ended
            for over in ended:
                self._begin_following(over)
        return [fresh[index] for index in sorted(fresh)]

    def _begin_following(self, over: Ended) -> None:
        index = over.index
        if self.autoreset and over.turns:  # one that ends before its first turn would do so for ever
            self._episodes[index] += 1
            following = np.random.SeedSequence([self._first_seeds[index], self._episodes[index]])
            self._begin(index, int(following.generate_state(1)[0]), None)


def _one_per_game(values: Sequence[_T], count: int, name: str) -> Sequence[_T]:
    if len(values) != count:
        raise ValueError(f"{name}: found {len(values)}, wanted one for each of the {count} games")
    return values
