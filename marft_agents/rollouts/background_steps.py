"""Environment steps in background threads, so that a slow one (a code or model judge) does not block other games.

Timing decides which steps finish together. It does not affect any single game.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

MAX_THREADS = 32


class Stepper:
    """Runner of numbered jobs, at most one at a time per number.

    Args:
        threads: Number of jobs that run at once; 0 runs each in the caller's thread when it is submitted.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "marft-step") if threads else None
        self._running: dict[int, Future[None]] = {}
        self._finished: list[int] = []

    def submit(self, number: int, job: Callable[..., None], *args: Any) -> None:
        """Run `job(*args)` under a number."""
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
        finished, self._finished = self._finished, []
        if self._running:
            wait(self._running.values(), return_when=FIRST_COMPLETED)
            wait(self._running.values(), timeout=None if math.isinf(patience_s) else patience_s)
            finished += [number for number, future in self._running.items() if future.done()]
            for number in finished:
                self._running.pop(number).result()
        return finished

    def close(self) -> None:
        """Wait for running jobs; drop those that have not started."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def threads_for(env: Any, threads: int | None, num_envs: int) -> int:
    """Return the number of threads that step games of an environment.

    Args:
        env: One of the environments; `metadata["slow_step"]` declares that its steps wait for something.
        threads: Number requested by the user. None chooses one per game up to 32 for slow environments, else 0,
            since fast steps cost less than handing them over.
        num_envs: Number of games in flight.

    Raises:
        ValueError: The requested number is negative.
    """
    if threads is None:
        slow = (getattr(env, "metadata", None) or {}).get("slow_step", False)
        return min(num_envs, MAX_THREADS) if slow else 0
    if threads < 0:
        raise ValueError(f"step_threads: found {threads}, wanted at least 1, or 0 for none")
    return threads
