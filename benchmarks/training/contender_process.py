"""Client of a contender process: starts it, loads workloads and runs phases."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.training.virtual_environment import ROOT, interpreter


@dataclass(frozen=True)
class Row:
    """One measurement of a phase.

    Attributes:
        contender: Name of the contender.
        phase: "rollout", "score" (the reference's work after generation) or "update".
        workload: Name of the workload.
        threads: Number of torch threads.
        repetition: Index of the repetition, from 0.
        samples: Number of actions in the workload.
        tokens: Number of action tokens in the workload.
        wall_s: Wall time in seconds.
        cpu_s: CPU time of all threads in seconds.
        peak_mb: Peak resident memory above that at rest, in 10^6 bytes; None if unknown.
        resting_mb: Resident memory with the model loaded, in 10^6 bytes; None if unknown.
        extra: Further values that the contender reports.
    """

    contender: str
    phase: str
    workload: str
    threads: int
    repetition: int
    samples: int
    tokens: int
    wall_s: float
    cpu_s: float
    peak_mb: float | None
    resting_mb: float | None
    extra: Mapping[str, float] = field(default_factory=dict)


class Contender:
    """Process of one contender, as a context manager.

    Args:
        name: Name of the contender.
        threads: Number of torch threads.
        folder: Folder of the log file.

    Attributes:
        versions: Package versions in the contender's environment; empty before the first `load`.
        refused: Reason that the contender does not run; empty if it does.
    """

    def __init__(self, name: str, threads: int, folder: Path) -> None:
        self.name, self.threads = name, threads
        self.versions: dict[str, str] = {}
        self.refused = ""
        self._phases: list[str] = []
        self._loaded: Path | None = None
        self._resting: float | None = None
        self._log = (folder / f"{name}-{threads}.log").open("w", encoding="utf-8")
        command = [interpreter(name), "-m", "benchmarks.training.worker", "--contender", name]
        settings = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [*command, "--threads", str(threads)],
            cwd=folder,
            env=settings,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *raised: object) -> None:
        if raised[0] is not None:
            self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()
        self._log.close()

    def load(self, path: Path) -> list[str]:
        """Load a workload unless it is loaded; return the available phases, none if the contender refuses."""
        if path != self._loaded:
            answer = self._ask({"load": str(path)})
            self._loaded, self.refused = path, answer.get("refused", "")
            self._phases, self._resting = answer.get("phases", []), answer.get("resting_mb")
            self.versions |= answer.get("versions", {})
        return self._phases

    def run(self, phase: str, repetition: int = 0) -> Row | None:
        """Run a phase of the loaded workload once; return None if the process ended, see `refused`.

        Raises:
            RuntimeError: No workload is loaded.
        """
        if self._loaded is None:
            raise RuntimeError(f"{self.name}: nothing is loaded, wanted a workload before phase {phase!r}")
        answer = self._ask({"run": phase})
        if "refused" in answer:
            self.refused = answer["refused"]
            return None
        return Row(
            contender=self.name,
            phase=phase,
            workload=self._loaded.stem,
            threads=self.threads,
            repetition=repetition,
            resting_mb=self._resting,
            **answer,
        )

    def _ask(self, question: Mapping[str, str]) -> dict[str, Any]:
        """Send a request and return the answer; a process that ended gives an answer with "refused"."""
        questions, answers = self._process.stdin, self._process.stdout
        line = ""
        if questions is not None and answers is not None:
            with contextlib.suppress(BrokenPipeError):
                questions.write(json.dumps(question) + "\n")
                questions.flush()
                line = answers.readline()
        if not line:
            return {"refused": f"its process ended with exit code {self._process.wait()}, see {self._log.name}"}
        answer: dict[str, Any] = json.loads(line)
        return answer
