"""Simulation of many rollout workers: the scheduler's own throughput, on workers that sleep."""

from __future__ import annotations

import json

import pytest

from baselines.benchmarks import scaling
from baselines.benchmarks.scaling import Times, main, simulate

TIMES = Times(play_s=[1.0], learn_s=0.1, adapter_bytes=10, group_bytes=10.0, about={})


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {"GROUPS": 8, "UPDATES": 2, "WARMUP": 1, "UPDATE_S": 0.1}.items():
        monkeypatch.setattr(scaling, name, value)


def test_without_staleness_playing_and_learning_take_turns():
    point = simulate(TIMES, workers=2, max_staleness=0, ranks=1)
    assert point.groups_per_s <= 8 / (4 * 1.0 + 8 * 0.1) * 1.01  # a busy machine is slower, none is faster
    assert (point.staleness, point.dropped) == (0, 0)


def test_staleness_overlaps_them_up_to_the_speed_of_the_learner():
    ahead = simulate(TIMES, workers=8, max_staleness=1, ranks=1)
    assert 0 < ahead.staleness <= 1
    assert ahead.groups_per_s <= 10.1
    assert ahead.learner_busy <= 1.01


def test_times_are_measured_and_simulated_from_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scaling, "WORKERS", (1, 8, 64, 256))
    monkeypatch.setattr(scaling, "STALENESS", (0, 1))
    monkeypatch.setattr(scaling, "RANKS", (1, 8))
    monkeypatch.setattr(scaling, "UPDATE_S", 0.01)
    times, out, plot = tmp_path / "times.json", tmp_path / "out.json", tmp_path / "plot.png"
    assert main(["measure", "--model", "tiny", "--groups", "1", "--updates", "1", "--out", str(times)]) == 0
    assert json.loads(times.read_text())["adapter_bytes"] > 0
    assert main(["simulate", str(times), "--out", str(out), "--plot", str(plot)]) == 0
    assert len(json.loads(out.read_text())["points"]) == 16
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "| x 8 | 1 |" in capsys.readouterr().out
