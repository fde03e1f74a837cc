"""Rollout workers as actors of a Ray cluster, and the connection to it.

Every worker is one actor: a process with its own environments, base model and sampler. The learner's process has a
thread per worker that waits for its call. Adapters are put into the object store once per version. Prompt groups come
back pickled, with the version that played them. The actors keep no state but their adapters, so a worker that dies is
started again and its prompt groups are played again, with the same random numbers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import queue
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

from marft_agents.learning.rank_settings import RankSettings
from marft_agents.policies.adapter_files import pack_adapters, unpack_adapters
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.remote import shorten
from marft_agents.rollouts.rollout_settings import OFF, RolloutSettings
from marft_agents.rollouts.rollout_source import GroupPlayer
from marft_agents.rollouts.rollout_workers import Played
from marft_common.installation import pip_install

Build = Callable[[int], contextlib.AbstractContextManager[GroupPlayer]]

ANSWER_S = 5.0  # timeout of the head of a cluster, in seconds
CLOSE_S = 10.0  # for a worker to unload its adapters from a server, in seconds
START_S = 600.0  # timeout of the start of a worker, models included
STORE_BYTES = 256 * 2**20  # object store of a cluster on this machine: some versions of the adapters
MOST_DEATHS = 3  # of workers that play the same prompt groups
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # preface of a client, with empty settings


class RolloutWorkerError(RuntimeError):
    """A cluster or worker that cannot play; names the worker and the cause."""


def check_ray(settings: RolloutSettings) -> None:
    """Raise a RolloutWorkerError that names the extra if workers of a Ray cluster are asked for and Ray is missing."""
    if settings.ray != OFF and importlib.util.find_spec("ray") is None:
        raise RolloutWorkerError(f"--ray {settings.ray} needs the package ray: {pip_install('ray')}")


@contextlib.contextmanager
def cluster(settings: RolloutSettings, ranks: RankSettings | None = None) -> Iterator[None]:
    """Start or join a Ray cluster, as a context manager that shuts down what it started.

    A process that is already connected to a cluster uses that one. Without a cluster, workers
    and further learners this does nothing.

    Args:
        settings: Address of the cluster, and what its workers need.
        ranks: Learners of the same cluster, if there are several.

    Raises:
        RolloutWorkerError: Ray is missing, the address does not answer, or the cluster is too small.
    """
    wanted = _wanted(settings, ranks or RankSettings())
    if settings.ray == OFF or not wanted["CPU"]:
        yield
        return
    check_ray(settings)
    address = settings.ray
    if address != "local":  # a head that should answer: ask before Ray does, which takes minutes
        _refuse_silent(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
    import ray

    if ray.is_initialized():  # joined by the caller, who also leaves it
        _refuse_small(ray, settings.ray, wanted)
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it reports to its makers
    started: dict[str, Any] = {}
    if address == "local":
        started = {"num_cpus": wanted["CPU"], "include_dashboard": False, "object_store_memory": STORE_BYTES}
    try:
        try:
            ray.init(address, configure_logging=False, log_to_driver=False, **started)
        except Exception as error:  # Ray raises these too, where a node does not start in time
            raise RolloutWorkerError(
                f"--ray {address}: {type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        _refuse_small(ray, address, wanted)
        yield
    finally:
        ray.shutdown()


def _refuse_silent(address: str) -> None:
    """Refuse an address at which nothing speaks gRPC, as a head does; Ray itself tries for minutes."""
    if address == "auto" or os.environ.get("RAY_USE_TLS") == "1":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise RolloutWorkerError(f"--ray {address!r}: wanted local, auto or HOST:PORT")
    try:
        with socket.create_connection((host, int(port)), ANSWER_S) as connection:
            connection.settimeout(ANSWER_S)
            connection.sendall(HTTP2)
            found = connection.recv(9)
    except (OSError, OverflowError) as error:
        raise RolloutWorkerError(f"--ray {address}: no Ray cluster answers: {error}; see `ray status`") from error
    if found[3:4] != b"\4":  # the frame of a server's settings
        raise RolloutWorkerError(f"--ray {address}: wanted the head of a Ray cluster, found another server")


def _wanted(settings: RolloutSettings, ranks: RankSettings) -> dict[str, float]:
    """Return what workers and learners need of a cluster, by resource; one learner is no process of it."""
    learners = ranks.learners if ranks.learners > 1 else 0
    return {
        "CPU": settings.rollout_workers * settings.worker_cpus + learners * ranks.learner_cpus,
        "GPU": settings.rollout_workers * settings.worker_gpus + learners * ranks.learner_gpus,
    }


def _refuse_small(ray: Any, address: str, wanted: Mapping[str, float]) -> None:
    found = ray.cluster_resources()
    for resource, amount in wanted.items():
        if found.get(resource, 0) < amount:
            raise RolloutWorkerError(
                f"--ray {address}: workers and learners want {amount:g} {resource}, the cluster has "
                f"{found.get(resource, 0):g}: ask for fewer of them, or add nodes first"
            )


def versions() -> dict[str, str]:
    """Return the versions that must be the same on all nodes."""
    found = {}
    for package in ("marft", "torch", "transformers", "peft"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def other_versions(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Return in which versions a process differs from another, as text; empty if they are the same."""
    differing = []
    for key in sorted(found.keys() | wanted.keys()):
        if found.get(key) != wanted.get(key):
            differing.append(f"{key} {found.get(key)!r}, wanted {wanted.get(key)!r}")
    return "; ".join(differing)


