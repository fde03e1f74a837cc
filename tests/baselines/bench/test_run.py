"""`marft bench` from end to end with a tiny model: all arms, a kill and a resume, failing cells, worker processes."""

import json
import os
import shlex
import signal
import time
from pathlib import Path

import pytest

import baselines.bench.run_unit as arms
from baselines.bench.plan_file import read_plan
from baselines.bench.run import Bench, add_records, locked, open_folder, run_bench
from baselines.bench.run_unit import Folder
from baselines.bench.units import Training, cells_of, units_of
from baselines.cli import bench
from baselines.cli.bench import chosen_folder
from baselines.cli.main import main
from baselines.results.bench_records import export
from marft_agents.runs.folder_lock import RunFolderError
from tests.helpers.bench_plan import ALL, records, timeless, write_plan


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    plan = write_plan(folder)
    assert main(["bench", str(plan), "--out", str(folder / "out")]) == 0
    return folder


def cell(folder, arm):
    [path] = (folder / "out" / "cells").glob(f"*--{arm.replace('@', '-at-')}*.json")
    return json.loads(path.read_text())


def test_every_cell_has_a_record_with_what_was_played(finished):
    plan = read_plan(finished / "plan.toml")
    for arm in ALL:
        found = cell(finished, arm)
        assert found["schema"] == "marft.bench.cell/1"
        assert found["plan_checksum"] == plan.checksum
        assert found["failure"] is None
        assert [len(row) for row in found["scores"]] == [2, 2]
        assert found["evaluation_seeds"] == [0, 1]
        assert len(found["cohorts"]["subject"]) == 2
        assert found["versions"]["python"]
        assert found["ledger"]["evaluation"]["team"]["output_tokens"] > 0
        assert found["command"].startswith("marft bench ")
    assert len({cell(finished, arm)["scenarios"]["checksum"] for arm in ALL}) == 1
    assert {cell(finished, arm)["rules"]["horizon"] for arm in ALL} == {1}


def test_arms_are_matched_in_tokens(finished):
    team, solo, vote = (cell(finished, arm) for arm in ("team", "solo@tokens", "vote@tokens"))
    for trained in (team, solo, cell(finished, "shared")):
        assert trained["training_tokens"] >= 20
        assert trained["training_tokens"] - 20 < 2 * 2 * 2  # the last update reaches the budget
    assert solo["rules"]["max_new_tokens"] == 2 * team["rules"]["max_new_tokens"]
    assert vote["vote"]["samples"] >= 1
    assert vote["output_tokens_per_answer"] / team["output_tokens_per_answer"] == vote["vote"]["tokens_ratio"]
    assert cell(finished, "untrained")["training_tokens"] is None


def test_trained_teams_are_deleted_after_their_last_cell_and_tables_are_written(finished):
    assert not any((finished / "out" / "runs").iterdir())
    assert json.loads((finished / "out" / "table.json").read_text())[0]["task"] == "stories"
    assert "| solo@tokens † |" in (finished / "out" / "table.md").read_text()  # of one seed and two problems


