"""Many games side by side: steps in background threads, and environments that later games use again.

A slow step (a judge compiles, runs programs or asks a model: ms to minutes) delays no other game. Timing decides which
steps finish together. It does not affect any single game.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any, Generic, TypeVar

from marft_common.running_game import RunningGame

MAX_THREADS = 32
Game = TypeVar("Game", bound=RunningGame)


class BackgroundJobs:
    """Runner of numbered jobs, at most one at a time per number.

    Args:
        threads: Number of jobs that run at once; 0 runs each in the caller's thread when it is submitted.
        name: Prefix of the names of the threads.
    """

    def __init__(self, threads: int, name: str = "marft-game") -> None:
        self._pool = ThreadPoolExecutor(threads, name) if threads else None
        self._running: dict[int, Future[Any]] = {}
        self._finished: list[int] = []

    def __len__(self) -> int:
        return len(self._finished) + len(self._running)

    @property
    def pending(self) -> list[int]:
        """Numbers of the jobs that `finished` has not returned yet, in ascending order."""
        return sorted([*self._finished, *self._running])

    def submit(self, number: int, job: Callable[..., Any], *args: Any) -> None:
        """Run `job(*args)` under a number; its result is dropped."""
        if self._pool is None:
            job(*args)
            self._finished.append(number)
        else:
            self._running[number] = self._pool.submit(job, *args)

    def finished(self, patience_s: float = 0.0) -> list[int]:
        """Return the numbers of the jobs finished since the last call, in the order they were submitted.

        Blocks until at least one running job has finished.

        Args:
            patience_s: Seconds to wait for further jobs once one has finished; inf waits for all.

        Raises:
            BaseException: The exception of a failed job.
        """
        if self._running:
            wait(self._running.values(), return_when=FIRST_COMPLETED)
            wait(self._running.values(), timeout=None if math.isinf(patience_s) else patience_s)
        return self.done()

    def done(self) -> list[int]:
        """Return the numbers of the jobs finished since the last call, without waiting; see `finished`."""
        for number in [number for number, future in self._running.items() if future.done()]:
            self._running.pop(number).result()
            self._finished.append(number)
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Wait for running jobs; drop those that have not started."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._running.clear()
        self._finished.clear()


class ParallelGames(Generic[Game]):
    """Numbered games in progress, with their environments and background jobs.

    An environment whose game was left is used again, unless the game failed.

    Args:
        make_env: Returns a new, independent environment; called in the caller's thread.
        jobs: Runner of the games' steps; None runs each in the caller's thread.
        spare: Environments made before, to be used first.
    """

    def __init__(
        self, make_env: Callable[[], Any], jobs: BackgroundJobs | None = None, spare: Iterable[Any] = ()
    ) -> None:
        self.jobs = BackgroundJobs(0) if jobs is None else jobs
        self._make_env = make_env
        self._spare = list(spare)
        self._games: dict[int, Game] = {}

    def __len__(self) -> int:
        return len(self._games)

    def __getitem__(self, number: int) -> Game:
        return self._games[number]

    def enter(self, number: int, make_game: Callable[[Any], Game]) -> Game:
        """Return a new game under a number; the game that had the number is left.

        Args:
            number: Number of the game.
            make_game: Makes the game of an environment.
        """
        if number in self._games:
            self.leave(number)
        env = self._spare.pop() if self._spare else self._make_env()
        self._games[number] = game = make_game(env)
        return game

    def leave(self, number: int) -> Game:
        """Take a game out and return it; an environment that failed is closed and never used again."""
        game = self._games.pop(number)
        if game.failure is None:
            self._spare.append(game.env)
        else:
            game.close()
        return game

    def close(self) -> None:
        """Wait for running steps, then close all environments, even if one of them raises; any number of times."""
        self.jobs.close()
        with ExitStack() as stack:
            for env in self._spare:
                stack.callback(env.close)
            for game in self._games.values():
                stack.callback(game.close)
            self._spare, self._games = [], {}
