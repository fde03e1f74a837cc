"""Run the units of a plan as tasks of a Ray cluster.

A task needs no shared file system: it gets the records and trained teams that its unit needs, works in a temporary
folder, and returns what its unit wrote. A task whose process or node died is run again elsewhere, from its beginning.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from baselines.bench.plan import BenchPlan
from baselines.bench.run import Bench, locked
from baselines.bench.run_unit import RECORDS, Folder, run_unit
from baselines.bench.units import Training, Unit
from baselines.experiment.progress import Progress
from baselines.experiment.rollouts import identity
from marft_agents.rollouts.ray_workers import RolloutWorkerError, cluster, other_versions
from marft_agents.rollouts.rollout_settings import RolloutSettings

MAX_RETRIES = 2  # of a task whose process or node died


def run_on_ray(bench: Bench, settings: RolloutSettings) -> None:
    """Run all units that are not done as tasks, `rollout_workers` at a time.

    Args:
        bench: The units of a plan.
        settings: Address of the cluster, number of tasks at once, and what each needs.

    Raises:
        RolloutWorkerError: The cluster does not answer or is too small, or a node has other versions.
    """
    with locked(bench.folder.path), cluster(settings):
        import ray

        task: Any = ray.remote(_run_elsewhere).options(
            num_cpus=settings.worker_cpus, num_gpus=settings.worker_gpus, max_retries=MAX_RETRIES
        )
        wanted = identity()
        running: dict[Any, Unit] = {}
        while not bench.finished:
            while len(running) < settings.rollout_workers and (unit := bench.ready()) is not None:
                bench.start(unit)
                # The trained teams that it needs go along: nodes share no file system.
                files = _pack(bench.folder, [bench.units[name] for name in unit.needs])
                call = task.remote(bench.plan, unit, bench.command, files, settings.worker_cpus, wanted, bench.progress)
                running[call] = unit
            if not running:
                return
            (ended,), _ = ray.wait(list(running), num_returns=1)
            unit = running.pop(ended)
            try:
                _unpack(ray.get(ended), bench.folder)
            except (
                ray.exceptions.RayTaskError
            ) as error:  # Python code failed outside of the unit: no other would do better
                raise RolloutWorkerError(f"{unit.name}: {' '.join(str(error.cause).split())}") from error
            except ray.exceptions.RayError as error:
                bench.lose(unit, f"its task died {MAX_RETRIES + 1} times; the last: {' '.join(str(error).split())}")
            else:
                bench.end(unit)


def _run_elsewhere(
    plan: BenchPlan,
    unit: Unit,
    command: str,
    files: bytes,
    threads: int,
    wanted: Mapping[str, str],
    progress: Progress,
) -> bytes:
    """Run a unit in a temporary folder; return the files that it wrote, as a tar archive."""
    import torch

    if told := other_versions(identity(), wanted):
        raise RolloutWorkerError(f"a node has other versions than this machine: found {told}; install the same there")
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory(prefix="marft-unit-") as path:
        folder = Folder(Path(path))
        _unpack(files, folder)
        log = folder.path / "logs" / f"{unit.name}.log"
        log.parent.mkdir()
        with log.open("w") as stream, contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            run_unit(plan, unit, folder, command, progress)
        return _pack(folder, [unit], logs=True)


def _pack(folder: Folder, units: Iterable[Unit], *, logs: bool = False) -> bytes:
    """Return the records of units, the run folders of trainings and the logs, as a tar archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for unit in units:
            paths = [folder.record(unit)]
            if isinstance(unit, Training):
                paths.append(folder.run(unit.name))
            if logs:
                paths.append(folder.path / "logs" / f"{unit.name}.log")
            for path in paths:
                if path.exists():
                    tar.add(path, path.relative_to(folder.path))
    return archive.getvalue()


def _unpack(archive: bytes, folder: Folder) -> None:
    """Write the files of an archive into a folder; the records last, since they say that a unit is done."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = sorted(tar.getmembers(), key=lambda member: member.name.split("/")[0] in RECORDS)
        tar.extractall(folder.path, members, filter="data")
