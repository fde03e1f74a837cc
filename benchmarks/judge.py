"""Tests per second of the judge, per backend, beside plain subprocess, `docker exec` and `docker run` per test.

    python -m benchmarks.judge [--backends docker,bubblewrap,landlock] [--tests 200] [--json FILE]
        [--languages python,c++17] [--at-once 1,2] [--rounds 1] [--own-cpu]

The workload is a batch of short tests (the sum of a few numbers) in Python and as a compiled C++ program. Wall time
runs from the first submission to the last judgement, with as many submissions as workers. It excludes compilation and
the start of the jails. CPU time is that of the whole machine (/proc/stat) over the same interval, so other load must
be low. With `--own-cpu` it is that of this process and its descendants: for `landlock` only, as containers are not
among them and nobody waits for the jails of bubblewrap. Each round measures plain subprocess and every backend in
turn. The table shows medians over rounds, also of the ratios to plain subprocess in the same round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.table import Table

from baselines.results.visible_console import console
from benchmarks.machine import write_record
from marft_envs.sandbox import Judge, Submission, Test, Verdict
from marft_envs.sandbox.image import DEFAULT_IMAGE

PYTHON = "print(sum(map(int, input().split())))\n"
CPP = """#include <cstdio>
int main() { long long sum = 0, x; while (std::scanf("%lld", &x) == 1) sum += x; std::printf("%lld\\n", sum); }
"""
SOURCES = {"python": PYTHON, "c++17": CPP}
INPUT, OUTPUT = b"1 2 3 4 5\n", b"15\n"


@dataclass(frozen=True)
class Row:
    """Result of one method: language, programs at once, number of tests, wall and CPU time in seconds."""

    how: str
    language: str
    workers: int
    tests: int
    wall_s: float
    cpu_s: float


def measure(how: str, language: str, workers: int, tests: int, work: Callable[[], None]) -> Row:
    """Measure the wall and CPU time of `work`, which runs `tests` tests."""
    cpu, wall = _clock.cpu_s(), time.perf_counter()
    work()
    return Row(how, language, workers, tests, time.perf_counter() - wall, _clock.cpu_s() - cpu)


@dataclass
class Clock:
    """CPU clock of all measurements: of the whole machine, or of our own processes (`--own-cpu`)."""

    own: bool = False

    def cpu_s(self) -> float:
        """Return the CPU time so far, in seconds."""
        return own_cpu_s() if self.own else machine_cpu_s()


_clock = Clock()


def machine_cpu_s() -> float:
    """Return the CPU time used by all processes since boot, in seconds."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    busy = [int(value) for place, value in enumerate(fields[:8]) if place not in (3, 4)]  # not idle, not iowait
    return sum(busy) / os.sysconf("SC_CLK_TCK")


