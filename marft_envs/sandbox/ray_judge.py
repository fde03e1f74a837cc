"""Judge on the machines of a Ray cluster that offer the resource `marft_judge`.

A machine offers it when its node is started with `ray start --resources '{"marft_judge": 4}'`: four programs may run
there at once. Each such node gets one actor, which holds a `Judge` with as many workers. All processes of a job share
these actors. Judging a program again changes nothing, so a submission whose node or actor died is judged elsewhere.
"""

from __future__ import annotations

import importlib.util
import os
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import metadata
from typing import Any

from marft_common.installation import pip_install
from marft_envs.sandbox.image import DEFAULT_IMAGE
from marft_envs.sandbox.judge import Judge, JudgeBase
from marft_envs.sandbox.judge_data import Judgement, SandboxError, Submission

RESOURCE = "marft_judge"
NAMESPACE = "marft"  # of the actors' names
OFFER = f"""start a node with `ray start ... --resources '{{"{RESOURCE}": 4}}'`, for four programs at once"""
OPEN_S = 300.0  # timeout of an actor's start, attacks on its sandbox included
MOST_DEATHS = 3  # of actors that judge the same submission
MOST_WAITING = 1000  # calls of one actor at once; they wait in the judge's own queue


class RayJudge(JudgeBase):
    """Judge whose programs run on the nodes of a Ray cluster.

    It joins the cluster that this process is connected to, else the one of this machine (or of `RAY_ADDRESS`).

    Args:
        backend: Backend on those nodes, as for `Judge`.
        image: Image of the Docker backend.

    Attributes:
        backend: "ray:" and the name of the requested backend.
        report: One line for each node: its slots, and its judge's choice of a backend.

    Raises:
        SandboxError: Ray is missing, no cluster answers, no node offers the resource, a node has another version of
            marft, or its backend does not isolate.
    """

    def __init__(self, backend: str = "auto", image: str = DEFAULT_IMAGE) -> None:
        if importlib.util.find_spec("ray") is None:
            raise SandboxError(f"judge ray:{backend} needs the package ray: {pip_install('ray')}")
        import ray

        self._ray: Any = ray
        self._asked = backend, image
        self.backend = f"ray:{backend}"
        self._joined = not ray.is_initialized()
        if self._joined:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                ray.init("auto", log_to_driver=False, configure_logging=False)
            except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError
                raise SandboxError(f"judge {self.backend}: no Ray cluster: {' '.join(str(error).split())}") from error
        try:
            self._slots = slots = self._offered()
            self._actors = {node: self._actor(node, count) for node, count in slots.items()}
            self.report = "\n".join(self._opened(node, actor) for node, actor in self._actors.items())
        except ray.exceptions.RayError as error:
            self._leave()
            raise SandboxError(f"judge {self.backend}: {' '.join(str(error).split())}") from error
        except BaseException:
            self._leave()
            raise
        self._lock = threading.Lock()
        self._free: queue.SimpleQueue[str] = queue.SimpleQueue()
        for place in range(max(slots.values())):  # one slot of each node in turn
            for node, count in slots.items():
                if place < count:
                    self._free.put(node)
        self._threads = ThreadPoolExecutor(sum(slots.values()), thread_name_prefix="ray-judge")

    def _offered(self) -> dict[str, int]:
        """Return the number of slots of each living node that offers some."""
        nodes = {node["NodeID"]: int(node["Resources"].get(RESOURCE, 0)) for node in self._ray.nodes() if node["Alive"]}
        found = {node: count for node, count in nodes.items() if count}
        if not found:
            raise SandboxError(f"judge {self.backend}: no node of the cluster offers {RESOURCE!r}: {OFFER}")
        return found

    def _actor(self, node: str, count: int) -> Any:
        """Get or start the actor of a node; it begins to open its judge."""
        place = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        options = {
            "name": f"judge-{node}-{':'.join(self._asked)}",
            "namespace": NAMESPACE,
            "get_if_exists": True,
            "num_cpus": 0,
            "resources": {RESOURCE: count},
            "scheduling_strategy": place,
            "max_concurrency": MOST_WAITING,
            "max_restarts": -1,
            "max_task_retries": MOST_DEATHS - 1,
        }
        actor = self._ray.remote(_NodeJudge).options(**options).remote(*self._asked, count)
        actor.open.remote()
        return actor

    def _opened(self, node: str, actor: Any) -> str:
        """Wait for the judge of a node; return its report."""
        try:
            version, report = self._ray.get(actor.open.remote(), timeout=OPEN_S)
        except self._ray.exceptions.RayTaskError as error:
            raise SandboxError(f"judge {self.backend} on node {node}: {error.cause}") from error
        if version != metadata.version("marft"):
            raise SandboxError(
                f"judge {self.backend}: node {node} has marft {version}, wanted {metadata.version('marft')}: install "
                "the same version on all nodes"
            )
        return f"node {node}, {self._slots[node]} slots: {report}"

    def submit(self, submission: Submission) -> Future[Judgement]:
        """Queue a submission; see `Judge.submit`, whose errors come with the future here."""
        return self._threads.submit(self._judge, submission)

    def _judge(self, submission: Submission) -> Judgement:
        while True:
            node = self._free.get()
            actor = self._actors.get(node)
            if not self._actors:
                self._free.put(node)  # for the next that waits
                raise SandboxError(f"judge {self.backend}: all nodes with {RESOURCE!r} are lost")
            if actor is None:
                continue  # a slot of a lost node
            try:
                found: Judgement = self._ray.get(actor.judge.remote(submission))
                return found
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self._ray.exceptions.RayActorError:
                self._replace(node, actor)  # Ray has tried again: its node is gone, or the process that started it
            finally:
                self._free.put(node)

    def _replace(self, node: str, dead: Any) -> None:
        """Start a new actor in place of a dead one, or forget the node if it is gone."""
        with self._lock:
            if self._actors.get(node) is dead:
                try:
                    actor = self._actor(node, self._slots[node])
                    self._opened(node, actor)
                    self._actors[node] = actor
                except (self._ray.exceptions.RayError, SandboxError):
                    del self._actors[node]

    def close(self) -> None:
        """Let the actors end unless other processes use them; queued submissions are cancelled. Idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._actors = {}
        self._leave()

    def _leave(self) -> None:
        if self._joined:
            self._ray.shutdown()


class _NodeJudge:
    """Judge of one node; a Ray actor, which opens its judge again after a restart."""

    def __init__(self, backend: str, image: str, workers: int) -> None:
        self._asked = backend, workers, image
        self._lock = threading.Lock()
        self._judge: Judge | None = None

    def pid(self) -> int:
        return os.getpid()

    def _opened(self) -> Judge:
        with self._lock:
            if self._judge is None:
                self._judge = Judge(*self._asked)
            return self._judge

    def open(self) -> tuple[str, str]:
        """Open the judge; return the version of marft, and the judge's report."""
        return metadata.version("marft"), self._opened().report

    def judge(self, submission: Submission) -> Judgement:
        """Judge one submission."""
        return self._opened().submit(submission).result()
