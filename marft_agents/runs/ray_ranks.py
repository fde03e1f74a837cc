"""Ranks of a data-parallel learner as the workers of Ray Train, in a connected cluster (`ray_workers.cluster`).

Ray Train starts the processes, connects them (gloo between CPUs, NCCL between GPUs) and ends all when one fails. Rank 0
does what a learner that is alone does: it plays, or has workers play, decides and writes. The others share the passes
of its updates.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pickle
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import torch

from marft_agents.learning.rank_settings import RankSettings
from marft_agents.learning.ranks import Ranks, TorchRanks, is_lost
from marft_agents.policies.remote import shorten
from marft_agents.rollouts.ray_workers import START_S, check_ray, other_versions, versions
from marft_agents.rollouts.rollout_settings import OFF, RolloutSettings
from marft_agents.setting_fields import SettingsError
from marft_common.installation import pip_install

WANTED = ("pandas", "pyarrow", "fsspec", "requests", "pydantic")  # by Ray Train, beside Ray
DEFAULTS = {  # of Ray Train, as environment variables
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths are those of the command
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # a rank that died is noticed after so long
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(START_S),
}
WAIT_S = 30 * 24 * 3600  # for rank 0, which may play for hours; Ray Train notices a rank that died
NOTICE_S = 60.0  # for Ray Train to notice a dead rank
TEXT, ERROR, END = "text", "error", "end"  # kinds of messages of the ranks


class RankError(RuntimeError):
    """Ranks that cannot start, or one that died; names the rank and the cause."""


def check_ranks(settings: RankSettings, rollouts: RolloutSettings) -> None:
    """Check that several learners have a cluster and all packages, without starting anything.

    Raises:
        SettingsError: Several learners are asked for without a cluster.
        RolloutWorkerError: Ray is missing.
        RankError: Other packages of Ray Train are missing.
    """
    if settings.learners == 1:
        return
    if rollouts.ray == OFF:
        raise SettingsError(
            f"learners = {settings.learners} are processes of a Ray cluster: give --ray local, auto or HOST:PORT"
        )
    check_ray(rollouts)
    missing = [package for package in WANTED if importlib.util.find_spec(package) is None]
    if missing:
        raise RankError(
            f"--learners {settings.learners} needs Ray Train, which misses {', '.join(missing)}: {pip_install('ray')}"
        )


def run_ranks(
    work: Callable[[Ranks], None],
    settings: RankSettings,
    shared: Path,
    *,
    identity: Callable[[], Mapping[str, str]] = versions,
) -> None:
    """Call work(ranks) in one process per rank, until all have returned; what rank 0 prints is printed here.

    Args:
        work: Work of a rank; picklable.
        settings: Number of ranks, and what each needs.
        shared: Existing folder that rank 0 must see, for Ray Train's own records, which are removed.
        identity: Returns what must be the same on all ranks.

    Raises:
        RankError: A rank died or has other versions, or rank 0 does not see the shared folder.
        Exception: The error that a rank raised first. In either case all ranks have ended.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.util.queue import Queue

    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    gpus = settings.learner_gpus
    messages: Any = Queue(actor_options={"num_cpus": 0})
    ended: Future[None] = Future()
    never_again = FailureConfig(max_failures=0, controller_failure_limit=0, max_preemption_failures=0)

    def fit(records: str) -> None:
        try:
            TorchTrainer(
                partial(_on_rank, work, settings.learner_cpus, identity, messages, records),
                torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if gpus else "gloo", timeout_s=WAIT_S),
                scaling_config=ScalingConfig(
                    num_workers=settings.learners,
                    use_gpu=bool(gpus),
                    resources_per_worker={"CPU": settings.learner_cpus, "GPU": gpus},
                ),
                run_config=RunConfig(name="ranks", storage_path=records, failure_config=never_again),
            ).fit()
            ended.set_result(None)
        except BaseException as error:
            ended.set_exception(error)
        finally:
            with contextlib.suppress(Exception):  # after Ctrl-C nobody listens
                messages.put((END, "", None))

    try:
        with tempfile.TemporaryDirectory(dir=shared, prefix=".ranks-", ignore_cleanup_errors=True) as records:
            # not in this thread: there Ray Train would take over Ctrl-C
            threading.Thread(target=fit, args=[records], daemon=True).start()
            errors = _follow(messages)
        try:
            ended.result()
        except TrainingFailedError as error:
            raise _cause(error, errors) from error
    finally:
        messages.shutdown(force=True)


def _follow(messages: Any) -> dict[int, BaseException]:
    """Print what rank 0 prints until all ranks have ended; return what ranks raised, in order."""
    errors = dict[int, BaseException]()
    while True:
        kind, where, content = messages.get()
        if kind == END:
            return errors
        if kind == ERROR:
            errors[where] = content
        else:
            print(content, end="", file=getattr(sys, where), flush=True)


def _cause(error: Any, errors: Mapping[int, BaseException]) -> BaseException:
    """Return why the ranks ended: a rank that died without a word, else the first error of a rank."""
    failures = getattr(error, "worker_failures", {})
    silent = [rank for rank in failures if rank not in errors]
    if silent:
        return RankError(f"learner rank {silent[0]} died: {shorten(failures[silent[0]])}")
    return next(iter(errors.values()), RankError(f"the learners could not start: {shorten(error)}"))


def _on_rank(
    work: Callable[[Ranks], None],
    threads: int,
    identity: Callable[[], Mapping[str, str]],
    messages: Any,
    records: str,
) -> None:
    """Do the work of a rank, in its process."""
    torch.set_num_threads(threads)
    ranks = TorchRanks()
    try:
        found = ranks.gather(dict(identity()))
        for rank, there in enumerate(found):
            told = other_versions(there, found[0])
            if told:
                raise RankError(f"learner rank {rank} has other versions than rank 0: found {told}")
        if ranks.rank:
            work(ranks)
            return
        _refuse_unshared(Path(records))
        with (
            contextlib.redirect_stdout(_Text(messages, "stdout")),
            contextlib.redirect_stderr(_Text(messages, "stderr")),
        ):
            work(ranks)
    except BaseException as error:
        if is_lost(error):
            time.sleep(NOTICE_S)  # Ray Train ends this process as soon as it has noticed the dead one, the cause
        else:
            messages.put((ERROR, ranks.rank, _portable(error, ranks.rank)))
        raise


def _refuse_unshared(records: Path) -> None:
    """Raise a RankError where a folder that the command made is not seen."""
    if not records.is_dir():
        raise RankError(
            f"learner rank 0 runs on {socket.gethostname()}, which does not see {records.parent}: wanted --out on a "
            "file system that it shares with the machine of the command"
        )


def _portable(error: BaseException, rank: int) -> BaseException:
    """Return an error that another process can read: itself, or one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RankError(f"learner rank {rank}: {type(error).__name__}: {error}")
    return error


class _Text(io.TextIOBase):
    """Text stream to the standard output or error of the process that started the ranks."""

    def __init__(self, messages: Any, stream: str) -> None:
        self._messages, self._stream = messages, stream

    def write(self, text: str) -> int:
        """Send the text."""
        self._messages.put((TEXT, self._stream, text))
        return len(text)
