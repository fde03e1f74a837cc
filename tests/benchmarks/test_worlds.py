"""The benchmark of the worlds measures what it says, on two small worlds and a tiny model."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import marft_envs
from benchmarks import worlds
from benchmarks.worlds import WORLDS, World, chosen, cpu_seconds, helper_clocks, main, measure_model, table

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs/benchmarks/worlds.json"
LOOKUP = World("marft/tools_duo-v0", "embedded:lookup")
linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="helper processes are found in Linux only")


def test_two_worlds_are_measured_and_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(worlds, "WORLDS", (LOOKUP,))
    out = tmp_path / "worlds.json"
    few = ["--seconds", "0.02", "--tasks", "3", "--model", "tiny", "--model-tasks", "2", "--model-rounds", "2"]
    assert main(["--ids", "marft/math_duo-v0,marft/tools_duo-v0", *few, "--json", str(out)]) == 0

    record = json.loads(out.read_text(encoding="utf-8"))
    shown = capsys.readouterr()
    assert [(row["id"], row["data"]) for row in record["worlds"]] == [
        ("marft/math_duo-v0", None),
        ("marft/tools_duo-v0", "embedded:lookup"),
    ]
    for row, oracle_rounds in zip(record["worlds"], (1, 3), strict=True):
        assert row["tasks"] == 3
        assert row["oracle"] == {"success": 1.0, "failed": 0}
        assert row["random"] == {"success": 0.0, "failed": 0}
        assert row["oracle_rounds"] == oracle_rounds
        assert 0 < row["reset_ms"]["median"] <= row["reset_ms"]["largest"]
        assert list(row["turns_per_cpu_s"]) == ["constant_text", "solution"]
        assert min(row["turns_per_cpu_s"].values()) > 50
        assert (row["model"]["ended"], row["model"]["solved"], row["model"]["stopped"]) == (2, 0, False)
    assert "tools_duo, `embedded:lookup` | - | - |" in shown.err
    assert shown.out.strip() == table(record)
    assert main(["--table", str(out)]) == 0
    assert capsys.readouterr().out.strip() == table(record)

    few[few.index("--tasks") + 1] = "2"
    assert main(["--ids", "marft/tools_duo-v0,marft/gsm8k_duo-v0", *few, "--json", str(out)]) == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["worlds"]
    assert [row["id"] for row in rows] == ["marft/math_duo-v0", "marft/tools_duo-v0", "marft/gsm8k_duo-v0"]
    assert rows[0] == {"commit": record["commit"], **record["worlds"][0]}
    assert [row["tasks"] for row in rows] == [3, 2, 2]


def test_a_wrong_oracle_is_seen(monkeypatch):
    """The oracle's success is measured, not assumed: here it says something else than the solution."""
    monkeypatch.setitem(worlds.WITHOUT_MODEL, "scripted", worlds.WITHOUT_MODEL["random"])
    assert worlds.measure(World("marft/math_solo-v0"), 2, 0.01)["oracle"]["success"] == 0


def test_the_speed_is_turns_by_cpu_time():
    def games():
        while True:
            end = time.process_time() + 0.001
            while time.process_time() < end:
                pass
            yield 5

    assert 4_000 < worlds.turns_per_cpu_s(games(), 4, 0.05) <= 5_000


def test_the_speed_is_that_of_the_fastest_pass():
    def games():
        for number in itertools.count():
            end = time.process_time() + (0.001 if number in (6, 7) else 0.004)
            while time.process_time() < end:
                pass
            yield 5

    assert 4_000 < worlds.turns_per_cpu_s(games(), 2, 0.05) <= 5_000


@linux
def test_helper_processes_count():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            helpers = helper_clocks()
            start, own = cpu_seconds(helpers), time.process_time()
            end = time.monotonic() + 30
            while cpu_seconds(helpers) - start < 0.05 and time.monotonic() < end:
                time.sleep(0.02)
            assert cpu_seconds(helpers) - start >= 0.05 > time.process_time() - own
        finally:
            busy.kill()


def test_the_replayed_solution_and_the_order_of_tasks():
    said = []
    env = marft_envs.make("marft/math_duo-v0", split="test")
    games = worlds.play(env, [{"index": 3}, {"index": 7}], lambda _, number, turn: said.append((number, turn)) or "x")
    assert [next(games) for _ in range(3)] == [2, 2, 2]
    assert said == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1)]
    assert env.unwrapped.task == env.unwrapped.tasks[3]


def test_a_model_is_stopped_at_the_limit_of_time():
    found = measure_model(LOOKUP, "tiny", count=2, rounds=2, limit_s=0.0)
    assert (found["ended"], found["solved"], found["stopped"]) == (0, 0, True)


def test_a_model_is_not_played_where_rounds_or_window_are_too_short():
    found = measure_model(World("marft/recall_duo-v0"), "tiny", count=1, rounds=2, limit_s=9.0)
    assert "wanted at least 6" in found["not_played"]
    found = measure_model(replace(LOOKUP, window=70), "tiny", count=1, rounds=2, limit_s=9.0)
    assert "context_window = 70" in found["not_played"]


def test_a_world_without_its_package_names_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "plancraft", None)
    assert main(["--ids", "marft/plancraft_solo-v0"]) == 0
    assert "| plancraft_solo | MIT | 11 MB | not installed: `marft[plancraft]` |" in capsys.readouterr().out


def test_ids_choose_worlds_and_others_have_their_defaults():
    assert chosen(None) == list(WORLDS)
    assert [world.data for world in chosen("marft/tools_duo-v0")] == [
        "embedded:lookup",
        "embedded:shop",
        "embedded:desk",
        "embedded:travel",
    ]
    assert chosen("marft/math_octet-v0") == [World("marft/math_octet-v0")]


def test_the_page_shows_the_committed_record():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert [(row["id"], row["data"], row["extra"]) for row in record["worlds"]] == [
        (world.env, world.data, world.extra) for world in WORLDS
    ]
    assert all(row["oracle"]["success"] == 1 for row in record["worlds"])
    assert table(record) in (ROOT / "docs/worlds.md").read_text(encoding="utf-8")
