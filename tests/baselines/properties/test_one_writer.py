"""Every command that writes a results folder is its only writer, and says who is where it is not."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from baselines.cli.main import main
from baselines.experiment.experiment import Experiment
from baselines.experiment.training import TrainingRun
from marft_agents.generation.engine_settings import EngineSettings
from marft_agents.learning.learner import Learner
from marft_agents.learning.rank_settings import RankSettings
from marft_agents.policies import team_building
from marft_agents.rollouts.rollout_settings import RolloutSettings
from marft_agents.runs.folder_lock import LOCK_FILE, RunFolderError
from marft_agents.runs.run_folder import read_metrics
from tests.helpers.bench_plan import write_plan
from tests.helpers.folder_owner import owner
from tests.helpers.rank_runs import by_threads

DUO = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories"]
TINY = ["--model", "tiny", "--device", "cpu", "--max-new-tokens", "2"]
TRAIN = ["train", *DUO, *TINY, "--groups", "1", "--group-size", "2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, recorded turns, a run on these and a plan."""
    folder = tmp_path_factory.mktemp("made")
    assert main([*TRAIN, "--updates", "1", "--out", f"{folder}/run"]) == 0
    assert main(["eval", *DUO, "--policy", "scripted", "--limit", "2", "--out", f"{folder}/oracle"]) == 0
    turns = ["data", "from-runs", f"{folder}/oracle", "--allow-split", "test", "--held-out", "0"]
    assert main([*turns, "--out", f"{folder}/turns.jsonl"]) == 0
    tiny = ["--model", "tiny", "--device", "cpu", "--max-new-tokens", "40", "--epochs", "1"]
    assert main(["sft", "--data", f"{folder}/turns.jsonl", *tiny, "--out", f"{folder}/sft"]) == 0
    write_plan(folder)
    return folder


def commands(made):
    """Return the arguments of each command without its folder, which comes last."""
    return {
        "train": [*TRAIN, "--out"],
        "sft": ["sft", "--data", f"{made}/turns.jsonl", "--model", "tiny", "--out"],
        "eval": ["eval", *DUO, *TINY, "--limit", "1", "--out"],
        "attribute": ["attribute", f"{made}/run", "--limit", "1", "--out"],
        "bench": ["bench", f"{made}/plan.toml", "--out"],
    }


@pytest.fixture
def unloaded(monkeypatch):
    def load(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(team_building, "load", load)


@pytest.mark.parametrize("name", ["train", "sft", "eval", "attribute", "bench"])
def test_a_folder_that_another_process_writes_is_refused(capsys, made, tmp_path, unloaded, name):
    with owner(tmp_path / "out") as other:
        assert main([*commands(made)[name], str(tmp_path / "out")]) == 1
        told = capsys.readouterr().err
        assert told.startswith(f"marft: error: {tmp_path}/out is written by process {other.pid} on machine ")
        assert [path.name for path in (tmp_path / "out").iterdir()] == [LOCK_FILE]


@pytest.mark.parametrize("name", ["train", "sft"])
def test_a_run_that_another_process_writes_is_not_resumed(capsys, made, unloaded, name):
    run = made / {"train": "run", "sft": "sft"}[name]
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    with owner(run) as other:
        assert main([name, "--resume", str(run)]) == 1
    assert f"{run} is written by process {other.pid} on machine " in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in run.iterdir() if path.name != LOCK_FILE} == before


def test_an_evaluation_inside_of_a_run_that_trains_is_no_second_writer(made):
    with owner(made / "run"):
        scripted = ["eval", *DUO, "--policy", "scripted", "--limit", "1"]
        assert main([*scripted, "--out", str(made / "run" / "evaluation")]) == 0
    assert (made / "run" / "evaluation" / "evaluation.json").is_file()


def test_of_several_learners_rank_0_owns_the_folder(made, tmp_path, unloaded):
    run = TrainingRun(Experiment.load(made / "run"), tmp_path / "out")
    with owner(tmp_path / "out") as other:
        with pytest.raises(RunFolderError, match=f"is written by process {other.pid} on machine"):
            run.work(SimpleNamespace(rank=0, count=2))
        with pytest.raises(AssertionError, match="a model was loaded"):
            run.work(SimpleNamespace(rank=1, count=2))


def test_several_learners_take_the_sizes_of_rank_0_and_record_them(made, tmp_path, monkeypatch):
    def sized(settings, team):
        return replace(settings, micro_batch=next(sizes))

    sizes, learners = itertools.count(3), []
    monkeypatch.setattr("marft_agents.learning.pass_size.fitted", sized)
    plain, build, alone = Learner.__init__, team_building.build_team, threading.Lock()

    def built(*given, **named):
        with alone:  # ranks are processes; these threads share the random generator and the filters of warnings
            return build(*given, **named)

    def watched(self, *given, **named):
        with alone:
            plain(self, *given, **named)
        learners.append(self)

    monkeypatch.setattr(team_building, "build_team", built)
    monkeypatch.setattr(Learner, "__init__", watched)
    plan = replace(Experiment.load(made / "run"), engine=EngineSettings(), ranks=RankSettings(learners=2))
    plan = replace(plan, rollouts=RolloutSettings(ray="local", rollout_workers=0))
    monkeypatch.setattr("marft_agents.rollouts.ray_workers.check_ray", lambda rollouts: None)
    monkeypatch.setattr("marft_agents.runs.ray_ranks.check_ranks", lambda ranks, rollouts: None)
    run = TrainingRun(plan, tmp_path / "out", None, resume=False)
    by_threads(2, lambda ranks: ranks, run.work)
    of_rank_0 = next(learner for learner in learners if not learner.ranks.rank)
    assert {learner.settings.micro_batch for learner in learners} == {of_rank_0.settings.micro_batch}
    assert next(sizes) == 5  # each rank has its own proposal
    recorded = Experiment.load(tmp_path / "out")
    assert recorded.learner.micro_batch == of_rank_0.settings.micro_batch
    assert recorded.engine == of_rank_0.team.engine
    assert recorded.engine.max_batch
    assert recorded.engine.kv_cache_gib


@pytest.mark.long
def test_two_trainings_of_one_run_leave_each_update_once(capsys, tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-c", "import sys; from baselines.cli.main import main; sys.exit(main())"]
    with subprocess.Popen([*command, *TRAIN, "--updates", "10000", "--out", str(run)]) as first:
        try:
            while not (run / "checkpoints" / "update-00002").exists():
                assert first.poll() is None
                time.sleep(0.01)
            for second in ([*TRAIN, "--out", str(run)], ["train", "--resume", str(run)]):
                assert main(second) == 1
                assert f"{run} is written by process {first.pid} on machine {os.uname().nodename}" in (
                    capsys.readouterr().err
                )
        finally:
            first.send_signal(signal.SIGKILL)
    assert main(["train", "--resume", str(run), "--updates", "1"]) == 1  # fewer than are done
    done = int(capsys.readouterr().err.split("has done ")[1])
    assert main(["train", "--resume", str(run), "--updates", str(done + 2)]) == 0
    assert [line["update"] for line in read_metrics(run)] == list(range(done + 2))
    updates = [json.loads(line)["update"] for line in (run / "episodes.jsonl").read_text().splitlines()]
    assert set(updates) == set(range(done + 2))
    assert all(later - earlier in (0, 1) for earlier, later in pairwise(updates))
    assert len(updates) == 2 * (done + 2)
    assert not (run / LOCK_FILE).exists()
