"""Seconds from a submission to its judgement: C++ with precompiled headers, and tests shared by idle slots.

    python -m benchmarks.judge_latency [--backends docker,bubblewrap,landlock] [--rounds 5] [--json FILE]

Two comparisons, each in turns. Every program is new, so no build comes from the judge's cache.

- `headers`: a C++ program that includes `bits/stdc++.h`, with one test. A declaration before the include keeps the
  compiler from reading the precompiled header.
- `slots`: a Python program with many tests, judged alone in a judge of two slots and in one of one slot.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from benchmarks.judge import INPUT, OUTPUT, PYTHON, require_ok
from benchmarks.machine import write_record
from marft_envs.sandbox import Judge, Submission, Test
from marft_envs.sandbox.image import DEFAULT_IMAGE

_INCLUDE = "#include <bits/stdc++.h>\n"
_MAIN = "int main() {{ long long sum = 0, x; while (std::cin >> x) sum += x; std::cout << sum << '\\n'; }} // {}\n"
_numbers = count()


@dataclass(frozen=True)
class Row:
    """One judged submission.

    Attributes:
        what: The comparison, "headers" or "slots".
        backend: Name of the backend.
        way: The way measured: "with" or "without" the compiled header, "two" slots or "one".
        seconds: Wall time from the submission to its judgement.
    """

    what: str
    backend: str
    way: str
    seconds: float


def cpp(*, precompiled: bool) -> str:
    """Return a new C++ program that can, or cannot, use the compiled form of the header."""
    return ("" if precompiled else "int before;\n") + _INCLUDE + _MAIN.format(next(_numbers))


def python() -> str:
    """Return a new Python program."""
    return f"{PYTHON}# {next(_numbers)}\n"


def seconds(judge: Judge, submission: Submission) -> float:
    """Return the wall time of one submission.

    Raises:
        RuntimeError: It did not pass.
    """
    started = time.perf_counter()
    judgement = judge.submit(submission).result()
    spent = time.perf_counter() - started
    require_ok(judgement.verdict, judge.backend)
    return spent


def measure(backend: str, image: str, rounds: int, tests: int) -> list[Row]:
    """Measure both comparisons in one backend, after a warm-up of each way."""
    one_test, many_tests = [Test(INPUT, OUTPUT)], [Test(INPUT, OUTPUT)] * tests
    with ExitStack() as stack:
        one, two = (stack.enter_context(Judge(backend, workers, image, self_test=False)) for workers in (1, 2))
        rows = []
        for _ in range(rounds + 1):
            ways: Mapping[tuple[str, str], tuple[Judge, Submission]] = {
                ("headers", "with"): (one, Submission(cpp(precompiled=True), "c++17", one_test)),
                ("headers", "without"): (one, Submission(cpp(precompiled=False), "c++17", one_test)),
                ("slots", "two"): (two, Submission(python(), "python", many_tests)),
                ("slots", "one"): (one, Submission(python(), "python", many_tests)),
            }
            rows += [Row(what, backend, way, seconds(*given)) for (what, way), given in ways.items()]
    return rows[len(ways) :]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every backend, and print and write what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judge_latency", description=__doc__)
    parser.add_argument("--backends", default="docker,bubblewrap,landlock", help="separated by commas")
    parser.add_argument("--image", default=DEFAULT_IMAGE, help="of docker (default: %(default)s)")
    parser.add_argument("--tests", type=int, default=200, help="Python tests of a submission (default: 200)")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions of each way (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures")
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    for backend in given.backends.split(","):
        found = measure(backend, given.image, given.rounds, given.tests)
        rows += found
        for row in found:
            print(f"{row.backend}, {row.what}, {row.way}: {row.seconds:.2f} s", flush=True)
    if given.json is not None:
        write_record(given.json, "judge_latency", {"rows": [asdict(row) for row in rows]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
