"""Steps of environments in the background, so that a slow one (a judge of code, of models) stalls no other game.

Which steps come back together depends on the clock; what happens in a game does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

MAX_THREADS = 32


class Stepper:
    """Runs jobs by number, each number at most once at a time.

    Args:
        threads: jobs that run at once; 0 runs each in the caller's thread, when it is submitted.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "marft-step") if threads else None
        self._running: dict[int, Future[None]] = {}
        self._finished: list[int] = []

    def submit(self, number: int, job: Callable[..., None], *args: Any) -> None:
        """Run `job(*args)`."""
        if self._pool is None:
            job(*args)
            self._finished.append(number)
        else:
            self._running[number] = self._pool.submit(job, *args)

    def finished(self, patience_s: float = 0.0) -> list[int]:
        """Return the numbers whose jobs have finished since the last call, in the order they were submitted.

        Args:
            patience_s: once one has finished, wait so long for others; inf: until all have.

        Raises:
            BaseException: what a job raised.
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
        """Wait for the jobs that run; those that have not begun are dropped."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def threads_for(env: Any, threads: int | None, num_envs: int) -> int:
    """Return how many threads step games like this one.

    Args:
        env: one of the environments; `metadata["slow_step"]` says that its steps wait for something.
        threads: as wanted by the user; None: one per game up to 32 for slow environments, none for others, whose
            steps cost less than handing them over.
        num_envs: games in flight.

    Raises:
        ValueError: fewer than none.
    """
    if threads is None:
        slow = (getattr(env, "metadata", None) or {}).get("slow_step", False)
        return min(num_envs, MAX_THREADS) if slow else 0
    if threads < 0:
        raise ValueError(f"step_threads: found {threads}, wanted at least 1, or 0 for none")
    return threads
