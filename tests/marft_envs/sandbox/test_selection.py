"""The strongest backend that holds is taken, the others are refused with words, and so is a machine without any."""

import pytest

from marft_envs.sandbox import Judge, SandboxError, Test
from marft_envs.sandbox import judge as judge_module
from marft_envs.sandbox.judge_data import Judgement, TestResult, Verdict
from marft_envs.sandbox.selftest import ATTACKS, Row, failures, run_selftest

ANSWER = [Test(b"1", b"1")]


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


def test_auto_refuses_a_backend_that_does_not_hold(monkeypatch):
    """The same programs, without a sandbox around them: the self-test must see it."""
    makers = judge_module._makers(1, "marft-nothing", 4096)
    fallen = {"docker": makers["docker"], "bubblewrap": makers["unsafe"], "landlock": makers["unsafe"]}
    monkeypatch.setattr(judge_module, "_makers", lambda *_: fallen)
    with pytest.warns(RuntimeWarning), pytest.raises(SandboxError, match="no sandbox isolates here") as caught:
        Judge(workers=1)
    _, docker, bubblewrap, landlock = str(caught.value).splitlines()
    assert "docker: not here" in docker
    for line in (bubblewrap, landlock):
        for attack in ("read a file of the host", "read the suite itself", "write a file"):
            assert f"{attack} (it reached its goal)" in line


@pytest.mark.filterwarnings("ignore:backend=.unsafe.:RuntimeWarning")
def test_a_backend_that_is_named_is_attacked_too(monkeypatch):
    makers = judge_module._makers(1, "marft-nothing", 4096)
    monkeypatch.setattr(judge_module, "_makers", lambda *_: {**makers, "bubblewrap": makers["unsafe"]})
    with pytest.raises(
        SandboxError, match=r"bubblewrap: .* does not isolate here: .*read the suite itself \(it reached"
    ):
        Judge(backend="bubblewrap", workers=1, image="marft-nothing")
    with Judge(backend="bubblewrap", workers=1, image="marft-nothing", self_test=False) as judge:
        assert judge.backend == "unsafe"


def test_a_backend_that_is_named_is_attacked_once_in_a_process(monkeypatch):
    monkeypatch.setattr(judge_module, "_held", set())
    attacked = []

    def run(pool):
        attacked.append(pool)
        return run_selftest(pool)

    monkeypatch.setattr(judge_module, "run_selftest", run)
    for _ in range(2):
        with Judge(backend="landlock", workers=1) as judge:
            assert judge.report == f"landlock: asked for, held against {len(ATTACKS) + 1} attacks"
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
