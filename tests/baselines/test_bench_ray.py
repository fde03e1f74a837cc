"""`marft bench --ray`: the records are those of a run without Ray, also when a task's process is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from bench_plan import records, write_plan

from baselines.bench import ray_units
from baselines.cli.main import main
from marft_agents.rollouts.ray_workers import cluster
from marft_agents.rollouts.rollout_workers import RolloutSettings

pytestmark = pytest.mark.ray
ARMS = ("team", "muted")  # one training, two cells


def bench(plan, out, *flags):
    return main(["bench", str(plan), "--out", str(out), *flags])


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return write_plan(tmp_path_factory.mktemp("plan"), ARMS)


@pytest.fixture(scope="module")
def undisturbed(plan, tmp_path_factory):
    out = tmp_path_factory.mktemp("local") / "out"
    assert bench(plan, out) == 0
    return records(out)


@pytest.fixture(scope="module", autouse=True)
def connected():
    """One cluster for all tests; its processes find the modules of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")
        with cluster(RolloutSettings("local", rollout_workers=2)):
            yield


def test_two_tasks_at_a_time_give_the_same_records_with_one_killed(plan, undisturbed, tmp_path):
    killed = threading.Thread(target=_kill_a_task)
    killed.start()
    assert bench(plan, tmp_path / "out", "--ray", "local", "--jobs", "2") == 0
    killed.join()
    assert records(tmp_path / "out") == undisturbed
    assert not list((tmp_path / "out" / "runs").iterdir())  # trained teams go after their last cell


def _kill_a_task():
    """Kill the first process that runs a unit."""
    while True:
        for title in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if title.read_bytes().startswith(b"ray::_run_elsewhere"):
                    os.kill(int(title.parent.name), signal.SIGKILL)
                    return
        time.sleep(0.05)


def test_a_node_with_another_commit_is_refused(plan, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ray_units, "source_commit", lambda: "0123")
    assert bench(plan, tmp_path / "out", "--ray", "local") == 1
    assert "other versions than this machine: found commit" in capsys.readouterr().err
    assert not (tmp_path / "out" / "cells").exists()
