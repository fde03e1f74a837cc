"""Suite of sandbox attacks: hostile programs, and a harness that runs them against a judge.

Each program prints `REACHED <what>` when it attains its goal. While an attack runs, an honest program is judged
beside it. After each attack, honest programs must be judged correctly at once. Neither the next program nor the host
may hold anything that the attack left.
No attack runs before the backend has shown that programs cannot fork.

    with Judge(backend="auto") as judge:
        print([report.name for report in run_attacks(judge) if not report.held])
"""

from __future__ import annotations

import glob
import itertools
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from marft_envs.sandbox.attacks.bait import Bait
from marft_envs.sandbox.attacks.catalogue import CATALOGUE, PROBES, Attack, find_attacks
from marft_envs.sandbox.judge_data import Judgement, Limits, SandboxError, Test, Verdict

__all__ = ["CATALOGUE", "Attack", "AttackReport", "find_attacks", "run_attacks"]

_HONEST = Limits(cpu_s=2.0, wall_s=20.0, memory_mb=128, output_mb=1.0)
_JAILS_AT_ONCE = 2  # number of probes: one of them gets the jail of the attack
# All programs mark the processes, sockets and files that they leave with this name.
_LEFTOVER_NAME = "marft_left"
_SYSV_KEY = 0x4D415246  # key used by sysv_ipc.cpp
_PATIENCE_S = 0.3  # a killed process takes a moment to disappear
_numbers = itertools.count(1000)  # a new input each time, so that old answers are wrong


class AnyJudge(Protocol):
    """Interface of `Judge` that the harness uses, from two threads at once."""

    def run(self, program: str, language: str, tests: list[Test], limits: Limits) -> Judgement:
        """Judge one program against its tests."""


@dataclass(frozen=True)
class AttackReport:
    """Result of one attack.

    Attributes:
        name: File name of the program.
        klass: Class of the attack, such as "processes" or "memory".
        goal: Goal of the attack in words.
        language: Language name as the judge knows it.
        verdict: Verdict of the judge; with several tests, the first that is not allowed.
        allowed: Verdicts that hold the attack.
        reached: Goal that the program reports as attained; empty if none.
        leaked: Secrets found in its output or in that of the compiler.
        canary_ok: True if honest programs were judged correctly right after it.
        neighbour_ok: True if honest programs were judged correctly beside it.
        leftovers: Remains of it found by the next program or on the host.
    """

    name: str
    klass: str
    goal: str
    language: str
    verdict: Verdict
    allowed: tuple[Verdict, ...]
    reached: str = ""
    leaked: tuple[str, ...] = ()
    canary_ok: bool = True
    neighbour_ok: bool = True
    leftovers: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Reason for which the judge failed; empty if it held."""
        faults = []
        if self.verdict not in self.allowed:
            faults.append(f"verdict {self.verdict}, wanted {' or '.join(self.allowed)}")
        if self.reached:
            faults.append(f"it {self.reached}")
        faults += [f"leaked {secret}" for secret in self.leaked]
        if not self.canary_ok:
            faults.append("an honest program was judged wrongly after it")
        if not self.neighbour_ok:
            faults.append("an honest program was judged wrongly beside it")
        faults += [f"left {thing}" for thing in self.leftovers]
        return "; ".join(faults)

    @property
    def held(self) -> bool:
        """True if the judge withstood the attack."""
        return not self.reason


def run_attacks(
    judge: AnyJudge, names: list[str] | None = None, on_progress: Callable[[AttackReport], None] | None = None
) -> list[AttackReport]:
    """Run attacks against a judge, preferably with two or more slots, and report on each.

    Args:
        judge: The judge to attack.
        names: Names of the attacks; None runs all. Those that the judge's backend cannot hold are left out.
        on_progress: Callback for each report as it is made.

    Raises:
        SandboxError: The judge isolates nothing or fails honest programs; no attack was run.
        ValueError: Unknown name of an attack.
    """
    attacks = find_attacks(names)
    backend = _find_isolating_backend(judge)
    attacks = [attack for attack in attacks if backend not in attack.open_on]
    reports = []
    with Bait() as bait:
        usual = _find_in_jails(judge)
        for attack in attacks:
            reports.append(_report(judge, attack, bait, usual))
            if on_progress is not None:
                on_progress(reports[-1])
    return reports


def _find_isolating_backend(judge: AnyJudge) -> str:
    """Return the name of the judge's backend; raise `SandboxError` if it does not isolate."""
    honest = _judge_honest(judge, "honest.py")
    if honest.verdict is not Verdict.OK:
        raise SandboxError(f"no attack was run: an honest program got {honest}, wanted {Verdict.OK}")
    outcome = _judge_probe(judge, "fork_once.py") if honest.backend != "unsafe" else None
    if outcome is None or b"contained" not in outcome.tests[0].output:
        raise SandboxError(
            f"no attack was run: the backend {honest.backend!r} lets programs fork, wanted one that isolates; "
            f"use docker, bubblewrap or landlock"
        )
    return honest.backend


