"""The strongest backend that holds is taken, the others are refused with words, and so is a machine without any."""

import pytest

from marft_envs.sandbox import Judge, SandboxError, Test, selftest
from marft_envs.sandbox import judge as judge_module
from marft_envs.sandbox.judge_data import Judgement, TestResult, Verdict
from marft_envs.sandbox.selftest import ATTACKS, NUM_ROWS, Row, failures, run_selftest

ANSWER = [Test(b"1", b"1")]
REACHING = [attack for attack in ATTACKS if attack.name.startswith(("read ", "write a file"))]  # unless walls are there


def test_the_self_test_holds(judge):
    rows = run_selftest(judge)
    assert failures(rows) == []
    assert len(rows) == len(ATTACKS) + 1


def test_auto_takes_the_strongest_that_is_here(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setenv("PATH", "/nowhere")  # no bubblewrap
    with Judge(workers=1) as judge:
        assert judge.backend == "landlock"
        assert judge.run("print(input())", tests=ANSWER).verdict == "OK"
    docker, bubblewrap, landlock = judge.report.splitlines()
    assert docker.startswith("docker: not here: the Docker engine at unix:///nowhere does not answer")
    assert bubblewrap == "bubblewrap: not here: bubblewrap is not installed: apt install bubblewrap"
    assert landlock == f"landlock: taken, held against {len(ATTACKS) + 1} attacks"


@pytest.fixture
def not_held(monkeypatch):
    """No backend was attacked in this process, and those to come are attacked by a few programs."""
    monkeypatch.setattr(judge_module, "_held", set())
    monkeypatch.setattr(selftest, "ATTACKS", REACHING)


def test_auto_refuses_a_backend_that_does_not_hold(monkeypatch, not_held):
    """Programs of the self-test, without a sandbox around them: it must see that."""
    makers = judge_module._makers(1, "marft-nothing", 4096)
    fallen = {"docker": makers["docker"], "bubblewrap": makers["unsafe"], "landlock": makers["unsafe"]}
    monkeypatch.setattr(judge_module, "_makers", lambda *_: fallen)
    with pytest.warns(RuntimeWarning), pytest.raises(SandboxError, match="no sandbox isolates here") as caught:
        Judge(workers=1)
    _, docker, bubblewrap, landlock = str(caught.value).splitlines()
    assert "docker: not here" in docker
    for line in (bubblewrap, landlock):
        assert all(f"{attack.name} (it reached its goal)" in line for attack in REACHING)


@pytest.mark.filterwarnings("ignore:backend=.unsafe.:RuntimeWarning")
def test_a_backend_that_is_named_is_attacked_too(monkeypatch, not_held):
    makers = judge_module._makers(1, "marft-nothing", 4096)
    monkeypatch.setattr(judge_module, "_makers", lambda *_: {**makers, "bubblewrap": makers["unsafe"]})
    with pytest.raises(
        SandboxError, match=r"bubblewrap: .* does not isolate here: .*read the suite itself \(it reached"
    ):
        Judge(backend="bubblewrap", workers=1, image="marft-nothing")
    with Judge(backend="bubblewrap", workers=1, image="marft-nothing", self_test=False) as judge:
        assert judge.backend == "unsafe"


@pytest.mark.parametrize("backend", ["landlock", "auto"])
def test_a_backend_is_attacked_once_in_a_process(monkeypatch, not_held, backend):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setenv("PATH", "/nowhere")  # no bubblewrap
    attacked = []

    def run(pool):
        attacked.append(pool)
        return [Row("an attack", Verdict.WA, True)] * NUM_ROWS

    monkeypatch.setattr(judge_module, "run_selftest", run)
    for _ in range(2):
        with Judge(backend=backend, workers=1) as judge:
            assert judge.report.endswith(f", held against {NUM_ROWS} attacks")
    assert len(attacked) == 1


def test_unsafe_is_never_taken_by_itself():
    assert "unsafe" not in judge_module.ISOLATING


def test_failures_are_told_with_their_notes():
    rows = [Row("a", Verdict.WA, True), Row("b", Verdict.OK, False, "it reached its goal")]
    assert failures(rows) == ["b (it reached its goal)"]


def test_a_judge_that_misjudges_fails_the_self_test():
    class Wrong:
        """Says OK to everything."""

        def submit(self, submission):
            class Done:
                def result(self):
                    return Judgement(Verdict.OK, (TestResult(Verdict.OK, output=b"42"),))

            return Done()

    rows = run_selftest(Wrong())
    assert [row.held for row in rows] == [False] * len(ATTACKS) + [True]
