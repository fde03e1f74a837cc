"""Checksums of the data of a run: what counts, what does not, and the refusals of `marft train --resume`."""

import dataclasses
import json
import subprocess
import sys
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

import marft_envs
from baselines.cli.main import main
from baselines.experiment.data_checksums import _text, task_checksum
from marft_agents.policies import team_building
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import read_metrics
from marft_envs.game.task import Task, TaskList
from marft_envs.sandbox import Test
from marft_envs.tasks.code import CodeTasks
from marft_envs.tasks.code.problem import Problem

SMALL = ["--model", "tiny", "--device", "cpu", "--groups", "1", "--group-size", "2", "--max-new-tokens", "2"]


def listing(tasks):
    """Return an environment that lists these tasks."""
    return SimpleNamespace(unwrapped=SimpleNamespace(metadata={"lists_tasks": True}, tasks=tasks))


def checksum(*tasks):
    return task_checksum(listing(TaskList("t", tasks)))


def task(id="a", **changes):
    return Task(**{"id": id, "prompt": "1 + 1?", "answer": "2", "split": "train", "meta": {"level": 1}} | changes)


def test_everything_of_a_task_counts_and_so_does_the_order():
    found = checksum(task(), task("b"))
    assert found.startswith("2 tasks, sha256 ")
    changed = [
        checksum(task(prompt="1 + 2?"), task("b")),
        checksum(task(answer="3"), task("b")),
        checksum(task(meta={"level": 2}), task("b")),
        checksum(task("b"), task()),
        checksum(task("c"), task("b")),
        checksum(task()),
    ]
    assert len({found, *changed}) == 7
    assert checksum(task(), task("b")) == found


def test_hidden_tests_of_a_program_count():
    def found(output):
        problem = Problem("p", "Double it.", examples=(Test(b"1", b"2"),), tests=(Test(b"2", output),))
        return task_checksum(listing(CodeTasks("c", [problem])))

    assert found(b"4") != found(b"5")


def test_a_field_that_is_added_with_a_default_changes_nothing():
    @dataclasses.dataclass(frozen=True)
    class Later(Task):
        added: tuple[str, ...] = ()
        notes: dict[str, str] = dataclasses.field(default_factory=dict)

    later = Later("a", "1 + 1?", "2", "train", {"level": 1})
    assert checksum(later) == checksum(task())
    assert checksum(dataclasses.replace(later, notes={"x": "y"})) != checksum(task())


def test_what_json_does_not_hold_has_a_text_of_its_own():
    values = [
        b"1",
        {"a", "b"},
        MappingProxyType({"a": 1}),
        np.arange(2),
        np.int64(3),
        (1, None),
        float("nan"),
        object(),
    ]
    assert _text(values[1:]) == '[["\\"a\\"", "\\"b\\""], {"a": 1}, [0, 1], 3, [1, null], NaN, "object"]'
    assert _text(b"1") != _text(b"2")


def test_it_is_the_same_in_every_process():
    code = (
        "import marft_envs; from baselines.experiment.data_checksums import task_checksum; "
        "print(task_checksum(marft_envs.make('marft/tools_duo-v0')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == task_checksum(marft_envs.make("marft/tools_duo-v0"))


def test_tasks_drawn_from_seeds_have_none():
    assert task_checksum(SimpleNamespace(unwrapped=SimpleNamespace(metadata={}))) is None


# ------------------------------------------------------------------ resume


def write(file, numbers):
    rows = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in numbers]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def unloaded(monkeypatch):
    def load(*_, **__):
        raise AssertionError("a model was loaded")

    with monkeypatch.context() as patch:
        patch.setattr(team_building, "load", load)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with validation, and its data: one file a split."""
    folder = tmp_path_factory.mktemp("resumed")
    (folder / "data").mkdir()
    flags = ["--env", "marft/gsm8k_duo-v0", "--data", str(folder / "data"), *SMALL, "--validate-every", "1"]
    write(folder / "data" / "train.jsonl", range(1, 6))
    write(folder / "data" / "test.jsonl", range(6, 8))
    assert main(["train", *flags, "--updates", "1", "--out", str(folder / "run")]) == 0
    return folder


@pytest.mark.parametrize(
    ("name", "numbers", "what", "counts"),
    [
        ("train", [20, 21, 22], "training", (3, 5)),
        ("train", [1, 2, 3, 5, 4], "training", (5, 5)),
        ("test", [6, 8], "validation", (2, 2)),
    ],
)
def test_a_run_is_not_resumed_on_other_problems(capsys, made, unloaded, name, numbers, what, counts):
    file = made / "data" / f"{name}.jsonl"
    before = file.read_bytes()
    try:
        write(file, numbers)
        assert main(["train", "--resume", str(made / "run"), "--updates", "2"]) == 1
    finally:
        file.write_bytes(before)
    told = capsys.readouterr().err
    start = (
        f"the tasks of the {what} (--data {made}/data) changed since {made}/run began: found {counts[0]} tasks, sha256"
    )
    assert start in told
    assert f", wanted {counts[1]} tasks, sha256 " in told
    assert "restore the data, or start a new run" in told


def test_a_run_goes_on_with_the_same_problems_and_says_what_it_can_not_know(capsys, made):
    run = made / "run"
    assert main(["train", "--resume", str(run), "--updates", "2"]) == 0
    assert "its tasks" not in capsys.readouterr().err
    newest = checkpoint.latest(run / "checkpoints")
    state = json.loads((newest / "state.json").read_text())
    assert json.loads((run / "versions.json").read_text())["tasks"] == state["notes"]["tasks"]
    for name in ("tasks", "held_out_tasks"):
        del state["notes"][name]
    state.pop("sha256")  # as older versions wrote it
    (newest / "state.json").write_text(json.dumps(state))
    for updates, times in (("3", 1), ("4", 0)):
        assert main(["train", "--resume", str(run), "--updates", updates]) == 0
        told = capsys.readouterr().err
        assert told.count("an older version, which did not record its tasks: whether they changed") == times
    assert len(read_metrics(run)) == 4