def own_cpu_s() -> float:
    """Return the CPU time of this process and of all its descendants that run or were waited for, in seconds."""
    parents, used = dict[int, int](), dict[int, float]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
        used[int(path.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    own, total = os.getpid(), 0.0
    for process in used:
        above: int | None = process
        while above and above != own:
            above = parents.get(above)
        total += used[process] if above else 0.0
    return total


def judged(backend: str, image: str, language: str, workers: int, tests: int) -> Row:
    """Measure a batch of tests in the judge, one submission per worker."""
    batch = [Test(INPUT, OUTPUT)] * (tests // workers)
    with Judge(backend, workers, image, self_test=False) as judge:
        submissions = [Submission(SOURCES[language], language, batch) for _ in range(workers)]
        warm = [Submission(SOURCES[language], language, batch[:2]) for _ in range(workers)]
        for judgement in judge.run_many(warm):
            require_ok(judgement.verdict, f"{backend}, {language}")

        def work() -> None:
            for judgement in judge.run_many(submissions):
                require_ok(judgement.verdict, f"{backend}, {language}")

        return measure(f"judge: {backend}", language, workers, workers * len(batch), work)


def spawned(how: str, argv: list[str], language: str, workers: int, tests: int) -> Row:
    """Measure one subprocess per test."""

    def one(_: int) -> None:
        found = subprocess.run(argv, input=INPUT, capture_output=True, check=True).stdout
        require_ok(Verdict.OK if found == OUTPUT else Verdict.WA, how)

    def work() -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(one, range(tests)))

    return measure(how, language, workers, tests, work)


def require_ok(verdict: Verdict, where: str) -> None:
    """Raise RuntimeError unless an honest program passed."""
    if verdict is not Verdict.OK:
        raise RuntimeError(f"{where}: an honest program got {verdict}; a benchmark of failures means nothing")


def plain(language: str, workers: int, tests: int, folder: Path) -> Row:
    """Measure plain subprocesses, without isolation."""
    return spawned("subprocess", _program(language, folder), language, workers, tests)


def _program(language: str, folder: Path) -> list[str]:
    source = folder / ("main.py" if language == "python" else "main.cpp")
    source.write_text(SOURCES[language])
    if language == "python":
        return [getattr(sys, "_base_executable", sys.executable), "-I", "-S", str(source)]
    binary = folder / "main"
    subprocess.run(["g++", "-O2", "-static", "-o", str(binary), str(source)], check=True)
    return [str(binary)]


def in_docker(image: str, tests: int) -> list[Row]:
    """Measure `docker exec` and `docker run` per test."""
    options = ["--network", "none", "--read-only", "--entrypoint", "python3"]
    container = subprocess.run(
        ["docker", "run", "-d", *options, image, "-c", "import time; time.sleep(3600)"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    try:
        each = ["docker", "exec", "-i", container, "python3", "-I", "-S", "-c", PYTHON]
        rows = [spawned("docker exec per test", each, "python", 1, tests)]
    finally:
        subprocess.run(["docker", "rm", "-f", container], check=True, capture_output=True)
    each = ["docker", "run", "--rm", "-i", *options, image, "-I", "-S", "-c", PYTHON]
    return [*rows, spawned("docker run per test", each, "python", 1, max(1, tests // 3))]


def table(rows: list[Row]) -> Table:
    """Return the table: medians over rounds, and ratios to plain subprocess."""
    found = Table("how", "language", "at once", "tests", "tests/s", "of subprocess", "CPU ms/test", "of subprocess")
    for how, language, workers in dict.fromkeys((row.how, row.language, row.workers) for row in rows):
        same = [row for row in rows if (row.how, row.language, row.workers) == (how, language, workers)]
        beside = [row for row in rows if (row.how, row.language, row.workers) == ("subprocess", language, workers)]
        per_s = [row.tests / row.wall_s for row in same]
        ratios = [rate * row.wall_s / row.tests for rate, row in zip(per_s, beside, strict=False)]
        cpu_ms = [1000 * row.cpu_s / row.tests for row in same]
        shares = [ms * row.tests / row.cpu_s / 1000 for ms, row in zip(cpu_ms, beside, strict=False)]
        numbers = (f"{median(per_s):,.0f}", _spread(ratios), f"{median(cpu_ms):.2f}", _spread(shares))
        found.add_row(how, language, str(workers), str(sum(row.tests for row in same)), *numbers)
    return found


def _spread(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    """Run all measurements and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--backends", default="docker,bubblewrap,landlock", help="separated by commas")
    parser.add_argument("--image", default=DEFAULT_IMAGE, help="of docker (default: %(default)s)")
    parser.add_argument("--tests", type=int, default=200, help="Python tests a row; C++ four times as many")
    parser.add_argument("--languages", default=",".join(SOURCES), help="separated by commas")
    parser.add_argument("--at-once", default="1,2", help="programs at once, separated by commas")
    parser.add_argument("--rounds", type=int, default=1, help="take turns so often: for a machine that is busy")
    parser.add_argument("--own-cpu", action="store_true", help="CPU of our own processes, for landlock")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers here too")
    arguments = parser.parse_args()
    _clock.own = arguments.own_cpu
    rows: list[Row] = []
    backends = arguments.backends.split(",")
    with tempfile.TemporaryDirectory() as name:
        for language in arguments.languages.split(","):
            tests = arguments.tests * (1 if language == "python" else 4)
            for workers in map(int, arguments.at_once.split(",")):
                for _ in range(arguments.rounds):
                    rows.append(plain(language, workers, tests, Path(name)))
                    rows += [judged(backend, arguments.image, language, workers, tests) for backend in backends]
        if "docker" in backends and "python" in arguments.languages.split(","):
            rows += in_docker(arguments.image, max(3, arguments.tests // 7))
    console().print(table(rows))
    if arguments.json:
        write_record(arguments.json, "judge", {"rows": [asdict(row) for row in rows]})


if __name__ == "__main__":
    main()
