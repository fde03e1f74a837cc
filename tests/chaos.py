"""Train a tiny team while processes are killed, the disk is full and files are damaged; nothing may be lost.

    make test-chaos (ARGS="--updates 50 --seed 1 --every 6 --only served")

Three runs:

- `exact`: on the rollout workers of a Ray cluster, without staleness. The adapters must equal those of an undisturbed
  run, byte for byte.
- `ahead`: the same with staleness. No episode may be lost or trained on twice.
- `served`: with a sampler in a process of its own, the fake vLLM server of the tests. The adapters must equal those of
  an undisturbed run with such a server, byte for byte.

Faults come at random times:

| fault | what happens | then |
|---|---|---|
| worker | a rollout worker is killed | the run goes on; after three in a row it ends, and is resumed |
| delay | a rollout worker is stopped for two seconds | the run goes on |
| sampler | the server is killed, and started again at once or later | the run ends and names it, and is resumed |
| judge | a process that runs programs for the judge is killed | the run goes on |
| learner | the learner is killed | the run is resumed |
| disk | the file system of the run is full | the run ends with the reason, and is resumed with room |
| damage | the learner is killed, and a bit of its newest checkpoint flips | refused with the file; resumed before it |
| record | the learner is killed, and a line of a result file is overwritten | refused with file and line; restored |
| twice | the learner is killed after it has recorded an update, before its checkpoint | the update is recorded once |

A killed worker's episodes are played a second time, so results arrive late, in another order and twice. A server that
is started again has no adapters; a run that happens to load them next goes on. At the end no process and no temporary
file may be left. Needs root, to mount a small file system.

The figures are written to FILE (`--out`) after every fault. The same command goes on with the first run that has not
passed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baselines.experiment.source_commit import source_commit

ROOT = Path(__file__).resolve().parent.parent
MARFT = [sys.executable, "-c", "import sys; from baselines.cli.main import main; sys.exit(main())"]
GROUPS, GROUP_SIZE = 3, 2
TRAIN = [
    *["--env", "chaos_game:chaos/judged_duo-v0", "--model", "tiny-words", "--max-new-tokens", "1"],
    *["--groups", str(GROUPS), "--group-size", str(GROUP_SIZE), "--policy-lr", "1e-3"],
]
WORKERS = 2
ANYWHERE = ("judge", "learner", "disk", "damage", "record", "twice")
FAULTS = dict.fromkeys(("exact", "ahead"), ("worker", "delay", *ANYWHERE)) | {"served": ("sampler", *ANYWHERE)}
ENDS = "workers died while|died while it started"  # of runs that end by design: three deaths in a row
JUDGE = "jail.runner"  # in the command line of a process that runs programs
MARK = "MARFT_CHAOS"  # environment variable of all processes of a run
DISK_MB = 64
PATIENCE_S = 600.0  # without an update
WATCHED_S = 10.0  # for a process to appear


class LostError(AssertionError):
    """Something that the faults must not have done."""


@dataclass
class Figures:
    """Figures of a run so far.

    Attributes:
        updates: Number of recorded updates.
        seconds: Duration, without that of the undisturbed run.
        ended: How often the run ended by design, and was resumed.
        injected: Number of faults by name.
        survived: Number of faults by name after which the run went on as it should.
        passed: True once the run is over and all is equal, complete and tidy.
    """

    updates: int = 0
    seconds: float = 0.0
    ended: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    passed: bool = False


class Summary:
    """Figures of all runs, in a JSON file that is replaced after every fault.

    Args:
        path: The file; with the same settings, its runs that have passed are kept.
        settings: Everything that the figures depend on.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path, self.settings = path, dict(settings)
        found = json.loads(path.read_text()) if path.exists() else {}
        same = found.get("settings") == self.settings
        self.runs: dict[str, Any] = {k: run for k, run in found.get("runs", {}).items() if same and run["passed"]}

    def write(self, name: str, figures: Figures) -> None:
        """Write the figures of a run."""
        self.runs[name] = dict(vars(figures))
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"settings": self.settings, "runs": self.runs}, indent=1) + "\n")
        part.replace(self.path)

    def table(self) -> str:
        """Return the faults of all runs as a table in Markdown."""
        lines = ["| fault | injected | survived | lost |", "|---|---|---|---|"]
        for fault in dict.fromkeys(fault for faults in FAULTS.values() for fault in faults):
            injected, survived = (
                sum(run[kind].get(fault, 0) for run in self.runs.values()) for kind in ("injected", "survived")
            )
            lines.append(f"| {fault} | {injected} | {survived} | {injected - survived} |")
        return "\n".join(lines)


