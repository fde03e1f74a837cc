"""Train a tiny team while processes are killed, the disk is full and files are damaged; nothing may be lost.

    make test-chaos (ARGS="--updates 50 --seed 1 --every 6")

Two runs, on the rollout workers of a Ray cluster of their own: without staleness the adapters must equal those of an
undisturbed run, byte for byte; with staleness no episode may be lost or trained on twice. Faults come at random times:

| fault | what happens | then |
|---|---|---|
| worker | a rollout worker is killed | the run goes on; after three in a row it ends, and is resumed |
| judge | a process that runs programs for the judge is killed | the run goes on |
| delay | a rollout worker is stopped for two seconds | the run goes on |
| learner | the learner is killed | the run is resumed |
| disk | the file system of the run is full | the run ends with the reason, and is resumed with room |
| damage | the learner is killed, and a bit of its newest checkpoint flips | refused with the file; resumed before it |

A killed worker's episodes are played a second time, so results arrive late, in another order and twice. At the end no
process and no temporary file may be left. Needs root, to mount a small file system.
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
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARFT = [sys.executable, "-c", "import sys; from baselines.cli.main import main; sys.exit(main())"]
GROUPS, GROUP_SIZE = 3, 2
TRAIN = [
    *["--env", "chaos_game:chaos/judged_duo-v0", "--model", "tiny-words", "--max-new-tokens", "1"],
    *["--groups", str(GROUPS), "--group-size", str(GROUP_SIZE), "--policy-lr", "1e-3"],
]
WORKERS = 2
FAULTS = ("worker", "judge", "delay", "learner", "disk", "damage")
MARK = "MARFT_CHAOS"  # environment variable of all processes of a run
DISK_MB = 64
PATIENCE_S = 600.0  # without an update


class LostError(AssertionError):
    """Something that the faults must not have done."""


class Run:
    """One training that is disturbed until it is done.

    Args:
        folder: Run folder, on a small file system.
        flags: Flags of `marft train`.
        address: Address of the Ray cluster.
        rng: Chooses the faults.
        every: Mean seconds between faults.
    """

    def __init__(self, folder: Path, flags: Sequence[str], address: str, rng: random.Random, every: float) -> None:
        self.folder, self.address, self.rng, self.every = folder, address, rng, every
        self.flags = ["--out", str(folder), *flags, "--rollout-workers", str(WORKERS), "--ray", address]
        self.injected: Counter[str] = Counter()
        self.survived: Counter[str] = Counter()

    def play(self, updates: int) -> None:
        """Train until all updates are done."""
        learner = self._start(self.flags)
        done, since = -1, time.monotonic()
        while (code := self._wait(learner)) != 0:
            if code is not None and re.search("workers died while|died while it started", self._log()[-5000:]):
                learner = self._resume()  # three deaths in a row end a run by design
                continue
            if code is not None:
                raise LostError(f"the learner ended by itself with exit code {code}: {self._log()[-2000:]}")
            fault = self.rng.choice(FAULTS)
            learner = getattr(self, f"_{fault}")(learner)
            if self.updates != done:
                done, since = self.updates, time.monotonic()
                print(f"{done:4}/{updates} updates; {sum(self.injected.values())} faults", flush=True)
            elif time.monotonic() - since > PATIENCE_S:
                raise LostError(f"no update for {PATIENCE_S:.0f} s: {self._log()[-2000:]}")
        if self.updates != updates:
            raise LostError(f"{self.updates} updates are recorded, wanted {updates}")

    @property
    def updates(self) -> int:
        """Number of recorded updates."""
        file = self.folder / "metrics.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    def _start(self, flags: Sequence[str]) -> subprocess.Popen[bytes]:
        log = self._log_file.open("ab")
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from baselines.cli.main import main; sys.exit(main())",
                "train",
                *flags,
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def _resume(self) -> subprocess.Popen[bytes]:
        fresh = not list(self.folder.glob("checkpoints/update-*/state.json"))
        if fresh:  # killed before its first checkpoint
            shutil.rmtree(self.folder, ignore_errors=True)
        return self._start(self.flags if fresh else ["--resume", str(self.folder), "--ray", self.address])

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
        """Send a signal to a random process whose command line holds a title; return its id."""
        found = [pid for pid, command in processes() if title in command]
        if not found:
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
        self._signal_one("judge", "jail.runner", signal.SIGKILL)
        return learner

    def _delay(self, learner: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        pid = self._signal_one("delay", "ray::_Worker", signal.SIGSTOP)
        if pid is not None:
            time.sleep(2)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return learner

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
            code = learner.wait(120)
        except subprocess.TimeoutExpired:
            raise LostError("the learner trains on although nothing can be written") from None
        finally:
            filler.unlink()
        if code != 0 and "No space left on device" not in self._log(said):
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
        self.injected["damage"] += 1
        said = self._log_file.stat().st_size
        refused = self._start(["--resume", str(self.folder), "--ray", self.address])
        if refused.wait(PATIENCE_S) == 0 or str(file) not in self._log(said):
            raise LostError(f"{file} is damaged, and the run went on")
        self.survived["damage"] += 1
        shutil.rmtree(newest)
        return self._resume()


# ------------------------------------------------------------------ the machine


def processes() -> Iterator[tuple[int, str]]:
    """Yield the id and the command line of each process that a run has started."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


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
    records = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if len(records) != updates * GROUPS * GROUP_SIZE:
        raise LostError(f"{len(records)} episodes are recorded, wanted {updates * GROUPS * GROUP_SIZE}")
    found = Counter(record["group"] for record in records)
    twice = sorted(group for group, count in found.items() if count != GROUP_SIZE)
    dropped = sum(step["team/episodes_dropped"] for step in metrics) / GROUP_SIZE
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the disturbed trainings and print what they survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--every", type=float, default=12.0, help="mean seconds between faults")
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
    before = {name for name in os.listdir(tempfile.gettempdir()) if "marft" in name}
    rng, updates = random.Random(chosen.seed), ["--updates", str(chosen.updates)]
    with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
        undisturbed = Path(scratch, "undisturbed")
        alone = [*MARFT, "train", "--out", str(undisturbed), *TRAIN, *updates, "--rollout-chunk", "1"]
        subprocess.run(alone, check=True, stdout=subprocess.DEVNULL)
        with small_disk(Path(scratch, "disk")) as disk:
            with ray_cluster() as address:
                exact = Run(disk / "exact", [*TRAIN, *updates, "--max-staleness", "0"], address, rng, chosen.every)
                exact.play(chosen.updates)
                ahead = Run(disk / "ahead", [*TRAIN, *updates, "--max-staleness", "1"], address, rng, chosen.every)
                ahead.play(chosen.updates)
            if adapters(exact.folder) != adapters(undisturbed):
                raise LostError("the adapters differ from those of the undisturbed run")
            check_episodes(ahead.folder, chosen.updates)
            check_nothing_left(disk, before)
    injected, survived = exact.injected + ahead.injected, exact.survived + ahead.survived
    print("| fault | injected | survived | lost |\n|---|---|---|---|")
    for fault in FAULTS:
        print(f"| {fault} | {injected[fault]} | {survived[fault]} | {injected[fault] - survived[fault]} |")
    print(f"adapters equal after {chosen.updates} updates; no episode lost or trained on twice; nothing left behind")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
