"""Judge of untrusted programs: runs them against tests in jails; expected outputs stay on the host.

A judge uses the backend that was asked for, or the strongest that withstands attacks on this host.

Examples:
    with Judge() as judge:
        judgement = judge.run("print(int(input()) * 2)", tests=[Test(b"21", b"42")])
        print(judgement.verdict, judgement.passed, judge.report)
"""

from __future__ import annotations

import atexit
import logging
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from marft_common.close_names import did_you_mean
from marft_envs.sandbox.checkers import AnyChecker
from marft_envs.sandbox.host_machine import physical_cores
from marft_envs.sandbox.image import DEFAULT_IMAGE
from marft_envs.sandbox.judge_data import Judgement, Limits, SandboxError, Submission, Test
from marft_envs.sandbox.local_backends import BubblewrapBackend, LandlockBackend, UnsafeBackend
from marft_envs.sandbox.pool import Backend, SlotPool
from marft_envs.sandbox.selftest import NUM_ROWS, failures, run_selftest

ISOLATING = ("docker", "bubblewrap", "landlock")  # in order of decreasing strength
_RUNNER_MB = 64  # the runner and the built program
_log = logging.getLogger(__name__)
_open_pools: weakref.WeakSet[SlotPool] = weakref.WeakSet()
_held: set[tuple[str, str]] = set()  # pairs of backend and image that held against the self-test in this process


