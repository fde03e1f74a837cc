"""Trackers: what each gets, that a resume continues its run, and that none of them can end a run."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from marft_agents.monitoring import trackers
from marft_agents.monitoring.alarms import Alarm
from marft_agents.monitoring.trackers import TRACKERS, TrackerError, TrackingSettings, trace
from marft_agents.runs.run_folder import RunFolder
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Action, SampledTurn, Trajectory
from tests.marft_agents.monitoring.fake_trackers import Fake

ROOT = Path(__file__).parents[3]
NO_IDS = np.zeros(0, np.int32)
ALL = TrackingSettings(track=("tensorboard", "trackio", "wandb"), track_project="teams", track_episodes=1)


@pytest.fixture
def fakes(monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_DIR", raising=False)
    made = {name: Fake(name) for name in ("trackio", "wandb")}
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


def played(agent, text, reward, round_=0):
    action = Action(text, np.arange(7, dtype=np.int32), np.arange(3, dtype=np.int32), np.zeros(3, np.float32), True)
    return SampledTurn(agent, action, reward, round_, layer=0)


def episode(**changes):
    """Return an episode of two agents with a tool call of the first, as an environment records it."""
    turns = (played("reader_0", "look(2)", 0.0), played("writer_0", "write(4)", 1.0, round_=1))
    call = {"kind": "call", "agent": "reader_0", "name": "look", "arguments": {"at": 2}, "status": "ok"}
    other = {"kind": "call", "agent": "writer_0", "name": "write", "arguments": {}, "status": "denied"}
    game = {
        "task_id": "task-7",
        "terms": {},
        "turns": [{"observation": "Look it up."}, {"observation": "Write it down."}],
        "outcomes": [{"events": [call]}, {"events": [other, {"kind": "hand_off", "agent": "writer_0"}]}],
    }
    known = {"seed": 5, "group": 0, "turns": turns, "terminated": True, "truncated": False, "game": game}
    return Trajectory(**known | {"infos": {"success": 1.0}} | changes)


def alarm(**changes):
    known = {"update": 0, "agent": "reader_0", "kind": "collapse", "measure": "entropy", "value": 0.0, "threshold": 1.0}
    return Alarm(**known | {"sentence": "It says one thing."} | changes)


# ------------------------------------------------------------ what they get


def test_trackers_get_metrics_episodes_and_alarms(fakes, tmp_path, capsys):
    records = RunFolder(tmp_path / "duo", {"env": "e"}, tracking=ALL)
    records.log(0, {"team/return": 0.5, "kl": float("nan")}, [episode(), episode()], [alarm()])
    records.close()
    [trackio], [wandb] = fakes["trackio"].runs, fakes["wandb"].runs
    for run in (trackio, wandb):
        assert run.given["project"] == "teams"
        assert run.given["config"] == {"env": "e"}
        assert run.alerts == [("reader_0: collapse", "It says one thing.")]
        assert run.finished == 1
    [(step, logged)] = trackio.logged
    assert (step, logged["team/return"]) == (0, 0.5)
    assert "kl" not in logged  # its store takes finite numbers
    assert len(logged["episodes"]) == 1  # as many as the setting says
    [(_, logged)] = wandb.logged
    assert (logged["update"], logged["team/return"]) == (0, 0.5)
    assert wandb.axes == [("update", None), ("*", "update")]
    assert any(path.name.startswith("events.out.tfevents") for path in (tmp_path / "duo").iterdir())
    assert capsys.readouterr().out == ""  # the standard output is that of the command


def test_a_trace_holds_turns_with_what_was_seen_and_tool_calls_below_them():
    made = trace(episode())
    assert made["messages"] == [
        {"role": "user", "content": "Look it up."},
        {"role": "assistant", "name": "reader_0", "content": "look(2)"},
        {"role": "assistant", "name": "writer_0", "content": "write(4)"},
    ]
    assert made["metadata"] == {"task_id": "task-7", "seed": 5, "return": 1.0, "success": 1.0, "status": "success"}
    first, looked, second, wrote = made["spans"]
    assert (first["name"], first["input"], first["output"]) == ("reader_0", "Look it up.", "look(2)")
    assert first["usage"] == {"input_tokens": 7, "output_tokens": 3}
    assert second["metadata"] == {"round": 1, "layer": 0, "reward": 1.0}
    assert (looked["parent_id"], looked["input"], looked["status"]) == (first["id"], {"at": 2}, "success")
    assert (wrote["parent_id"], wrote["name"], wrote["status"]) == (second["id"], "write", "error")
    json.dumps(made)


def test_a_trace_of_an_environment_without_records_holds_the_actions():
    made = trace(episode(game=None, failure="the judge died"))
    assert [message["content"] for message in made["messages"]] == ["look(2)", "write(4)"]
    assert [span["input"] for span in made["spans"]] == [None, None]
    assert (made["metadata"]["status"], made["metadata"]["failure"]) == ("error", "the judge died")


def test_a_resume_continues_the_same_run(fakes, tmp_path):
    for done in (0, 1):
        records = RunFolder(tmp_path / "duo", {}, resume_at=done, tracking=ALL)
        records.log(done, {"x": 1.0}, [])
        records.close()
    first, second = (run.given for run in fakes["trackio"].runs)
    assert first["name"] == second["name"]
    assert first["name"].startswith("duo-")
    assert second["resume"] == "allow"
    assert [run.given["id"] for run in fakes["wandb"].runs] == [first["name"]] * 2
    other = RunFolder(tmp_path / "elsewhere" / "duo", {}, tracking=ALL)
    other.close()
    assert fakes["trackio"].runs[-1].given["name"] != first["name"]  # two folders of one name are two runs


def test_wandb_is_offline_unless_the_environment_says_otherwise(fakes, tmp_path, monkeypatch):
    RunFolder(tmp_path / "a", {}, tracking=ALL).close()
    monkeypatch.setenv("WANDB_MODE", "online")
    RunFolder(tmp_path / "b", {}, tracking=ALL).close()
    offline, online = (run.given for run in fakes["wandb"].runs)
    assert (offline["mode"], offline["resume"]) == ("offline", None)
    assert (online["mode"], online["resume"]) == (None, "allow")
    assert offline["dir"] == str(tmp_path / "a")


# --------------------------------------------------------------- failures


def log_three(records):
    for update in range(3):
        records.log(update, {"x": 1.0}, [])
    records.close()


@pytest.mark.parametrize("failing", ["log", "finish"])
def test_a_tracker_that_fails_ends_no_run_and_warns_once(fakes, tmp_path, failing):
    def refuse(*given, **named):
        raise ConnectionError("no route")

    records = RunFolder(tmp_path / "run", {}, tracking=ALL)
    setattr(fakes["wandb"].runs[0], failing, refuse)
    with pytest.warns(RuntimeWarning, match="tracker wandb failed .*no route; metrics.jsonl has all") as warned:
        log_three(records)
    assert len(warned) == 1
    assert [step for step, _ in fakes["trackio"].runs[0].logged] == [0, 1, 2]
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 3


def test_a_tracker_that_cannot_be_opened_is_an_error(fakes, tmp_path, monkeypatch):
    def refuse(**given):
        raise PermissionError("not logged in")

    monkeypatch.setattr(fakes["wandb"], "init", refuse)
    with pytest.raises(TrackerError, match="tracker wandb cannot be opened: PermissionError: not logged in"):
        RunFolder(tmp_path / "run", {}, tracking=ALL)


@pytest.mark.parametrize("names", [("tensorbord",), (), ("wandb", "wandb")])
def test_unknown_trackers_are_refused_with_the_known_ones(names):
    with pytest.raises(SettingsError, match="wanted some of tensorboard, trackio, wandb, each once"):
        TrackingSettings(track=names)


def test_a_missing_package_is_refused_with_the_extra(monkeypatch, tmp_path):
    for name in ("trackio", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(SettingsError, match=rf"--track {name} needs .*: pip install .*\[{name}\]'"):
            TrackingSettings(track=("tensorboard", name)).check_installed()
    TrackingSettings().check_installed()


def test_a_folder_of_that_name_is_no_package(monkeypatch, tmp_path):
    (tmp_path / "marft_fake_tracker").mkdir()  # as offline runs leave a folder `wandb`
    monkeypatch.syspath_prepend(tmp_path)
    assert not trackers._is_installed("marft_fake_tracker")
    (tmp_path / "marft_fake_tracker" / "__init__.py").touch()
    assert trackers._is_installed("marft_fake_tracker")


# ---------------------------------------------------------- real packages


def accepted(real, fake):
    """Assert that a real function takes every argument that the fake one takes."""
    known = inspect.signature(real).parameters
    assert set(inspect.signature(fake).parameters) - {"self", "given", "settings"} <= set(known)


PROGRAM = """
import json, sys
from pathlib import Path
from tests.marft_agents.monitoring.test_trackers import ALL, accepted, alarm, episode
from tests.marft_agents.monitoring.fake_trackers import Fake, FakeRun
from marft_agents.runs.run_folder import RunFolder
import trackio, wandb
accepted(trackio.Trace, Fake("trackio").Trace)
accepted(trackio.Run.alert, lambda title, text, step: 0)
accepted(wandb.Run.alert, lambda title, text: 0)
accepted(wandb.Run.define_metric, FakeRun.define_metric)
for done in (0, 1):
    records = RunFolder(Path("run"), {"env": "e"}, resume_at=done, tracking=ALL)
    records.log(done, {"team/return": 0.5, "kl": float("nan")}, [episode(), episode()], [alarm()])
    records.close()
from trackio.sqlite_storage import SQLiteStorage
[name] = SQLiteStorage.get_runs("teams")
logs, traces = SQLiteStorage.get_logs("teams", name), SQLiteStorage.get_traces("teams", name)
offline = sorted(Path("run/wandb").glob("offline-run-*/run-*.wandb"))
print(json.dumps([name, [log["step"] for log in logs], traces[0]["spans"][0]["input"], [str(p) for p in offline]]))
"""


@pytest.mark.slow
def test_the_real_trackers_keep_a_resumed_run_as_one_and_need_no_network(tmp_path):
    """Needs trackio and wandb, which the extra `dev` has; their processes start in a process of their own."""
    found = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "TRACKIO_", "HF_"))}
    found |= {"TRACKIO_DIR": str(tmp_path / "store"), "HF_HOME": str(tmp_path / "hub"), "PYTHONPATH": str(ROOT)}
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=found | nowhere, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    name, steps, seen, offline = json.loads(done.stdout)
    assert steps == [0, 1]
    assert seen == "Look it up."
    assert len(offline) == 2
    assert all(path.endswith(f"run-{name}.wandb") for path in offline)
    assert set(TRACKERS) == set(ALL.track)
