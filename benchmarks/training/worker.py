r"""Worker process of one contender: reads requests as JSON lines, answers each with a line of JSON.

    echo '{"load": "workload.json"}' '{"run": "update"}' | tr ' ' '\n' |
        python -m benchmarks.training.worker --contender ours [--threads N]

The answer to "load" holds the phases, the package versions and the resident memory at rest. If the contender cannot
run, the answer holds the versions and the reason, "refused".
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.training.contenders import CONTENDERS, Phase
from benchmarks.training.meter import held_mb, measure, settle
from benchmarks.training.workload import Workload

PACKAGES = ("torch", "transformers", "peft", "trl", "comlrl")


class Service:
    """Loads workloads and runs their phases.

    Args:
        contender: Name of a contender in `CONTENDERS`.
    """

    def __init__(self, contender: str) -> None:
        self._contender = contender
        self._phases: Mapping[str, Phase] = {}
        self._sizes: dict[str, int] = {}
        self._resting: float | None = None

    def answer(self, question: Mapping[str, str]) -> dict[str, Any]:
        """Answer a request: load a workload, or run a phase of it."""
        if "load" in question:
            return self._load(Path(question["load"]))
        return self._sizes | asdict(measure(self._phases[question["run"]], self._resting))

    def _load(self, path: Path) -> dict[str, Any]:
        self._phases = {}
        workload = Workload.load(path)
        self._sizes = {"samples": len(workload.turns), "tokens": workload.tokens}
        try:
            self._phases = CONTENDERS[self._contender].load(workload)
        except Exception as error:  # a contender that fails to load is reported as a result, with its message
            traceback.print_exc()
            return {"refused": f"{type(error).__name__}: {error}", "versions": versions()}
        settle()
        self._resting = held_mb()
        return {"phases": list(self._phases), "resting_mb": self._resting, "versions": versions()}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages in `PACKAGES`."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer requests until standard input ends."""
    parser = argparse.ArgumentParser(description="One contender of the training benchmark.")
    parser.add_argument("--contender", choices=list(CONTENDERS), required=True)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    # Libraries print to standard output: redirect it to standard error, and answer on a copy of it.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        import torch

        torch.set_num_threads(given.threads)

        service = Service(given.contender)
        for line in sys.stdin:
            print(json.dumps(service.answer(json.loads(line))), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