class Sampler:
    """The fake vLLM server as a process.

    Args:
        folder: Where it keeps its model and log.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        with (self.folder / "sampler.log").open("ab") as log:
            command = [sys.executable, str(ROOT / "tests" / "chaos_server.py"), str(self.folder / "words")]
            self._process = subprocess.Popen([*command, str(self.port)], stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self._process.poll() is not None or time.monotonic() > until:
                raise LostError(f"the server does not start: {(self.folder / 'sampler.log').read_text()[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._process.wait()


class Run:
    """One training that is disturbed until it is done.

    Args:
        name: Name of the run, a key of `FAULTS`.
        folder: Run folder, on a small file system.
        flags: Flags of `marft train`, without --ray.
        address: Address of the Ray cluster; empty: without Ray.
        rng: Chooses the faults.
        every: Mean seconds between faults.
        summary: Where the figures go.
        sampler: The server that samples, if one does.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        flags: Sequence[str],
        *,
        address: str = "",
        rng: random.Random,
        every: float,
        summary: Summary,
        sampler: Sampler | None = None,
    ) -> None:
        self.name, self.folder, self.rng, self.every, self.summary = name, folder, rng, every, summary
        self.sampler = sampler
        self.ray = ["--ray", address] if address else []
        self.flags = ["--out", str(folder), *flags, *self.ray]
        self.figures = Figures()
        self.injected, self.survived = self.figures.injected, self.figures.survived
        self.ends = ENDS if sampler is None else f"{ENDS}|{re.escape(sampler.url)}"

    def play(self, updates: int) -> None:
        """Train until all updates are done."""
        started = since = time.monotonic()
        learner, done = self._start(self.flags), -1
        said = 0
        while (code := self._wait(learner)) != 0:
            if code is not None:
                if not re.search(self.ends, self._log(said)):
                    raise LostError(f"the learner ended by itself with exit code {code}: {self._log()[-2000:]}")
                self.figures.ended += 1
                said = self._log_file.stat().st_size
                learner = self._resume()
                continue
            fault = self.rng.choice(FAULTS[self.name])
            learner = getattr(self, f"_{fault}")(learner)
            self.figures.updates, self.figures.seconds = self.updates, round(time.monotonic() - started, 1)
            self.summary.write(self.name, self.figures)
            if self.updates != done:
                done, since = self.updates, time.monotonic()
                print(f"{self.name}: {done:4}/{updates} updates; {sum(self.injected.values())} faults", flush=True)
            elif time.monotonic() - since > PATIENCE_S:
                raise LostError(f"no update for {PATIENCE_S:.0f} s: {self._log()[-2000:]}")
        self.figures.updates, self.figures.seconds = self.updates, round(time.monotonic() - started, 1)
        if self.updates != updates:
            raise LostError(f"{self.updates} updates are recorded, wanted {updates}")

    @property
    def updates(self) -> int:
        """Number of recorded updates."""
        file = self.folder / "metrics.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def _start(self, flags: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._log_file.open("ab") as log:
            return subprocess.Popen([*MARFT, "train", *flags], stdout=log, stderr=log, start_new_session=True)

    def _resume(self) -> subprocess.Popen[bytes]:
        fresh = not list(self.folder.glob("checkpoints/update-*/state.json"))
        if fresh:  # killed before its first checkpoint
            shutil.rmtree(self.folder, ignore_errors=True)
        return self._start(self.flags if fresh else ["--resume", str(self.folder), *self.ray])

    def _wait(self, learner: subprocess.Popen[bytes]) -> int | None:
        """Wait for a random time, or until the learner ends; return its exit code, None if it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return learner.wait(self.rng.expovariate(1 / self.every))
        return None

    @property
    def _log_file(self) -> Path:
        return self.folder.parent / f"{self.folder.name}.log"

    def _log(self, start: int = 0) -> str:
        return self._log_file.read_bytes()[start:].decode(errors="replace")

    # ------------------------------------------------------------------ faults

    def _signal_one(self, fault: str, title: str, number: int) -> int | None:
        """Send a signal to a random process whose command line holds a title; return its id.

        Those that run programs live for a moment only: one is waited for.
        """
        end = time.monotonic() + WATCHED_S
        while not (found := [pid for pid, command in processes() if title in command]):
            if time.monotonic() > end:
                return None
        pid = self.rng.choice(found)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            self.injected[fault] += 1
            self.survived[fault] += 1  # what the run makes of it is checked at the end
        return pid

    def _worker(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self._signal_one("worker", "ray::_Worker", signal.SIGKILL)
        return learner

    def _judge(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self._signal_one("judge", JUDGE, signal.SIGKILL)
        return learner

    def _delay(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        pid = self._signal_one("delay", "ray::_Worker", signal.SIGSTOP)
        if pid is not None:
            time.sleep(2)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return learner

    def _sampler(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Kill the server; start it again at once, or after the run has ended."""
        assert self.sampler is not None
        said = self._log_file.stat().st_size
        self.sampler.kill()
        self.injected["sampler"] += 1
        if self.rng.random() < 0.5:
            self.sampler.start()
            self.survived["sampler"] += 1  # it has no adapters: the run ends, or goes on if it loads them next
            return learner
        try:
            code = learner.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise LostError("the learner waits for a server that is gone") from None
        finally:
            self.sampler.start()
        if code != 0 and self.sampler.url not in self._log(said):
            raise LostError(f"the server is killed, and the learner says: {self._log(said)[-2000:]}")
        self.survived["sampler"] += 1
        return self._resume()

    def _kill(self, learner: subprocess.Popen[bytes]) -> None:
        learner.kill()
        learner.wait()

    def _learner(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self._kill(learner)
        self.injected["learner"] += 1
        self.survived["learner"] += 1
        return self._resume()

    def _disk(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Fill the file system until the learner has noticed."""
        if not list(self.folder.glob("checkpoints/update-*")):
            return learner
        filler, said = self.folder.parent / "filler", self._log_file.stat().st_size
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(2**16))
        self.injected["disk"] += 1
        try:
            code = learner.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise LostError("the learner trains on although nothing can be written") from None
        finally:
            filler.unlink()
        reasons = ["No space left on device"]
        if self.sampler is not None:
            reasons.append(self.sampler.url)  # killed and started again just before: the learner may end of that
        if code != 0 and not any(reason in self._log(said) for reason in reasons):
            raise LostError(f"the disk is full, and the learner says: {self._log(said)[-2000:]}")
        self.survived["disk"] += 1
        return self._resume()

    def _damage(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Flip a bit of a file of the newest checkpoint."""
        checkpoints = sorted(self.folder.glob("checkpoints/update-*"))
        if len(checkpoints) < 2:
            return learner
        self._kill(learner)
        newest = sorted(self.folder.glob("checkpoints/update-*"))[-1]
        file = self.rng.choice(sorted(f for f in newest.rglob("*") if f.suffix in (".pt", ".safetensors")))
        content = bytearray(file.read_bytes())
        content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
        file.write_bytes(content)
        self._refused("damage", str(file))
        shutil.rmtree(newest)
        return self._resume()

    def _record(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Overwrite a part of a line of a result file with zeros, as a file system may after a crash."""
        if self.updates < 2:
            return learner
        self._kill(learner)
        file = self.folder / self.rng.choice(("metrics.jsonl", "episodes.jsonl"))
        content = file.read_bytes()
        lines = content.split(b"\n")
        number = self.rng.randrange(len(lines) - 2)  # the last line may be one that the kill truncated
        start = self.rng.randrange(len(lines[number]) - 8)
        lines[number] = lines[number][:start] + bytes(8) + lines[number][start + 8 :]
        file.write_bytes(b"\n".join(lines))
        self._refused("record", f"{file}, line {number + 1}:")
        file.write_bytes(content)
        return self._resume()

    def _refused(self, fault: str, name: str) -> None:
        """Resume a run with a damaged file, which must be refused with its name."""
        self.injected[fault] += 1
        said = self._log_file.stat().st_size
        refused = self._start(["--resume", str(self.folder), *self.ray])
        if refused.wait(PATIENCE_S) == 0 or name not in self._log(said):
            raise LostError(f"{name} is damaged, and the run went on: {self._log(said)[-2000:]}")
        self.survived[fault] += 1

    def _twice(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Kill the learner between the records of an update and its checkpoint."""
        if self.updates < 2:
            return learner
        self._kill(learner)
        newest = max(int(path.name.removeprefix("update-")) for path in self.folder.glob("checkpoints/update-*"))
        for file in (self.folder / "metrics.jsonl", self.folder / "episodes.jsonl"):
            *lines, _truncated = file.read_bytes().split(b"\n")
            records = [json.loads(line) for line in lines]
            again = [{**record, "update": newest} for record in records if record["update"] == newest - 1]
            before = [line for line, record in zip(lines, records, strict=True) if record["update"] < newest]
            file.write_bytes(b"".join(line + b"\n" for line in [*before, *(json.dumps(r).encode() for r in again)]))
        self.injected["twice"] += 1
        self.survived["twice"] += 1  # counted at the end
        return self._resume()


# ------------------------------------------------------------------ the machine


def processes() -> Iterator[tuple[int, str]]:
    """Yield the id and the command line of each process of a run.

    These are processes with the mark of the runs, and all that they have started: a judge's process has another
    environment. Such a process whose parent is gone counts too.
    """
    mark = f"{MARK}={os.environ[MARK]}".encode()
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    ours: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            number = int(folder.name)
            marked = mark in (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parents[number] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[number] = command
            if marked or (JUDGE in command and parents[number] == 1):
                ours.add(number)
    ours.discard(os.getpid())
    while more := {number for number, parent in parents.items() if parent in ours} - ours:
        ours |= more
    yield from ((number, commands[number]) for number in sorted(ours))


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of a few megabytes."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "chaos", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def ray_cluster() -> Iterator[str]:
    """Start a cluster; yield its address."""
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": WORKERS, "include_dashboard": False})
    try:
        yield started.address
    finally:
        started.shutdown()


def adapters(folder: Path) -> dict[str, bytes]:
    """Return the weights of a run's last checkpoint."""
    newest = sorted(folder.glob("checkpoints/update-*"))[-1]
    return {str(f.relative_to(newest)): f.read_bytes() for f in sorted(newest.rglob("*.safetensors"))}


def check_episodes(folder: Path, updates: int) -> None:
    """Raise if prompt groups were trained on twice, or if some are missing that were not dropped."""
    records = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().split("\n")[:-1]]
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().split("\n")[:-1]]
    if len(records) != updates * GROUPS * GROUP_SIZE:
        raise LostError(f"{len(records)} episodes are recorded, wanted {updates * GROUPS * GROUP_SIZE}")
    found = Counter(record["group"] for record in records)
    twice = sorted(group for group, count in found.items() if count != GROUP_SIZE)
    dropped = sum(step.get("team/episodes_dropped", 0) for step in metrics) / GROUP_SIZE
    missing = set(range(max(found) + 1)) - set(found)
    if twice or len(missing) > dropped + 2 * GROUPS * WORKERS:  # those at the end were still being played
        raise LostError(f"trained on more or less than once: {twice}; missing {sorted(missing)}, dropped {dropped:g}")


def check_nothing_left(folder: Path, before: set[str]) -> None:
    """Raise if processes or temporary files are left.

    The folders of a judge whose process was killed are removed by the next judge of the machine.
    """
    from marft_envs.sandbox import Judge

    Judge("landlock", workers=1, self_test=False).close()
    until = time.monotonic() + 30
    while (left := list(processes())) and time.monotonic() < until:
        time.sleep(0.5)
    parts = [str(path) for path in folder.rglob("*") if path.name.startswith((".part", ".adapter", ".metrics"))]
    files = {name for name in os.listdir(tempfile.gettempdir()) if "marft" in name} - before
    if left or parts or files:
        raise LostError(f"left: processes {left}, unfinished files {parts}, temporary files {sorted(files)}")


def disturb(name: str, chosen: argparse.Namespace, summary: Summary) -> None:
    """Run one disturbed training, and check what it has come to."""
    before = {file for file in os.listdir(tempfile.gettempdir()) if "marft" in file}
    train = [*TRAIN, "--updates", str(chosen.updates)]
    rng = random.Random(f"{chosen.seed} {name}")
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch, contextlib.ExitStack() as stack:
        undisturbed, address, sampler = Path(scratch, "undisturbed"), "", None
        if name == "served":
            sampler = Sampler(Path(scratch))
            stack.callback(sampler.kill)
            alone = train = [*train, "--sampler", sampler.url]
        else:
            alone = [*train, "--rollout-chunk", "1"]
            train += ["--rollout-workers", str(WORKERS), "--max-staleness", str(int(name == "ahead"))]
        if name != "ahead":
            print(f"{name}: the undisturbed run", flush=True)
            subprocess.run([*MARFT, "train", "--out", str(undisturbed), *alone], check=True, stdout=subprocess.DEVNULL)
        with small_disk(Path(scratch, "disk")) as disk:
            with contextlib.ExitStack() as machines:
                if sampler is None:
                    address = machines.enter_context(ray_cluster())
                run = Run(
                    name,
                    disk / name,
                    train,
                    address=address,
                    rng=rng,
                    every=chosen.every,
                    summary=summary,
                    sampler=sampler,
                )
                run.play(chosen.updates)
            if name != "ahead" and adapters(run.folder) != adapters(undisturbed):
                raise LostError("the adapters differ from those of the undisturbed run")
            check_episodes(run.folder, chosen.updates)
            stack.close()  # the server
            check_nothing_left(disk, before)
    run.figures.passed = True
    summary.write(name, run.figures)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the disturbed trainings and print what they survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--every", type=float, default=12.0, help="mean seconds between faults")
    parser.add_argument("--only", choices=FAULTS, action="append", help="one of the runs; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("chaos.json"), help="file of the figures")
    chosen = parser.parse_args(arguments)
    if os.geteuid() != 0:
        parser.error("needs root, to mount a small file system")
    os.environ |= {
        MARK: f"{os.getpid()}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    settings = {"updates": chosen.updates, "seed": chosen.seed, "every": chosen.every, "commit": source_commit()}
    summary = Summary(chosen.out, settings)
    for name in chosen.only or FAULTS:
        if name not in summary.runs:
            disturb(name, chosen, summary)
    print(summary.table())
    print(
        f"{', '.join(summary.runs)}: adapters equal after {chosen.updates} updates without staleness; no episode lost "
        f"or trained on twice; nothing left behind; figures in {chosen.out}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
