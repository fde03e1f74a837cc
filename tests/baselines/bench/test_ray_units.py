"""`marft bench --ray`: the records are those of a run without Ray, also when a task's process is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from baselines.bench import ray_units
from baselines.cli.main import main
from tests.helpers.bench_plan import records, write_plan

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


def test_two_tasks_at_a_time_give_the_same_records_with_one_killed(connected, plan, undisturbed, tmp_path):
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


def test_a_node_with_another_commit_is_refused(connected, plan, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ray_units, "identity", lambda: {"commit": "0123"})
    assert bench(plan, tmp_path / "out", "--ray", "local") == 1
    assert "other versions than this machine: found commit" in capsys.readouterr().err
    assert not (tmp_path / "out" / "cells").exists()
