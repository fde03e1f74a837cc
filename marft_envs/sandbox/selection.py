"""Selection of the judge's backend: the requested one, or the strongest that withstands attacks on this host."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from marft_envs.sandbox.landlock_backend import LandlockBackend
from marft_envs.sandbox.pool import Backend, SlotPool
from marft_envs.sandbox.selftest import NUM_ROWS, failures, run_selftest
from marft_envs.sandbox.unsafe import UnsafeBackend
from marft_envs.sandbox.verdict import SandboxError

ISOLATING = ("docker", "bubblewrap", "landlock")  # in order of decreasing strength
_held: set[tuple[str, str]] = set()  # requested pairs of backend and image that held in this process


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
        return _open_strongest(makers, workers)
    if backend not in makers:
        close = difflib.get_close_matches(backend, makers, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"backend: found {backend!r}, wanted auto, {', '.join(makers)}{hint}")
    pool = SlotPool(makers[backend](), workers)
    if backend not in ISOLATING or not self_test:
        return pool, f"{backend}: asked for"
    if (backend, image) not in _held:
        broken = _attack(pool)
        if broken:
            raise SandboxError(
                f"{backend}: it was asked for, but it does not isolate here: {'; '.join(broken)};"
                " `marft sandbox check` attacks all backends"
            )
        _held.add((backend, image))
    return pool, f"{backend}: asked for, held against {NUM_ROWS} attacks"


def _attack(pool: SlotPool) -> list[str]:
    """Attack a pool and return the failures; close the pool if there are any."""
    try:
        broken = failures(run_selftest(pool))
    except BaseException:
        pool.close()
        raise
    if broken:
        pool.close()
    return broken


def _makers(workers: int, image: str, slot_memory_mb: int) -> dict[str, Callable[[], Backend]]:
    def docker() -> Backend:
        from marft_envs.sandbox.docker_backend import DockerBackend

        return DockerBackend(image, workers, slot_memory_mb)

    def bubblewrap() -> Backend:
        from marft_envs.sandbox.bubblewrap import BubblewrapBackend

        return BubblewrapBackend()

    return {"docker": docker, "bubblewrap": bubblewrap, "landlock": LandlockBackend, "unsafe": UnsafeBackend}


def _open_strongest(makers: dict[str, Callable[[], Backend]], workers: int) -> tuple[SlotPool, str]:
    lines: list[str] = []
    for name in ISOLATING:
        try:
            pool = SlotPool(makers[name](), workers)
        except (SandboxError, ImportError) as error:
            lines.append(f"{name}: not here: {error}")
            continue
        broken = _attack(pool)
        if not broken:
            lines.append(f"{name}: taken, held against {NUM_ROWS} attacks")
            return pool, "\n".join(lines)
        lines.append(f"{name}: refused: {'; '.join(broken)}")
    advice = "install an engine and run `marft sandbox build`, or install bubblewrap, or use Linux 5.13 or newer"
    raise SandboxError("\n".join(["no sandbox isolates here: " + advice, *lines]))
