"""Resume is exact: k + k updates are 2k, also after a kill at any file operation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.runs import checkpoint
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from tests.helpers.fakes import Market, word_team
from tests.helpers.full_disk import largest_file
from tests.helpers.naive import BRIEF_CRITIC
from tests.helpers.run_outcome import outcome
from tests.marft_agents.properties.killed_run import UPDATES, build, train, trainer


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    train(folder)
    return outcome(folder)


@pytest.mark.parametrize("k", range(1, UPDATES))
def test_k_updates_and_the_rest_are_all_updates(tmp_path, uninterrupted, k):
    train(tmp_path / "run", k)
    assert train(tmp_path / "run") == k
    assert outcome(tmp_path / "run") == uninterrupted
    assert [m["update"] for m in read_metrics(tmp_path / "run")] == list(range(UPDATES))


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param(
            {"level": "action", "normalisation": "word", "agent_interval": 1, "agent_order": "random"},
            marks=pytest.mark.long,
        ),
        {"level": "action", "compounding": "bounded", "agent_order": "random", "kl_stop": 0.5, "value_warmup": 1},
    ],
)
def test_other_settings_resume_exactly_too(tmp_path, knobs):
    def run(folder, updates):
        team = word_team(["buyer_0", "seller_0"])
        settings = LearnerSettings(
            policy_lr=1e-2, critic_lr=1e-2, ppo_epochs=2, mini_batches=2, **BRIEF_CRITIC, **knobs
        )
        learner = Learner(team, settings, seed=4, total_updates=4)
        done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
        records = RunFolder(folder, {}, resume_at=done)
        Trainer(Market, team, learner, TrainingSchedule(updates=updates, groups=2), folder=records).run()
        records.close()

    run(tmp_path / "whole", 4)
    run(tmp_path / "halves", 2)
    run(tmp_path / "halves", 4)
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "halves")


def killed(tmp_path, stride, uninterrupted):
    run = subprocess.run(
        [sys.executable, Path(__file__).with_name("killed_run.py"), tmp_path, str(stride)],
        check=False,
        env=_environment(),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    trials = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
    found = [done for _, done, _ in trials]
    assert trials[0] == (1, 0, 0)
    assert found == sorted(found)
    assert set(found) >= set(range(UPDATES))  # kills fell into every update
    for number, done, recorded in trials:
        assert recorded - done in (0, 1), f"killed at file operation {number}: {recorded} updates, {done} saved"
        assert outcome(tmp_path / str(number)) == uninterrupted, f"killed at file operation {number}"
        kept = [p for p in (tmp_path / str(number) / "checkpoints").iterdir() if p.name.startswith("update-")]
        assert all((p / name).exists() for p in kept for name in ("state.json", "learner.pt", "buyer_0", "seller_0"))
        assert {p.name for p in kept} >= {"update-00002", "update-00003"}  # the best one and the newest
        assert done == UPDATES or len(kept) == 2  # a kill after the last save may leave the one before it


@pytest.mark.long
def test_a_kill_at_any_moment_loses_at_most_the_unfinished_update(tmp_path, uninterrupted):
    """The trials run in another process with another seed of str hashes: nothing may depend on the order of a set.

    The first one is killed before anything is written, so its resume samples and learns everything there.
    """
    killed(tmp_path, 71, uninterrupted)


@pytest.mark.slow
def test_a_kill_at_every_third_file_operation(tmp_path, uninterrupted):
    killed(tmp_path, 3, uninterrupted)


def _environment():
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONHASHSEED": "77",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }


# ------------------------------------------------------------------ the run folder


def test_a_fresh_run_does_not_overwrite_one(tmp_path):
    train(tmp_path, 1)
    with pytest.raises(RunFolderError, match="already holds a run"):
        RunFolder(tmp_path, {})


def test_a_run_that_died_before_its_first_checkpoint_can_start_over(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"update": 0}\n')
    (tmp_path / "episodes.jsonl").write_text('{"update": 0}\n{"upd')
    RunFolder(tmp_path, {"again": True}).close()
    assert (tmp_path / "metrics.jsonl").read_text() == ""
    assert (tmp_path / "episodes.jsonl").read_text() == ""
    assert json.loads((tmp_path / "config.json").read_text()) == {"again": True}


def test_records_of_updates_that_are_done_again_are_dropped(tmp_path):
    lines = [json.dumps({"update": u, "text": "a\u2028b"}, ensure_ascii=False) + "\n" for u in (0, 0, 1, 2)]
    recorded = {"metrics.jsonl": 2, "episodes.jsonl": 2, "alarms.jsonl": 0}
    for name in recorded:
        (tmp_path / name).write_text(
            "".join(lines[-recorded[name] - 2 :]) + '{"update": 2, "cut in tw', encoding="utf-8"
        )
    RunFolder(tmp_path, {}, resume_at=1, recorded=recorded).close()
    assert (tmp_path / "episodes.jsonl").read_text(encoding="utf-8") == "".join(lines[:2])
    assert not (tmp_path / "config.json").exists()  # a resumed run keeps the configuration it has


def test_a_full_disk_while_recording_says_so(tmp_path, uninterrupted):
    team, learner = build()
    records = RunFolder(tmp_path, {})
    run = trainer(team, learner, TrainingSchedule(groups=4, group_size=1), records)
    run.step()
    with (
        largest_file((tmp_path / "metrics.jsonl").stat().st_size + 100),
        pytest.raises(RunFolderError, match=f"{tmp_path} could not be written at update 2: .*File too large"),
    ):
        run.step()
    train(tmp_path)
    assert outcome(tmp_path) == uninterrupted


def test_a_folder_without_metrics_is_no_run(tmp_path):
    with pytest.raises(RunFolderError, match=r"holds no run: metrics\.jsonl is missing"):
        read_metrics(tmp_path)
