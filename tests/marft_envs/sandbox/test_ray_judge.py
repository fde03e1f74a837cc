"""The judge on the two nodes of a real Ray cluster, one of which is lost in the last test."""

from __future__ import annotations

import os
import signal

import pytest

import marft_envs
from baselines.experiment.gold_answers import gold_answer
from marft_envs.sandbox import Limits, Submission, Test, ray_judge
from marft_envs.sandbox.judge_data import SandboxError
from marft_envs.sandbox.ray_judge import RESOURCE, RayJudge

pytestmark = pytest.mark.ray
TESTS = [Test(b"21", b"42"), Test(b"4", b"8")]
DOUBLE, ADD = "print(int(input()) * 2)", "print(int(input()) + 2)"


@pytest.fixture(scope="module")
def other(connected):
    """A second node, with another slot; the last test removes it."""
    return connected.add_node(num_cpus=1, resources={RESOURCE: 1})


@pytest.fixture(scope="module")
def judge(other):
    with RayJudge("landlock") as made:
        yield made


def test_a_cluster_without_judges_is_refused(connected, monkeypatch):
    monkeypatch.setattr(ray_judge, "RESOURCE", "nobody_offers_this")
    with pytest.raises(SandboxError, match=r"no node .* offers 'nobody_offers_this': start a node with `ray start"):
        RayJudge("landlock")


def test_verdicts_are_those_of_the_programs(judge):
    judged = judge.run_many([Submission(program, "python", TESTS) for program in (DOUBLE, ADD, "(")])
    assert [one.verdict for one in judged] == ["OK", "WA", "CE"]
    assert judge.report.count("1 slots: landlock: asked for, held against") == 2


@pytest.mark.parametrize(("right", "success"), [(True, 1), (False, 0)])
def test_an_environment_takes_it_by_name(judge, right, success):
    env = marft_envs.make("marft/codeforces_solo-v1", judge="ray:landlock")
    env.reset(options={"index": 0})
    env.step(gold_answer(env.unwrapped) if right else "```python\nprint(0)\n```")
    assert env.terminations == {"coder_0": True}
    assert env.infos["coder_0"]["success"] == success


def test_an_error_of_the_judge_arrives_as_it_is(judge):
    with pytest.raises(ValueError, match=r"Limits\.memory_mb: found 8000, wanted at most 2048"):
        judge.run(DOUBLE, tests=TESTS, limits=Limits(memory_mb=8000))


def test_a_judge_that_dies_judges_again(judge):
    import ray

    slow = Submission("import time\ntime.sleep(1)\n" + DOUBLE, "python", TESTS)
    futures = [judge.submit(slow) for _ in range(2)]
    os.kill(ray.get(next(iter(judge._actors.values())).pid.remote()), signal.SIGKILL)
    assert [future.result().verdict for future in futures] == ["OK", "OK"]


def test_a_lost_node_gives_its_programs_to_the_others(judge, connected, other):
    slow = Submission("import time\ntime.sleep(1)\n" + DOUBLE, "python", TESTS)
    futures = [judge.submit(slow) for _ in range(4)]
    connected.remove_node(other, allow_graceful=False)
    assert [future.result().verdict for future in futures] == ["OK"] * 4