def _report(judge: AnyJudge, attack: Attack, bait: Bait, usual: Counter[str]) -> AttackReport:
    with _neighbour(judge, bait) as wrong:
        tests = [bait.make_test(next(_numbers), turn, attack.answers) for turn in range(attack.tests)]
        judgement = judge.run(attack.source(str(bait.files[0])), attack.language, tests, attack.limits)
    canaries = [_judge_honest(judge, name) for name in ("honest.py", "honest.cpp")]
    seen = b"\n".join(part for test in judgement.tests for part in (test.output, test.stderr, test.reason.encode()))
    reached = re.search(rb"^REACHED.*", seen, re.MULTILINE)
    return AttackReport(
        attack.name,
        attack.klass,
        attack.goal,
        attack.language,
        _worst(judgement, attack.allowed),
        attack.allowed,
        reached[0].decode(errors="replace")[:200] if reached else "",
        tuple(bait.find(seen + judgement.compile_output.encode())),
        canary_ok=all(canary.verdict is Verdict.OK for canary in canaries),
        neighbour_ok=not wrong,
        leftovers=(*(_find_in_jails(judge) - usual), *_find_on_host()),
    )


def _worst(judgement: Judgement, allowed: tuple[Verdict, ...]) -> Verdict:
    """Return the first verdict that is not allowed, or the overall verdict."""
    verdicts = [judgement.verdict, *(test.verdict for test in judgement.tests)]
    return next((verdict for verdict in verdicts if verdict not in allowed), judgement.verdict)


@contextmanager
def _neighbour(judge: AnyJudge, bait: Bait) -> Iterator[list[Judgement]]:
    """Judge an honest program repeatedly while the context runs; yield the list of wrong judgements."""
    wrong: list[Judgement] = []
    over, started = threading.Event(), threading.Event()
    source = (PROBES / "neighbour.py").read_text().replace("@SECRET@", bait.neighbour)

    def live() -> None:
        while not over.is_set():
            number = next(_numbers)
            started.set()
            test = Test(f"{number}\n{bait.neighbour}\n".encode(), str(number * number + 1).encode())
            judgement = judge.run(source, "python", [test], _HONEST)
            if judgement.verdict is not Verdict.OK:
                wrong.append(judgement)

    with ThreadPoolExecutor(1) as thread:
        life = thread.submit(live)
        started.wait()
        try:
            yield wrong
        finally:
            over.set()
            life.result()


def _judge_honest(judge: AnyJudge, name: str) -> Judgement:
    number = next(_numbers)
    language = "python" if name.endswith(".py") else "c++"
    test = Test(f"{number}\n".encode(), f"{number * number + 1}\n".encode())
    return judge.run((PROBES / name).read_text(), language, [test], _HONEST)


def _judge_probe(judge: AnyJudge, name: str) -> Judgement:
    return judge.run((PROBES / name).read_text(), "python", [Test(b"", b"-")], _HONEST)


def _find_in_jails(judge: AnyJudge) -> Counter[str]:
    """Return the counts of things that probes find in their jails; the maximum over two jails."""
    found: Counter[str] = Counter()
    with ThreadPoolExecutor(_JAILS_AT_ONCE) as threads:
        for judgement in threads.map(lambda _: _judge_probe(judge, "leftovers.py"), range(_JAILS_AT_ONCE)):
            lines = judgement.tests[0].output.decode(errors="replace").split("\n") if judgement.tests else []
            found |= Counter(filter(None, lines))
    return found


def _find_on_host() -> list[str]:
    """Return processes, sockets, IPC objects, keys and files that attacks left on the host; empty without /proc."""
    found = list(_scan_host())
    if found:
        time.sleep(_PATIENCE_S)
        found = list(_scan_host())
    return found


def _scan_host() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        command = _read_text(process / "cmdline")
        if _read_text(process / "comm").strip() == _LEFTOVER_NAME or command.startswith(_LEFTOVER_NAME):
            yield f"process {process.name} of the host"
    for table in ("net/unix", "keys"):
        if _LEFTOVER_NAME in _read_text(Path("/proc", table)):
            yield f"an entry of the host's {table}"
    for kind in ("shm", "sem", "msg"):
        if any(line.split()[:1] == [str(_SYSV_KEY)] for line in _read_text(Path("/proc/sysvipc", kind)).splitlines()):
            yield f"System V {kind} of the host"
    for folder in {tempfile.gettempdir(), "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", str(Path.home()), "."}:
        for path in glob.glob(f"{folder}/*{_LEFTOVER_NAME}*"):
            yield f"file {path} of the host"


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""
