"""Run a plan: units in parallel processes, records written atomically, restartable after any kill.

A unit is done when its record says so. Without a record it runs: a training goes on from its newest checkpoint, a cell
is played again. Units that failed run again with the next resume. All results are functions of the plan and of the
number of threads alone, so a killed and resumed benchmark equals an undisturbed one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TextIO

from baselines.bench.forecast import Costs, time_left, works_of
from baselines.bench.plan import BenchPlan
from baselines.bench.run_unit import Folder, head, run_unit
from baselines.bench.units import Cell, Training, Unit, cells_of, units_of
from baselines.experiment.progress import Progress, silent
from baselines.results.bench_records import read_records
from marft_agents.runs.folder_lock import LOCK_FILE, RunFolderError, flock, open_lock, owned
from marft_agents.runs.run_folder import write_json

PLAN_SCHEMA = "marft.bench.plan/1"
WORKERS_LOCK = ".workers.lock"  # in the folder of results; shared by the workers of a benchmark
LAST_WORKERS_S = 30.0  # longest wait for the workers of a killed benchmark to end
GPU_SHARE = 0.9  # of the memory of a GPU for all workers together; each has a CUDA context beside it


def open_folder(plan: BenchPlan, path: Path, *, resume: bool) -> Folder:
    """Make the folder of results, or check that it is one of this plan.

    Raises:
        RunFolderError: The folder holds results of another plan, or results and `resume` is false.
    """
    folder = Folder(path)
    file = path / "plan.json"
    if path.is_file():
        raise RunFolderError(f"{path} is a file; give another --out")
    if file.is_file():
        found = json.loads(file.read_text(encoding="utf-8"))
        _check_plan(plan, path, found["checksum"], found["plan"]["name"], "; give another --out")
        if not resume:
            raise RunFolderError(f"{path} already holds results of this plan; --resume goes on, or give another --out")
    elif path.is_dir() and any(file.name != LOCK_FILE for file in path.iterdir()):
        raise RunFolderError(f"{path} is not empty and holds no benchmark (plan.json is missing); give another --out")
    else:
        write_json(file, {"schema": PLAN_SCHEMA, "checksum": plan.checksum, "plan": plan.to_dict()})
    return folder


def _check_plan(plan: BenchPlan, where: Path, checksum: str, name: str, advice: str = "") -> None:
    """Refuse results of another plan, with its checksum and name."""
    if checksum != plan.checksum:
        raise RunFolderError(
            f"{where} holds results of another plan: found checksum {checksum} ({name}), "
            f"wanted {plan.checksum} ({plan.name}){advice}"
        )


def add_records(plan: BenchPlan, folder: Folder, file: Path) -> None:
    """Write the cells of an exported file into a folder of results; cells that have a record there keep it.

    Raises:
        RecordsError: The file is no export of records.
        RunFolderError: A record is of another plan, or of no cell of this one.
    """
    records, known = read_records([file]), {cell.name for cell in cells_of(plan)}
    for record in records:  # all before the first is written
        _check_plan(plan, file, record["plan_checksum"], record["plan"])
        if record["cell"] not in known:  # the name of a file, which could lie anywhere
            raise RunFolderError(
                f"{file}: found a record of {record['cell']!r}, which is no cell of the plan {plan.name}"
            )
    for record in records:
        place = folder.path / "cells" / f"{record['cell']}.json"
        if record["failure"] is None and not place.is_file():  # one that failed elsewhere may run here
            write_json(place, dict(record))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Own a folder of results once the workers of a killed benchmark have left it.

    Raises:
        RunFolderError: Another process runs a benchmark there, or workers of a killed one still do.
    """
    with owned(path), os.fdopen(open_lock(path / WORKERS_LOCK), "w") as workers:
        _wait_for_workers(workers, path)
        yield