class _DiedError(RolloutWorkerError):
    """A worker that died while it started."""

    def __init__(self, index: int, cause: Exception) -> None:
        super().__init__(f"rollout worker {index} died while it started: {shorten(cause)}")
        self.index = index


class RayWorkers:
    """Rollout workers of a connected cluster; implements `rollout_workers.Workers`.

    Args:
        build: Opens the player of a worker, given its index; called in the worker's process. It must be picklable.
        team: The learning team, whose adapters are published.
        settings: Number of workers, and what each needs.
        identity: Returns what must be the same in the learner's process and in a worker's.
        on_death: Called with a sentence for each worker that died.

    Raises:
        RolloutWorkerError: A worker has other versions, or cannot be built; all are stopped.
    """

    def __init__(
        self,
        build: Build,
        team: LanguageModelTeam,
        settings: RolloutSettings,
        *,
        identity: Callable[[], Mapping[str, str]] = versions,
        on_death: Callable[[str], None] | None = None,
    ) -> None:
        check_ray(settings)
        import ray

        self._ray: Any = ray
        self.count, self.team = settings.rollout_workers, team
        self._build, self._identity, self._on_death = build, identity, on_death
        self._actor = self._ray.remote(_Worker).options(
            num_cpus=settings.worker_cpus, num_gpus=settings.worker_gpus, max_restarts=0, max_task_retries=0
        )
        self._threads = settings.worker_cpus
        self._closing = threading.Event()
        self._published: tuple[int, Any] = (-1, None)
        self._idle: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._actors = {index: self._actor.remote() for index in range(self.count)}
        try:
            self._open(list(self._actors))
        except BaseException:
            self.close()
            raise
        for index in self._actors:
            self._idle.put(index)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, in order."""
        found: list[int] = self._ray.get([actor.pid.remote() for actor in self._actors.values()])
        return found

    def publish(self, version: int) -> None:
        """Put the team's current adapters into the object store, for all later calls of `play`."""
        self._published = version, self._ray.put(pack_adapters(self.team))

    def play(self, numbers: Sequence[int]) -> Played:
        """Play prompt groups with the newest adapters on an idle worker; return when they are over.

        Raises:
            RolloutWorkerError: The worker's environment or sampler failed, or worker after worker died.
        """
        index = self._idle.get()
        try:
            for death in range(1, MOST_DEATHS + 1):
                version, adapters = self._published  # again after a death: an update may have passed meanwhile
                try:
                    played = self._ray.get(self._actors[index].play.remote(version, adapters, list(numbers)))
                    return pickle.loads(played)  # type: ignore[no-any-return]
                except self._ray.exceptions.RayActorError as error:
                    if self._closing.is_set():
                        raise
                    self._tell_or_give_up(index, numbers, error, last=death == MOST_DEATHS)
                    self._actors[index] = self._actor.remote()
                    self._open([index])
                except self._ray.exceptions.RayTaskError as error:
                    raise _failed(index, error) from error
            raise AssertionError("the last death raises")
        finally:
            self._idle.put(index)

    def _tell_or_give_up(self, index: int, numbers: Sequence[int], error: Exception, *, last: bool) -> None:
        """Tell that a worker died while it played; at the last death raise a RolloutWorkerError instead."""
        cause = " ".join(str(error).split())
        groups = f"prompt groups {', '.join(map(str, numbers))}"
        if last:
            raise RolloutWorkerError(
                f"{MOST_DEATHS} workers died while they played {groups}; the last: {cause}"
            ) from error
        if self._on_death is not None:
            self._on_death(f"rollout worker {index} died; it is started again and plays {groups} again: {cause}")

    def _open(self, indices: Iterable[int]) -> None:
        """Compare versions with workers, then have them load their models; one that dies meanwhile starts again."""
        for death in range(1, MOST_DEATHS + 1):
            try:
                self._compare(self._ask(indices, "hello", self._identity))
                self._ask(indices, "open", self._build, self._threads)
                return
            except _DiedError as died:
                if death == MOST_DEATHS:
                    raise
                if self._on_death is not None:
                    self._on_death(f"{died}; it is started again")
                self._actors[died.index] = self._actor.remote()

    def _compare(self, identities: Mapping[int, Mapping[str, str]]) -> None:
        """Refuse workers with other versions than the learner."""
        wanted = dict(self._identity())
        for index, found in identities.items():
            told = other_versions(found, wanted)
            if told:
                raise RolloutWorkerError(
                    f"rollout worker {index} has other versions than the learner: found {told}; install the same on "
                    "all nodes"
                )

    def _ask(self, indices: Iterable[int], method: str, *arguments: Any) -> dict[int, Any]:
        """Call a method of some workers at once; return the results by index."""
        # All begin before the first is waited for: loading a model takes long.
        calls = {index: getattr(self._actors[index], method).remote(index, *arguments) for index in indices}
        found = {}
        for index, call in calls.items():
            try:
                found[index] = self._ray.get(call, timeout=START_S)
            except self._ray.exceptions.RayTaskError as error:
                raise _failed(index, error) from error
            except self._ray.exceptions.RayActorError as error:
                raise _DiedError(index, error) from error
            except self._ray.exceptions.RayError as error:  # there is no room for it
                raise RolloutWorkerError(f"rollout worker {index} could not start: {shorten(error)}") from error
        return found

    def close(self) -> None:
        """Have all workers close their samplers, and stop them; one that still plays is stopped all the same."""
        self._closing.set()
        calls = [actor.close.remote() for actor in self._actors.values()]
        self._ray.wait(calls, num_returns=len(calls), timeout=CLOSE_S)
        for actor in self._actors.values():
            self._ray.kill(actor)