class JudgeBase(ABC):
    """Base class of judges: ways to submit programs, and the context manager."""

    backend: str
    report: str

    @abstractmethod
    def submit(self, submission: Submission) -> Future[Judgement]:
        """Queue a submission in first-in, first-out order."""

    @abstractmethod
    def close(self) -> None:
        """Release what the judge holds; queued submissions are cancelled. Idempotent."""

    def run(
        self,
        program: str | bytes,
        language: str = "python",
        tests: Sequence[Test] = (),
        limits: Limits | None = None,
        checker: str | AnyChecker = "tokens",
    ) -> Judgement:
        """Judge one program; `Submission` documents the arguments.

        Raises:
            ValueError: Invalid input; nothing has run.
            SandboxError: No compiler for the language here, or the judge is closed.
        """
        return self.submit(Submission(program, language, tests, limits or Limits(), checker)).result()

    def run_many(self, submissions: Iterable[Submission]) -> list[Judgement]:
        """Judge many programs in parallel; return the judgements in the order of the submissions."""
        futures = [self.submit(submission) for submission in submissions]
        return [future.result() for future in futures]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Judge(JudgeBase):
    """Pool of jails for judging programs from any number of threads.

    A context manager; it is also closed when the process ends.

    Args:
        backend: Name of the backend: "docker", "bubblewrap" or "landlock". "auto" attacks each in this order and takes
            the first that holds. "unsafe" isolates nothing.
        workers: Number of programs that run at once; None is one per physical core. More make CPU times unreliable.
        image: Image name of the Docker backend, built by `marft sandbox build`.
        slot_memory_mb: Memory of one slot in MiB: the largest memory limit of a submission, its input and output, and
            the compiler. Only Docker enforces it as a whole.
        self_test: Attack a named backend as well; False is for callers that run the attacks. Each backend is attacked
            once per process.

    Attributes:
        backend: Name of the backend in use.
        report: One line per backend tried, with the reason for its choice or refusal.

    Raises:
        SandboxError: The backend cannot be used or does not isolate; for "auto", none does. The message says what
            to do.
        ValueError: Unknown backend, or no workers.
    """

    def __init__(
        self,
        backend: str = "auto",
        workers: int | None = None,
        image: str = DEFAULT_IMAGE,
        slot_memory_mb: int = 4096,
        self_test: bool = True,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers: found {workers}, wanted at least 1, or None for one a core")
        count = len(physical_cores()) if workers is None else workers
        self._slot_memory_mb = slot_memory_mb
        self._pool, self.report = open_pool(backend, count, image, slot_memory_mb, self_test)
        self.backend = self._pool.backend.name
        _open_pools.add(self._pool)
        for line in self.report.splitlines():
            _log.info("%s", line)

    def submit(self, submission: Submission) -> Future[Judgement]:
        """Queue a submission in first-in, first-out order.

        The first C++ program on a machine waits here for a compiled header, some seconds.

        Raises:
            ValueError: Its memory limit, with its input and output, exceeds the memory of a slot.
            SandboxError: No compiler for the language here, or the judge is closed.
        """
        words = " ".join((*submission.spoken.build, *submission.spoken.run))
        missing = [
            tool for tool in ("python", "c++") if f"{{{tool}}}" in words and tool not in self._pool.backend.tools
        ]
        if missing:
            raise SandboxError(
                f"language {submission.language!r}: the {self.backend} sandbox has no {missing[0]}; install it"
            )
        most = self._slot_memory_mb // 2
        if submission.limits.memory_mb > most:
            raise ValueError(
                f"Limits.memory_mb: found {submission.limits.memory_mb}, wanted at most {most}, half of slot_memory_mb:"
                f" make the judge with slot_memory_mb={2 * submission.limits.memory_mb}"
            )
        # A slot that runs out of memory fails the program, so its permitted use must fit.
        needed = submission.limits.memory_mb + submission.files_mb + _RUNNER_MB
        if needed > self._slot_memory_mb:
            raise ValueError(
                f"slot_memory_mb: found {self._slot_memory_mb}, wanted at least {needed} for the memory limit, the"
                f" largest input and the outputs: make the judge with slot_memory_mb={needed}"
            )
        if self._pool.backend.headers is not None:
            self._pool.backend.headers.compile(" ".join(submission.spoken.build))
        return self._pool.submit(submission)

    def close(self) -> None:
        """Close all jails; queued submissions are cancelled, running ones get INTERNAL. Idempotent."""
        self._pool.close()


def open_pool(
    backend: str, workers: int, image: str, slot_memory_mb: int, self_test: bool = True
) -> tuple[SlotPool, str]:
    """Open a pool of the requested backend; return it with a report of the choice.

    Raises:
        SandboxError: The backend cannot be used or does not hold; for "auto", none isolates.
        ValueError: Unknown name of a backend.
    """
    makers = _makers(workers, image, slot_memory_mb)
    if backend == "auto":
        return _open_strongest(makers, workers, image)
    if backend not in makers:
        hint = did_you_mean(backend, makers)
        raise ValueError(f"backend: found {backend!r}, wanted auto, {', '.join(makers)}{hint}")
    pool = SlotPool(makers[backend](), workers)
    if backend not in ISOLATING or not self_test:
        return pool, f"{backend}: asked for"
    broken = _attack(pool, backend, image)
    if broken:
        raise SandboxError(
            f"{backend}: it was asked for, but it does not isolate here: {'; '.join(broken)};"
            " `marft sandbox check` attacks all backends"
        )
    return pool, f"{backend}: asked for, held against {NUM_ROWS} attacks"


def _attack(pool: SlotPool, backend: str, image: str) -> list[str]:
    """Attack a pool whose backend did not hold before in this process.

    Returns:
        The failures; the pool is closed if there are any.
    """
    if (backend, image) in _held:
        return []
    try:
        broken = failures(run_selftest(pool))
    except BaseException:
        pool.close()
        raise
    if broken:
        pool.close()
    else:
        _held.add((backend, image))
    return broken


def _makers(workers: int, image: str, slot_memory_mb: int) -> dict[str, Callable[[], Backend]]:
    def docker() -> Backend:
        from marft_envs.sandbox.docker_backend import DockerBackend  # lazy: the Docker SDK is optional

        return DockerBackend(image, workers, slot_memory_mb)

    return {"docker": docker, "bubblewrap": BubblewrapBackend, "landlock": LandlockBackend, "unsafe": UnsafeBackend}


def _open_strongest(makers: dict[str, Callable[[], Backend]], workers: int, image: str) -> tuple[SlotPool, str]:
    lines: list[str] = []
    for name in ISOLATING:
        try:
            pool = SlotPool(makers[name](), workers)
        except (SandboxError, ImportError) as error:
            lines.append(f"{name}: not here: {error}")
            continue
        broken = _attack(pool, name, image)
        if not broken:
            lines.append(f"{name}: taken, held against {NUM_ROWS} attacks")
            return pool, "\n".join(lines)
        lines.append(f"{name}: refused: {'; '.join(broken)}")
    advice = "install an engine and run `marft sandbox build`, or install bubblewrap, or use Linux 5.13 or newer"
    raise SandboxError("\n".join(["no sandbox isolates here: " + advice, *lines]))


def _close_pools() -> None:
    for pool in list(_open_pools):
        pool.close()


atexit.register(_close_pools)
