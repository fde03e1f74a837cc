"""The attack harness against a fake judge: each way in which a judge may fail must show."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from marft_envs.sandbox.attacks import AttackReport, find_attacks, run_attacks
from marft_envs.sandbox.attacks.bait import VARIABLE
from marft_envs.sandbox.attacks.catalogue import CATALOGUE, PROBES, PROGRAMS
from marft_envs.sandbox.judge_data import Judgement, Limits, SandboxError, Test, TestResult, Verdict

ATTACK = "exit_before_tests.py"


def _judgement(verdict, output=b"", compile_output="", stderr=b""):
    return Judgement(verdict, (TestResult(verdict, output=output, stderr=stderr),), compile_output, "fake")


class FakeJudge:
    """Answers as a good judge would, but for what a test gives it to do instead.

    Args:
        attack: Answers the attack; gets its test.
        honest: Verdict of honest programs once an attack has run.
        neighbour: Verdict of the program beside.
        leaves: A line that the leftovers probe prints once an attack has run.
        fork: What the single fork prints.
        backend: Its name.
    """

    def __init__(self, attack=None, honest="OK", neighbour="OK", leaves="", fork=b"contained", backend="fake"):
        self.attack = attack or (lambda test: _judgement(Verdict.WA, b"contained"))
        self.honest, self.neighbour, self.leaves, self.fork, self.backend = honest, neighbour, leaves, fork, backend
        self.attacked = False

    def run(self, program: str, language: str, tests: list[Test], limits: Limits) -> Judgement:
        first = program.split("\n", maxsplit=1)[0]
        if "Fork a single time" in first:
            return _judgement(Verdict.WA, self.fork)
        if "what the next program finds" in first:
            return _judgement(Verdict.WA, f"process runner\n{self.leaves if self.attacked else ''}".encode())
        if "runs beside an attack" in first:
            return _judgement(Verdict(self.neighbour))
        if "An honest program" in first:
            verdict = Verdict(self.honest) if self.attacked else Verdict.OK
            return Judgement(verdict, (TestResult(verdict),), backend=self.backend)
        self.attacked = True
        return self.attack(tests[0])


def _report(judge: FakeJudge) -> AttackReport:
    (report,) = run_attacks(judge, [ATTACK])
    assert judge.attacked
    return report


def test_a_good_judge_holds():
    seen = []
    reports = run_attacks(FakeJudge(), [ATTACK, "sleep.py"], seen.append)
    assert reports == seen
    assert [(report.held, report.reason) for report in reports] == [(True, ""), (False, "verdict WA, wanted ILE")]


def test_an_attack_that_a_backend_cannot_hold_is_left_out_there_and_nowhere_else():
    for backend, reports in (("docker", 1), ("bubblewrap", 1), ("landlock", 0)):
        assert len(run_attacks(FakeJudge(backend=backend), ["names_looked_up.cpp"])) == reports


@pytest.mark.parametrize("verdict", ["OK", "INTERNAL", "SKIPPED", "CE"])
def test_a_wrong_verdict_shows(verdict):
    report = _report(FakeJudge(lambda test: _judgement(Verdict(verdict))))
    assert report.reason == f"verdict {verdict}, wanted WA"


@pytest.mark.parametrize("where", ["output", "stderr"])
def test_a_goal_that_is_reached_shows(where):
    report = _report(FakeJudge(lambda test: _judgement(Verdict.WA, **{where: b"contained\nREACHED a shell\n"})))
    assert report.reason == "it REACHED a shell"


def _canary(test: Test) -> bytes:
    return Path(test.input.decode().split("\n")[2]).read_bytes()


@pytest.mark.parametrize(
    "leak",
    [
        lambda test: _judgement(Verdict.WA, _canary(test)),
        lambda test: _judgement(Verdict.WA, compile_output=_canary(test).decode()),
        lambda test: _judgement(Verdict.WA, b"I found " + test.output),
        lambda test: _judgement(Verdict.WA, stderr=os.environ[VARIABLE].encode()),
    ],
    ids=["file", "compiler", "expected output", "environment"],
)
def test_a_leaked_secret_shows(leak):
    report = _report(FakeJudge(leak))
    assert report.reason.startswith("leaked MARFT_SECRET_")
    assert len(report.leaked) == 1


def test_a_disturbed_judge_shows():
    assert _report(FakeJudge(honest="RE")).reason == "an honest program was judged wrongly after it"
    assert _report(FakeJudge(neighbour="TLE")).reason == "an honest program was judged wrongly beside it"


@pytest.mark.parametrize("thing", ["process runner", "process marft_left", "writable /tmp"])
def test_what_the_next_program_finds_shows(thing):
    before = _report(FakeJudge())
    assert before.held
    report = _report(FakeJudge(leaves=f"{thing}\n{thing}"))
    assert thing in report.reason


def test_a_file_on_the_host_shows():
    path = Path(tempfile.gettempdir(), "marft_left_by_a_test")
    try:
        report = _report(FakeJudge(lambda test: (path.touch(), _judgement(Verdict.WA))[1]))
    finally:
        path.unlink()
    assert report.leftovers == (f"file {path} of the host",)


def test_a_process_on_the_host_shows():
    started = []

    def start(test):
        started.append(subprocess.Popen(["marft_left", "30"], executable="/bin/sleep"))
        return _judgement(Verdict.WA)

    try:
        report = _report(FakeJudge(start))
    finally:
        started[0].kill()
        started[0].wait()
    assert report.leftovers == (f"process {started[0].pid} of the host",)


@pytest.mark.parametrize(
    ("judge", "why"),
    [(FakeJudge(backend="unsafe"), "'unsafe'"), (FakeJudge(fork=b"REACHED a fork"), "lets programs fork")],
)
def test_no_attack_runs_without_isolation(judge, why):
    with pytest.raises(SandboxError, match=why):
        run_attacks(judge)
    assert not judge.attacked


def test_no_attack_runs_on_a_judge_that_fails_honest_programs():
    judge = FakeJudge()
    judge.attacked, judge.honest = True, "INTERNAL"
    with pytest.raises(SandboxError, match="honest program got"):
        run_attacks(judge)


def test_secrets_go_away_again():
    judge = FakeJudge(lambda test: _judgement(Verdict.WA, test.input))
    paths = []
    judge.attack = lambda test: (paths.extend(test.input.decode().split("\n")[2:-2]), _judgement(Verdict.WA))[1]
    _report(judge)
    assert paths
    assert not any(map(os.path.exists, paths))
    assert VARIABLE not in os.environ


def test_the_catalogue_is_whole():
    assert sorted(attack.name for attack in CATALOGUE) == sorted(
        path.name for path in PROGRAMS.rglob("*.*") if path.parent != PROBES
    )
    assert len(CATALOGUE) >= 80
    assert all(attack.goal[0].isupper() and attack.goal[-1] in ".:,;?" for attack in CATALOGUE)
    assert {attack.language for attack in CATALOGUE} == {"python", "c++"}
    assert not any(Verdict.INTERNAL in attack.allowed for attack in CATALOGUE)
    with pytest.raises(ValueError, match="no_such"):
        find_attacks(["no_such.py"])


def test_sources_are_filled_in():
    (bomb,) = find_attacks(["unary_bomb.py"])
    assert bomb.source("").endswith("-" * 200_000 + "1)\n")
    (include,) = find_attacks(["include_host_file.cpp"])
    assert '#include "/some/path"' in include.source("/some/path")