def _wait_for_workers(lock: TextIO, path: Path) -> None:
    """Wait until the workers of a killed benchmark, which share this lock, have ended."""
    until = time.monotonic() + LAST_WORKERS_S
    while True:
        try:
            flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            flock(lock, fcntl.LOCK_UN)  # the workers of this benchmark share it from now on
            return
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise RunFolderError(f"{path}: workers of a killed benchmark still run; stop them") from error
            time.sleep(0.1)


class Bench:
    """The units of a plan, with those that are done, ready, running or failed.

    Args:
        plan: Plan that is run.
        folder: Folder of the results.
        command: Command line, for the records.
        keep_checkpoints: True keeps the run folders of trainings whose cells are done.
        tasks: Names of the tasks to run; empty: all of the plan.
        jobs: Units at a time, for the time that is left.
        tell: Gets a line for every unit that ends.
        progress: Gets the events of the trainings, in the process that trains.
    """

    def __init__(
        self,
        plan: BenchPlan,
        folder: Folder,
        command: str,
        *,
        keep_checkpoints: bool = False,
        tasks: Collection[str] = (),
        jobs: int = 1,
        tell: Callable[[str], None] = lambda line: None,
        progress: Progress = silent,
    ) -> None:
        self.tell, self.progress = tell, progress
        self.plan, self.folder, self.command = plan, folder, command
        self.keep_checkpoints = keep_checkpoints
        self.units = units_of(plan, tasks)
        self.jobs, self.costs, self.works = jobs, Costs(plan), works_of(plan, self.units.values())
        self.done: set[str] = set()
        trainings: list[dict[str, Any]] = []
        cells: list[dict[str, Any]] = []
        for name, unit in self.units.items():
            record = self._record(unit)
            if record is not None and record["failure"] is None:
                self.done.add(name)
                (trainings if isinstance(unit, Training) else cells).append(record)
        if counted := self.costs.add_records(trainings, cells):
            self.costs.sources.append(f"measured: {counted} units of this plan")
        # The records do not tell all: cells may come from an exported file, and run folders may have been deleted.
        self._redo_lost_trainings()
        self._skip_unneeded()
        self.failed: dict[str, str] = {}  # cause by name
        self.running: set[str] = set()
        self._ended = len(self.done)  # units told as ended; those that were done before are not told again

    def _record(self, unit: Unit) -> dict[str, Any] | None:
        """Return the record of a unit; None if it has not ended."""
        file = self.folder.record(unit)
        if not file.is_file():
            return None
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def _skip_unneeded(self) -> None:
        """Count trainings and cells of a grid as done if all that needs them is: cells may come from an export."""
        # From the last unit back, since what needs a unit comes after it.
        for name, unit in reversed(self.units.items()):
            if isinstance(unit, Training) or unit.trial is not None:
                needing = [other.name for other in self.units.values() if name in other.needs]
                if needing and self.done.issuperset(needing):
                    self.done.add(name)

    def _redo_lost_trainings(self) -> None:
        """Train again where a cell is not done and the trained team is gone."""
        for name, unit in self.units.items():
            if not isinstance(unit, Cell) or name in self.done or not unit.training:
                continue
            if not self.folder.run(unit.training).is_dir():
                self.done.discard(unit.training)

    @property
    def left(self) -> list[Unit]:
        """Units that are neither done nor failed, in the order of the plan."""
        return [unit for name, unit in self.units.items() if name not in self.done and name not in self.failed]

    @property
    def finished(self) -> bool:
        """True when every unit is done or failed."""
        return not self.left

    def ready(self) -> Unit | None:
        """Return the first unit that can run now; None if there is none. Units that need a failed one fail."""
        for name, unit in self.units.items():
            if name in self.done or name in self.failed or name in self.running:
                continue
            if broken := [need for need in unit.needs if need in self.failed]:
                # Here, not where the other one failed: so causes are told along the chain, in the order of the plan.
                self._fail(unit, f"it needs {broken[0]}, which failed: {self.failed[broken[0]]}")
            elif all(need in self.done for need in unit.needs):
                return unit
        return None

    def start(self, unit: Unit) -> None:
        """Note that a unit runs."""
        self.running.add(unit.name)

    def end(self, unit: Unit) -> None:
        """Note that a unit has ended; its record says how."""
        self.running.discard(unit.name)
        record = self._record(unit)
        cause = "it left no record" if record is None else record["failure"]
        if record is None or cause is not None:
            self.failed[unit.name] = str(cause)
            self._tell(unit.name, f"FAILED: {cause}")
            return
        self.done.add(unit.name)
        if isinstance(unit, Training):
            self.costs.add_training(record)
        else:
            self.costs.add_cell(record)
        self._tell(unit.name, _told(unit, record))
        self._tidy()

    def lose(self, unit: Unit, cause: str) -> None:
        """Note that the process of a unit died."""
        self.running.discard(unit.name)
        self._fail(unit, cause)

    def _fail(self, unit: Unit, cause: str) -> None:
        """Record a unit that could not run."""
        write_json(self.folder.record(unit), head(self.plan, unit, self.command) | {"failure": cause})
        self.failed[unit.name] = cause
        self._tell(unit.name, f"FAILED: {cause}")

    def _tell(self, name: str, text: str) -> None:
        """Report a unit that has ended."""
        self._ended += 1
        width = len(str(len(self.units)))
        line = f"{time.strftime('%H:%M:%S')} [{self._ended:{width}}/{len(self.units)}] {name}: {text}"
        left = time_left(self.costs, self.left, self.works, self.jobs)
        self.tell(f"{line}; {left}" if left else line)

    def _tidy(self) -> None:
        """Delete the checkpoints of trainings that no cell needs any more."""
        if self.keep_checkpoints:
            return
        needed: set[str] = set()
        for name, unit in self.units.items():
            if name not in self.done:
                needed.update(unit.needs)
        for name in self.done - needed:
            if isinstance(self.units[name], Training) and self.folder.run(name).is_dir():
                shutil.rmtree(self.folder.run(name), ignore_errors=True)


