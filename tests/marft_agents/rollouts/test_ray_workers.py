"""Rollout workers of a real Ray cluster on this machine: one cluster for all tests, run by `make test-ray`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from baselines.cli.main import main
from marft_agents.learning.learner import Learner
from marft_agents.rollouts.ray_workers import RayWorkers, RolloutWorkerError, cluster
from marft_agents.rollouts.rollout_settings import RolloutSettings
from marft_agents.rollouts.rollout_source import GroupPlayer, LocalRollouts
from marft_agents.rollouts.rollout_workers import WorkerRollouts
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.trainer import Trainer, group_settings
from tests.helpers.fakes import Market, word_team
from tests.helpers.run_outcome import outcome
from tests.marft_agents.rollouts.ray_games import (
    SCHEDULE,
    SETTINGS,
    new_team,
    open_dying,
    open_nothing,
    open_player,
    process_identity,
)

pytestmark = pytest.mark.ray
TWO = RolloutSettings("local", rollout_workers=2)


@pytest.fixture(scope="module")
def dangers(tmp_path_factory):
    return tmp_path_factory.mktemp("dangers")


@pytest.fixture(scope="module")
def workers(connected, dangers):
    """Two workers for all tests, with the sentences that tell of deaths."""
    told = []
    made = RayWorkers(partial(open_player, str(dangers)), new_team(), TWO, on_death=told.append)
    made.told = told
    yield made
    made.close()
    assert list(dangers.glob("closed-*"))  # samplers unload their adapters; the last test killed a worker


def train(folder, workers=None, updates=2, staleness=0):
    """Train by workers, or here, prompt group by prompt group as they do."""
    team = new_team()
    learner = Learner(team, SETTINGS, seed=1, total_updates=2)
    done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
    records = RunFolder(folder, {}, resume_at=done)
    grouping = group_settings(SCHEDULE, SETTINGS)
    if workers is None:
        source = LocalRollouts(GroupPlayer(lambda: Market(cut=True), team, team, grouping), chunk=1)
    else:
        workers.team = team
        settings = RolloutSettings("local", rollout_workers=2, max_staleness=staleness)
        source = WorkerRollouts(workers, grouping, settings, max_updates=updates)
    schedule = replace(SCHEDULE, updates=updates)
    Trainer(lambda: Market(cut=True), team, learner, schedule, folder=records, rollouts=source).run()
    records.close()
    return outcome(folder)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return train(tmp_path_factory.mktemp("local") / "run")


def test_two_workers_equal_the_local_run(tmp_path, workers, local):
    assert train(tmp_path / "run", workers) == local


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, workers, local):
    train(tmp_path / "run", workers, updates=1)
    assert train(tmp_path / "run", workers) == local


def test_a_worker_killed_in_mid_rollout_is_started_again_and_changes_nothing(tmp_path, workers, local, dangers):
    before = workers.pids
    (dangers / "kill").touch()
    assert train(tmp_path / "run", workers) == local
    [sentence] = workers.told
    assert "died; it is started again and plays prompt groups" in sentence
    assert len(set(before) & set(workers.pids)) == 1


def test_staleness_overlaps_play_and_learning(tmp_path, workers):
    train(tmp_path / "run", workers, staleness=1)
    lines = read_metrics(tmp_path / "run")
    assert [line["team/staleness_max"] for line in lines] == [0, 1]
    assert {line["team/episodes_dropped"] for line in lines} == {0}


def test_an_error_in_a_worker_names_it_and_its_cause(workers):
    workers.team = word_team(["stranger_0"])
    workers.publish(9)
    with pytest.raises(RolloutWorkerError, match=r"rollout worker \d: ValueError: adapters of policies stranger_0"):
        workers.play([0])
    workers.team = new_team()
    workers.publish(10)
    assert len(workers.play([0]).groups) == 1  # it goes on


def test_prompt_groups_that_kill_every_worker_end_the_run(workers, dangers):
    told = len(workers.told)
    workers.publish(11)
    (dangers / "always").touch()
    with pytest.raises(RolloutWorkerError, match="3 workers died while they played prompt groups 5; the last"):
        workers.play([5])
    (dangers / "always").unlink()
    assert len(workers.told) == told + 2


def test_other_versions_and_missing_models_are_refused(connected):
    one = RolloutSettings("local")
    with pytest.raises(RolloutWorkerError, match=r"worker 0 has other versions.*marft '\d+', wanted '\d+'"):
        RayWorkers(open_nothing, new_team(), one, identity=process_identity)
    with pytest.raises(RolloutWorkerError, match="worker 0: FileNotFoundError: worker 0 has no model"):
        RayWorkers(open_nothing, new_team(), one)


def test_a_worker_that_dies_while_it_starts_is_started_again(connected, tmp_path):
    told = []
    made = RayWorkers(partial(open_dying, str(tmp_path), 1), new_team(), RolloutSettings("local"), on_death=told.append)
    made.publish(0)
    assert len(made.play([0]).groups) == 1
    made.close()
    assert len(told) == 1
    assert told[0].startswith("rollout worker 0 died while it started: ")
    with pytest.raises(RolloutWorkerError, match="rollout worker 0 died while it started"):
        RayWorkers(partial(open_dying, str(tmp_path), 5), new_team(), RolloutSettings("local"))


def test_the_address_of_a_head_is_taken(connected):
    import ray

    with cluster(replace(TWO, ray=ray.get_runtime_context().gcs_address)):
        assert ray.is_initialized()
    assert ray.is_initialized()  # it was there before


def test_more_workers_than_the_cluster_has_cores_are_refused(connected):
    with (
        pytest.raises(RolloutWorkerError, match="workers and learners want 50 CPU, the cluster has 3"),
        cluster(RolloutSettings("local", rollout_workers=50)),
    ):
        raise AssertionError


# ---------------------------------------------------------------------- the command

TRAIN = [
    *["train", "--env", "marft/math_duo-v0", "--data", "embedded:stories", "--model", "tiny", "--device", "cpu"],
    *["--groups", "2", "--group-size", "2", "--max-new-tokens", "4"],
]


def test_marft_train_by_a_ray_worker_equals_the_local_run(connected, tmp_path):
    ray = ["--ray", "local", "--rollout-workers", "1"]
    assert main([*TRAIN, "--updates", "1", "--out", str(tmp_path / "local")]) == 0
    assert main([*TRAIN, "--updates", "1", "--out", str(tmp_path / "ray"), *ray]) == 0
    assert outcome(tmp_path / "ray") == outcome(tmp_path / "local")


def marked(mark):
    """Return the processes whose environment holds a mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes())
    return found


def test_a_cluster_that_the_command_started_ends_with_it(tmp_path):
    mark = f"MARFT_TEST_{tmp_path.name}_{os.getpid()}"
    flags = [flag for flag in TRAIN if flag not in ("--device", "cpu")]  # several learners are on the CPU
    command = [sys.executable, "-m", "baselines.cli.main", *flags, "--updates", "1", "--out", str(tmp_path / "run")]
    command += ["--ray", "local", "--rollout-workers", "1", "--max-staleness", "1", "--learners", "2"]
    environment = os.environ | {mark: "1", "RAY_memory_monitor_refresh_ms": "0"}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "update 1/1: success" in done.stderr  # rank 0 says so, in another process
    deadline = time.monotonic() + 20
    while marked(mark):
        assert time.monotonic() < deadline, marked(mark)
        time.sleep(0.1)
