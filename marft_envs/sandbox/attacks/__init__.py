"""Hostile programs, and a harness that runs them against a judge and says what held.

Each program prints `REACHED <what>` when it attains its goal. After each, honest programs must be judged rightly at
once, the next program must find nothing, the host must hold nothing of it; while it runs, a neighbour is judged.
Nothing runs before the backend has shown that a program can't even fork.

    with Judge(backend="auto") as judge:
        print([report.name for report in run_attacks(judge) if not report.held])
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from marft_envs.sandbox.attacks.bait import Bait
from marft_envs.sandbox.attacks.catalogue import CATALOGUE, PROGRAMS, Attack, find_attacks
from marft_envs.sandbox.attacks.leftovers import find_on_host
from marft_envs.sandbox.verdict import Judgement, Limits, SandboxError, Test, Verdict

__all__ = ["CATALOGUE", "Attack", "AttackReport", "find_attacks", "run_attacks"]

_PROBES = PROGRAMS / "probes"
_HONEST = Limits(cpu_s=2.0, wall_s=20.0, memory_mb=128, output_mb=1.0)
_JAILS_AT_ONCE = 2  # probes, so that one gets into the jail that the attack was in
_numbers = itertools.count(1000)  # a fresh input each time, so that no answer is an old one


class AnyJudge(Protocol):
    """The part of `Judge` that the harness uses, from two threads at once."""

    def run(self, program: str, language: str, tests: list[Test], limits: Limits) -> Judgement:
        """Judge a program."""


@dataclass(frozen=True)
class AttackReport:
    """What became of one attack.

    Attributes:
        name: The program's file name.
        klass: What it goes for.
        goal: What it tries, in words.
        language: The judge's name of its language.
        verdict: What it got; of several tests, the first that is not allowed.
        allowed: What it may get.
        reached: What it says it attained; empty if nothing.
        leaked: Secrets found in its output or in the compiler's.
        canary_ok: Honest programs were judged rightly right after it.
        neighbour_ok: Honest programs were judged rightly beside it.
        leftovers: What the next program, or the host, found of it.
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
        """Why it did not hold; empty if it held."""
        faults = []
        if self.verdict not in self.allowed:
            faults.append(f"verdict {self.verdict}, wanted {' or '.join(self.allowed)}")
        faults += [f"it {self.reached}"] * bool(self.reached)
        faults += [f"leaked {secret}" for secret in self.leaked]
        faults += ["an honest program was judged wrongly after it"] * (not self.canary_ok)
        faults += ["an honest program was judged wrongly beside it"] * (not self.neighbour_ok)
        faults += [f"left {thing}" for thing in self.leftovers]
        return "; ".join(faults)

    @property
    def held(self) -> bool:
        """True if the judge withstood it."""
        return not self.reason


def run_attacks(
    judge: AnyJudge, names: list[str] | None = None, on_progress: Callable[[AttackReport], None] | None = None
) -> list[AttackReport]:
    """Run attacks against a judge, best one of at least two slots, and report on each.

    Args:
        judge: What is attacked.
        names: Which attacks; None is all.
        on_progress: Called with each report as it comes.

    Raises:
        SandboxError: The judge isolates nothing, or fails honest programs: no attack was run.
        ValueError: An unknown name.
    """
    attacks = find_attacks(names)
    _refuse_unless_isolating(judge)
    reports = []
    with Bait() as bait:
        usual = _find_in_jails(judge)
        for attack in attacks:
            reports.append(_report(judge, attack, bait, usual))
            if on_progress is not None:
                on_progress(reports[-1])
    return reports


def _refuse_unless_isolating(judge: AnyJudge) -> None:
    honest = _judge_honest(judge, "honest.py")
    if honest.verdict is not Verdict.OK:
        raise SandboxError(f"no attack was run: an honest program got {honest}, wanted {Verdict.OK}")
    outcome = _judge_probe(judge, "fork_once.py") if honest.backend != "unsafe" else None
    if outcome is None or b"contained" not in outcome.tests[0].output:
        raise SandboxError(
            f"no attack was run: the backend {honest.backend!r} lets programs fork, wanted one that isolates; "
            f"use docker, bubblewrap or landlock"
        )


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
        leftovers=(*(_find_in_jails(judge) - usual), *find_on_host()),
    )


def _worst(judgement: Judgement, allowed: tuple[Verdict, ...]) -> Verdict:
    """Return the verdict, or that of the first test which got one that is not allowed."""
    verdicts = [judgement.verdict, *(test.verdict for test in judgement.tests)]
    return next((verdict for verdict in verdicts if verdict not in allowed), judgement.verdict)


@contextmanager
def _neighbour(judge: AnyJudge, bait: Bait) -> Iterator[list[Judgement]]:
    """Judge an honest program again and again beside what runs in the context; yield a list of wrong judgements."""
    wrong: list[Judgement] = []
    over, started = threading.Event(), threading.Event()
    source = (_PROBES / "neighbour.py").read_text().replace("@SECRET@", bait.neighbour)

    def live() -> None:
        while not over.is_set():
            number = next(_numbers)
            started.set()
            test = Test(f"{number}\n{bait.neighbour}\n".encode(), str(number * number + 1).encode())
            judgement = judge.run(source, "python", [test], _HONEST)
            wrong.extend([judgement] if judgement.verdict is not Verdict.OK else [])

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
    return judge.run((_PROBES / name).read_text(), language, [test], _HONEST)


def _judge_probe(judge: AnyJudge, name: str) -> Judgement:
    return judge.run((_PROBES / name).read_text(), "python", [Test(b"", b"-")], _HONEST)


def _find_in_jails(judge: AnyJudge) -> Counter[str]:
    """Return what programs find in their jails; of two jails the larger count of each thing."""
    found: Counter[str] = Counter()
    with ThreadPoolExecutor(_JAILS_AT_ONCE) as threads:
        for judgement in threads.map(lambda _: _judge_probe(judge, "leftovers.py"), range(_JAILS_AT_ONCE)):
            lines = judgement.tests[0].output.decode(errors="replace").split("\n") if judgement.tests else []
            found |= Counter(filter(None, lines))
    return found