class _Worker:
    """A rollout worker's process: a Ray actor."""

    def __init__(self) -> None:
        self._version = -1
        self._stack = contextlib.ExitStack()
        self._player: GroupPlayer | None = None

    def pid(self) -> int:
        return os.getpid()

    def hello(self, index: int, identity: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        """Return the versions of this process."""
        return dict(identity())

    def open(self, index: int, build: Build, threads: int) -> None:
        """Load the models, unless they are loaded."""
        import torch

        if self._player is None:
            torch.set_num_threads(threads)
            self._player = self._stack.enter_context(build(index))

    def close(self) -> None:
        """Close the sampler."""
        self._stack.close()

    def play(self, version: int, adapters: Mapping[str, bytes], numbers: Sequence[int]) -> bytes:
        """Play prompt groups with the adapters of a version; return a pickled `Played`."""
        player = self._player
        assert player is not None, "open() comes first"
        if version != self._version:
            unpack_adapters(player.team, adapters)
            player.refresh()
            self._version = version
        before, used = player.seconds, replace(player.team.prompt_cache_use)
        groups = player.play(numbers)
        # as bytes: arrays read from the object store cannot be written to, and keep their place in it
        return pickle.dumps(Played(version, groups, player.seconds - before, player.team.prompt_cache_use - used))


def _failed(index: int, error: Any) -> RolloutWorkerError:
    """Return the error of a worker in which Python code failed."""
    cause = " ".join(str(error.cause).split())
    return RolloutWorkerError(f"rollout worker {index}: {type(error.cause).__name__}: {cause}")