def _told(unit: Unit, record: dict[str, Any]) -> str:
    """Return the result of a unit in a few words."""
    if isinstance(unit, Training):
        return f"{record['updates']} updates, {record['tokens']} tokens, {record['seconds']:.0f} s"
    values = [value for row in record["scores"] for value in row if value is not None]
    mean = sum(values) / len(values) if values else float("nan")
    vote = ", a vote of one sample" if record.get("vote", {}).get("samples") == 1 else ""
    return f"success {mean:.3f}, {record['failed_episodes']} failed episodes, {record['seconds']:.0f} s{vote}"


def run_bench(bench: Bench, jobs: int) -> None:
    """Run all units that are not done; `jobs` processes share the cores."""
    (bench.folder.path / "logs").mkdir(exist_ok=True)
    with locked(bench.folder.path):
        if jobs > 1:
            _run_in_workers(bench, jobs)
            return
        while (unit := bench.ready()) is not None:
            bench.start(unit)
            log = bench.folder.path / "logs" / f"{unit.name}.log"
            with log.open("a") as stream, contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
                run_unit(bench.plan, unit, bench.folder, bench.command, bench.progress)
            bench.end(unit)


# ------------------------------------------------------------------ workers


@dataclass
class _Worker:
    """A worker process.

    Attributes:
        process: The process itself.
        asks: Connection on which units go there and names come back.
        alive: Connection that is never written to; the worker ends when it closes.
        unit: The unit that runs there; None: it waits.
    """

    process: Any
    asks: Connection[Any, Any]
    alive: Connection[Any, Any]
    unit: Unit | None = None