def test_cells_hold_the_curve_of_their_training_and_it_is_drawn(finished):
    for arm in ("team", "muted", "solo@tokens", "shared"):
        found = cell(finished, arm)
        training = json.loads((finished / "out" / "trainings" / f"{found['training']}.json").read_text())
        assert found["curve"] == {
            "training": {"tokens": [0, *training["tokens_by_update"][:-1]], "success": training["success"]}
        }
    assert cell(finished, "untrained")["curve"] is None
    assert (finished / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")
    [drawn] = json.loads((finished / "out" / "curve.json").read_text())
    assert [curve["arm"] for curve in drawn["arms"]] == ["team", "solo@tokens", "shared"]  # each training once


def test_validations_stand_at_the_tokens_generated_until_then():
    known = {"low": 0.0, "high": 1.0}
    before = {f"validation_before/{name}": value for name, value in ({"success": 0.1} | known).items()}
    after = {f"validation/{name}": value for name, value in ({"success": 0.4} | known).items()}
    lines = [{"tokens_total": 10.0, **before}, {"tokens_total": 25.0, **after}, {"tokens_total": 40.0}]
    assert arms._validation(lines) == {"validation": {"tokens": [0, 25], "success": [0.1, 0.4]}}
    assert arms._validation(lines[2:]) == {}


def test_a_finished_benchmark_is_not_run_again(finished, capsys):
    before = {path: path.stat().st_mtime_ns for path in (finished / "out" / "cells").iterdir()}
    assert main(["bench", str(finished / "plan.toml"), "--out", str(finished / "out"), "--resume"]) == 0
    assert {path: path.stat().st_mtime_ns for path in (finished / "out" / "cells").iterdir()} == before
    assert main(["bench", str(finished / "plan.toml"), "--out", str(finished / "out")]) == 1
    assert "--resume goes on" in capsys.readouterr().err


def test_a_benchmark_goes_on_from_exported_cells(finished, tmp_path, capsys):
    exported, out = tmp_path / "records.json", tmp_path / "out"
    kept = [cell(finished, arm) for arm in ALL if arm not in ("untrained", "muted")]
    export(kept, exported)
    command = ["bench", str(finished / "plan.toml"), "--out", str(out), "--records", str(exported)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert f"{len(units_of(read_plan(finished / 'plan.toml')))} trainings and cells" in shown
    assert "core hours (measured: " in shown
    assert "min left\n" in shown
    assert [path.name for path in (out / "trainings").iterdir()] == [f"{cell(finished, 'muted')['training']}.json"]
    whole = records(finished / "out")
    for path, record in records(out).items():
        assert record == whole[path]

    other = write_plan(tmp_path, ("team",))
    assert main(["bench", str(other), "--out", str(tmp_path / "other"), "--records", str(exported)]) == 1
    assert "records.json holds results of another plan: found checksum" in capsys.readouterr().err


def test_an_export_writes_no_file_but_those_of_the_plans_cells(finished, tmp_path):
    plan, out = read_plan(finished / "plan.toml"), tmp_path / "inner" / "out"
    export([cell(finished, "team"), {**cell(finished, "muted"), "cell": "../../elsewhere"}], tmp_path / "records.json")
    with pytest.raises(RunFolderError, match=r"a record of '../../elsewhere', which is no cell of the plan tiny"):
        add_records(plan, Folder(out), tmp_path / "records.json")
    assert [path.name for path in tmp_path.iterdir()] == ["records.json"]


def _die_after_the_first_unit():
    real = Bench.end

    def end(bench, unit):
        real(bench, unit)
        os.kill(os.getpid(), signal.SIGKILL)

    Bench.end = end


@pytest.mark.long
def test_a_killed_and_resumed_benchmark_equals_an_undisturbed_one(finished, tmp_path):
    plan, out = write_plan(tmp_path, ("team", "untrained", "muted")), tmp_path / "out"
    command = ["bench", str(plan), "--out", str(out)]
    child = os.fork()
    if child == 0:
        try:
            _die_after_the_first_unit()
            main([*command, "--jobs", "2"])
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with locked(out):  # waits for the worker processes, which end with their parent
        left = records(out)
    assert 1 <= len(left) <= 2  # the other worker may have ended its unit, too
    time.sleep(0.2)
    assert records(out) == left
    assert main([*command, "--resume"]) == 0
    whole = records(finished / "out")
    found = records(out)
    assert len(found) == 4
    for path, record in found.items():
        assert record | {"plan_checksum": ""} == whole[path] | {"plan_checksum": ""}


def test_the_seconds_of_a_resumed_training_count_its_updates_before_the_kill(tmp_path):
    plan, folder = read_plan(write_plan(tmp_path, ("team",))), Folder(tmp_path / "out")
    training = next(unit for unit in units_of(plan).values() if isinstance(unit, Training))
    arms.run_unit(plan, training, folder, "marft bench")
    metrics = folder.run(training.name) / "metrics.jsonl"
    seconds = {"seconds/rollout": 400.0, "seconds/update": 600.0}
    lines = [json.loads(line) | seconds for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arms.run_unit(plan, training, folder, "marft bench")
    record = json.loads(folder.record(training).read_text())
    assert record["seconds"] == 1000 * record["updates"] > 0


def test_a_failing_cell_is_a_record_and_the_others_go_on(finished, tmp_path, monkeypatch, capsys):
    plan = write_plan(tmp_path, ("team", "solo@tokens", "vote@tokens"))
    real = arms._play

    def play(plan, cell, folder):
        if cell.arm == "team":
            raise OSError("no space left")
        return real(plan, cell, folder)

    monkeypatch.setattr(arms, "_play", play)
    assert main(["bench", str(plan), "--out", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr()
    assert "no space left" in shown.err
    assert cell(tmp_path, "team")["failure"] == "OSError: no space left"
    assert "scores" not in cell(tmp_path, "team")
    assert "needs stories--laptop_duo--team--marft-a--seed-0, which failed" in cell(tmp_path, "vote@tokens")["failure"]
    assert cell(tmp_path, "solo@tokens")["failure"] is None
    assert "Failed cell stories--laptop_duo--team" in (tmp_path / "out" / "table.md").read_text()

    monkeypatch.setattr(arms, "_play", real)
    assert main(["bench", str(plan), "--out", str(tmp_path / "out"), "--resume"]) == 0  # failed cells run again
    mine, whole = cell(tmp_path, "team"), cell(finished, "team")
    assert mine["scores"] == whole["scores"]


def test_a_trained_team_that_is_lost_is_trained_again(finished, tmp_path):
    plan = read_plan(finished / "plan.toml")
    out = finished / "out"
    folder = Folder(out)
    lost = next(cell for cell in cells_of(plan) if cell.arm == "muted")
    before = timeless(folder.read(lost.name))
    folder.record(lost).unlink()
    bench = Bench(plan, open_folder(plan, out, resume=True), "marft bench")
    assert set(bench.units) - bench.done == {lost.name, lost.training}
    run_bench(bench, 1)
    assert timeless(folder.read(lost.name)) == before


def test_a_link_in_a_folder_of_others_leads_nowhere(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".workers.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "out"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_worker_that_dies_is_a_failed_unit(tmp_path):
    plan = read_plan(write_plan(tmp_path, ("untrained",)))
    bench = Bench(plan, open_folder(plan, tmp_path / "out", resume=False), "marft bench")
    [name] = units_of(plan)
    bench.start(bench.units[name])
    bench.lose(bench.units[name], f"its process ended with exit code {-signal.SIGKILL}")
    assert bench.finished
    assert "exit code -9" in Folder(tmp_path / "out").read(name)["failure"]


def test_the_plan_can_be_checked_without_running(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", str(write_plan(tmp_path)), "--check"]) == 0
    shown = capsys.readouterr().out
    assert "stories--laptop_duo--vote-at-tokens--marft-a--seed-0" in shown
    assert "forecast: 3 trainings, 8 evaluations; 60 generated training tokens" in shown
    assert "core hours (timed: an update of tiny with " in shown
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_a_forecast_leaves_out_what_is_done_and_learns_from_records_of_other_plans(finished, tmp_path, capsys):
    assert main(["bench", str(finished / "plan.toml"), "--out", str(finished / "out"), "--check"]) == 0
    assert "forecast: all units are done" in capsys.readouterr().out
    exported, plan = tmp_path / "records.json", write_plan(tmp_path, ("team", "untrained"), tokens=40)
    export([cell(finished, arm) for arm in ALL], exported)
    command = ["bench", str(plan), "--out", str(finished / "out"), "--check", "--records", str(exported)]
    assert main(command) == 0  # the folder is one of another plan: nothing is done
    shown = capsys.readouterr().out
    assert "forecast: 1 training, 2 evaluations; 40 generated training tokens" in shown
    assert f"core hours (measured: 8 cells of {exported})" in shown


def test_a_plan_without_a_folder_gets_a_new_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert chosen_folder("small", resume=False) == chosen_folder("small", resume=True) == Path("runs/bench-small")
    Path("runs/bench-small").mkdir(parents=True)
    assert chosen_folder("small", resume=False) == Path("runs/bench-small-2")
    Path("runs/bench-small-2").mkdir()
    assert chosen_folder("small", resume=False) == Path("runs/bench-small-3")
    assert chosen_folder("small", resume=True) == Path("runs/bench-small-2")


def test_ctrl_c_names_the_command_that_goes_on(tmp_path, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    plan, out = write_plan(tmp_path, ("untrained",)), tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(bench, "run_bench", stop)
        assert main(["bench", str(plan), "--out", str(out), "--keep-checkpoints"]) == 130
    command = shlex.join(
        ["marft", "bench", str(plan), "--out", str(out), "--jobs", "1", "--resume", "--keep-checkpoints"]
    )
    assert f"stopped; go on with: {command}\n" in capsys.readouterr().err
    assert main(shlex.split(command)[1:]) == 0


SHARDS = """
name = "tiny"
arms = ["team", "solo@window", "solo@window@updates", "solo@whole"]
[[tasks]]
name = "shards"
env = "marft/shards_readers2-v0"
model = "tiny"
test_split = "bench"
problems = 3
keywords = { lines = 2 }
max_new_tokens = 3
context_window = 2000
training_tokens = 40
settings = { groups = 1, group_size = 2 }
"""


@pytest.mark.long
def test_one_agents_of_a_world_are_trained_for_the_teams_tokens_and_for_its_updates(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(SHARDS)
    assert main(["bench", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out")]) == 0
    team, window, updates, whole = (
        cell(tmp_path, f"{arm}--marft") for arm in ("team", "solo@window", "solo@window@updates", "solo@whole")
    )
    assert min(each["training_tokens"] for each in (team, window, whole)) >= 40
    assert updates["training_updates"] == team["training_updates"]
    assert team["training_episodes"] == 2 * team["training_updates"]
    assert len({each["scenarios"]["checksum"] for each in (team, window, updates, whole)}) == 1
    assert [each["rules"]["context_window"] for each in (team, window, whole)] == [2000, 2000, 0]
    assert [each["rules"]["max_new_tokens"] for each in (team, window, whole)] == [3, 3, 9]
    assert "Difference: to solo@window of the same team" in capsys.readouterr().out
