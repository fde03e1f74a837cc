"""Run tests again and again on a busy machine, with other random examples each time: none may fail now and then.

    python tests/repeat.py --runs 10 -- -n 2 -m "not slow"

What follows `--` goes to pytest. Processes that count keep the cores busy for as long as a run takes. Each run adds a
line to the JSON Lines file `--out`, and the log of a run that failed is kept beside it. A second call goes on where the
first was stopped: runs of the same commit count. Not part of the wheel.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"  # ends with its parent


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep cores busy."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def commit() -> str:
    """Return the commit that is checked out; a `+` tells of changes to it."""
    command = ["git", "describe", "--always", "--dirty=+"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def run_once(arguments: Sequence[str], log: Path, limit_s: float) -> dict[str, object]:
    """Run pytest once; return what came of it. It is ended after `limit_s`, with all that it started."""
    seed = random.SystemRandom().getrandbits(32)
    command = [sys.executable, "-m", "pytest", "--hypothesis-profile=random", f"--hypothesis-seed={seed}", *arguments]
    started = time.monotonic()
    with log.open("w") as output:
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        pytest = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            code = pytest.wait(limit_s)
        except BaseException as error:
            os.killpg(pytest.pid, signal.SIGKILL)
            code = pytest.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
    text = log.read_text(errors="replace")
    counts = {
        name: int(number) for number, name in re.findall(r"(\d+) (passed|failed|error)", text.rpartition("\n=")[2])
    }
    return {
        "seed": seed,
        "exit_code": code,
        "passed": counts.get("passed", 0),
        "failed": counts.get("failed", 0) + counts.get("error", 0),
        "seconds": round(time.monotonic() - started, 1),
        "load": round(os.getloadavg()[2], 1),  # processes that ran or wanted to, on average over 15 minutes
        "tests": sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE))),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if no run failed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="runs of this commit in all (10)")
    parser.add_argument(
        "--load", type=int, default=os.cpu_count(), help="processes that keep cores busy (one per core)"
    )
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which a run has failed (3600)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "test-repeat.jsonl", help="JSON Lines, added to")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    asked = parser.parse_args(arguments)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    found = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    found = [run for run in found if run["commit"] == commit()]
    for number in range(len(found), asked.runs):
        log = asked.out.with_name(f"{asked.out.stem}-{commit()}-{number}.log")
        with busy(asked.load):
            found.append({"commit": commit(), "run": number, **run_once(asked.pytest, log, asked.limit)})
        with asked.out.open("a") as lines:
            lines.write(json.dumps(found[-1]) + "\n")
        print(" ".join(f"{name} {value}" for name, value in found[-1].items() if value != []), flush=True)
        if not found[-1]["exit_code"]:
            log.unlink()
    return int(any(run["exit_code"] for run in found))


if __name__ == "__main__":
    sys.exit(main())