def _run_in_workers(bench: Bench, jobs: int) -> None:
    """Give units to worker processes as they become ready and workers idle, until none is left."""
    workers = [_start_worker(bench, number, jobs) for number in range(jobs)]
    try:
        while not bench.finished:
            for worker in workers:
                if worker.unit is None and (unit := bench.ready()) is not None:
                    bench.start(unit)
                    worker.unit = unit
                    worker.asks.send(unit)
            if not bench.running:  # and none is ready: what is left needs units that failed
                return
            _collect(bench, workers, jobs)
    finally:
        for worker in workers:
            worker.alive.close()  # which the worker takes as the end
            worker.process.join()


def threads_of(jobs: int) -> int:
    """Return the threads of each of `jobs` processes that share the cores."""
    return max(1, (os.cpu_count() or 1) // jobs)


def _collect(bench: Bench, workers: list[_Worker], jobs: int) -> None:
    """Wait until a worker has ended a unit, or has died; start another one in place of a dead one."""
    ready = wait([*(worker.asks for worker in workers), *(worker.process.sentinel for worker in workers)])
    for number, worker in enumerate(workers):
        if worker.asks not in ready and worker.process.sentinel not in ready:
            continue
        try:
            worker.asks.recv()
            ended = True
        except (EOFError, OSError):
            ended = False
        if ended and worker.unit is not None:
            bench.end(worker.unit)
            worker.unit = None
        elif not ended:  # it died: killed, out of memory, or by an error of ours
            worker.process.join()
            if worker.unit is not None:
                bench.lose(worker.unit, f"its process ended with exit code {worker.process.exitcode}")
            workers[number] = _start_worker(bench, number, jobs)


def _start_worker(bench: Bench, number: int, jobs: int) -> _Worker:
    # Not a fork: that would copy the locks of torch's threads, perhaps held.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()  # units there, names back
    alive, watched = context.Pipe()
    log = bench.folder.path / "logs" / f"worker-{number}.log"
    arguments = (there, watched, bench.plan, bench.folder, bench.command, bench.progress, jobs, log)
    process = context.Process(target=_work, args=arguments, name=f"bench-{number}")
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(threads_of(jobs))  # read by torch when the worker imports it
    try:
        process.start()
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
    # The worker's ends: while this process held them, the connections would not close with the worker.
    there.close()
    watched.close()
    return _Worker(process, here, alive)


def _work(
    asks: Connection[Any, Any],
    watched: Connection[Any, Any],
    plan: BenchPlan,
    folder: Folder,
    command: str,
    progress: Progress,
    jobs: int,
    log: Path,
) -> None:
    """Run units until the parent closes the connection or dies."""
    import torch

    torch.set_num_threads(threads_of(jobs))
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(GPU_SHARE / jobs)
    threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    with contextlib.ExitStack() as held:
        stream = held.enter_context(log.open("a", buffering=1))
        held.enter_context(contextlib.redirect_stdout(stream))
        held.enter_context(contextlib.redirect_stderr(stream))
        lock = held.enter_context(os.fdopen(open_lock(folder.path / WORKERS_LOCK), "w"))
        flock(lock, fcntl.LOCK_SH)
        held.enter_context(contextlib.suppress(KeyboardInterrupt))  # Ctrl-C is for all processes: the parent tells
        while True:
            try:
                unit = asks.recv()
            except EOFError:
                return
            stream.write(f"--- {unit.name}\n")
            try:
                run_unit(plan, unit, folder, command, progress)
            except Exception:  # `run_unit` records what a unit raises: this is an error of the bench itself
                traceback.print_exc()
                raise
            asks.send(unit.name)


def _end_with_parent(watched: Connection[Any, Any]) -> None:
    """End this process when the benchmark's process is gone, however it ended."""
    with contextlib.suppress(EOFError, OSError):
        watched.recv()
    os._exit(1)  # at once: the main thread may be deep in a training


def failures(bench: Bench) -> Iterable[str]:
    """Yield a line for every unit that failed."""
    for name, cause in bench.failed.items():
        yield f"{name}: {cause}"
