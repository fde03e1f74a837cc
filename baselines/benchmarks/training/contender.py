"""A contender in its own process, as the benchmark sees it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baselines.benchmarks.training.environments import ROOT, interpreter


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        contender: Who.
        phase: "rollout", "score" (what the reference does after generation) or "update".
        workload: Name of the workload.
        threads: Of torch.
        repetition: From 0.
        samples: Actions of the workload.
        tokens: Action tokens of the workload.
        wall_s: Seconds by the clock.
        cpu_s: Seconds of all its threads.
        peak_mb: Peak of resident memory above the loaded model at rest, in 10^6 bytes; None is unknown.
        resting_mb: Resident memory with the model loaded.
        extra: What the contender reports of its own.
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
    """A process with one contender; use it in a with statement.

    Args:
        name: Of the contender.
        threads: Of torch.
        folder: For its log.

    Attributes:
        versions: Of the packages in its environment; empty until it has loaded something.
        refused: Why it does not run here; empty where it does.
    """

    def __init__(self, name: str, threads: int, folder: Path) -> None:
        self.name, self.threads = name, threads
        self.versions: dict[str, str] = {}
        self.refused = ""
        self._phases: list[str] = []
        self._loaded: Path | None = None
        self._resting: float | None = None
        self._log = (folder / f"{name}-{threads}.log").open("w", encoding="utf-8")
        command = [interpreter(name), "-m", "baselines.benchmarks.training.worker", "--contender", name]
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
        """Load a workload, unless it is loaded; return the phases the contender can do (none where it refuses)."""
        if path != self._loaded:
            answer = self._ask({"load": str(path)})
            self._loaded, self.refused = path, answer.get("refused", "")
            self._phases, self._resting = answer.get("phases", []), answer.get("resting_mb")
            self.versions |= answer.get("versions", {})
        return self._phases

    def run(self, phase: str, repetition: int = 0) -> Row | None:
        """Do a phase of the loaded workload once; None where the process ended, see `refused`.

        Raises:
            RuntimeError: Nothing is loaded.
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
        """Return the answer; a process that ended has refused."""
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
