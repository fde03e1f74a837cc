"""Simulation of many rollout workers: the scheduler's own throughput, in simulated time."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks import scaling
from benchmarks.scaling import Times, main, plan, simulate
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.pretrained import load

TIMES = Times(play_s=[1.0], learn_s=0.1, adapter_bytes=10, group_bytes=10.0, about={})


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {"GROUPS": 8, "UPDATES": 2, "WARMUP": 1}.items():
        monkeypatch.setattr(scaling, name, value)


def test_without_staleness_playing_and_learning_take_turns():
    point = simulate(TIMES, workers=2, max_staleness=0, ranks=1)
    assert point.groups_per_s == pytest.approx(8 / (4 * 1.0 + 8 * 0.1))
    assert point.learner_busy == pytest.approx(0.8 / 4.8)
    assert (point.staleness, point.dropped) == (0, 0)


def test_staleness_overlaps_them_up_to_the_speed_of_the_learner():
    ahead = simulate(TIMES, workers=8, max_staleness=1, ranks=1)
    assert 0 < ahead.staleness <= 1
    assert ahead.groups_per_s == pytest.approx(8)  # of 8 workers; the learner could do 10
    faster = simulate(TIMES, workers=16, max_staleness=2, ranks=1)  # a group takes longer than an update
    assert faster.groups_per_s == pytest.approx(10)
    assert faster.learner_busy == pytest.approx(1)


def test_times_are_measured_and_simulated_from_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scaling, "WORKERS", (1, 8, 64, 256))
    monkeypatch.setattr(scaling, "STALENESS", (0, 1))
    monkeypatch.setattr(scaling, "RANKS", (1, 8))
    times, out, plot = tmp_path / "times.json", tmp_path / "out.json", tmp_path / "plot.png"
    assert main(["measure", "--model", "tiny", "--groups", "1", "--updates", "1", "--out", str(times)]) == 0
    assert json.loads(times.read_text())["adapter_bytes"] > 0
    assert main(["simulate", str(times), "--out", str(out), "--plot", str(plot)]) == 0
    assert len(json.loads(out.read_text())["points"]) == 16
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "| 8 | 1 |" in capsys.readouterr().out
    assert main(["plan", str(out), "--workers", "10"]) == 0
    assert "| prompt groups of an update | G >= W / (1 + S), here twice that | 10 |" in capsys.readouterr().out


def test_a_plan_by_hand():
    told = plan(TIMES, workers=1000, nodes=125, agents=2, max_staleness=1)  # 1 s to play a group, 0.1 s to learn it
    assert "here twice that | 1,000 |" in told
    assert "| time of an update | G t_play / W | 1 s |" in told
    assert "| learners that keep up | W t_learn / t_play | 100 |" in told
    assert "| workers that one learner keeps busy | t_play / t_learn | 10 |" in told
    assert "| records to rank 0, per second | W b_group / t_play | 10 kB |" in told
    assert "| SmolLM2-135M | 8 | 1.84 MB | 3.69 MB | 461 MB |" in told


def test_the_size_of_an_adapter_is_that_of_its_tensors(monkeypatch):
    targets = LoraSettings(rank=4, targets=("q_proj", "v_proj"))
    base = AdaptedBase(load("tiny", device=torch.device("cpu")), ["a"], targets, seed=0)
    config = base.trunk.config
    narrow = config.num_key_value_heads * config.hidden_size // config.num_attention_heads
    monkeypatch.setitem(scaling.MODELS, "tiny", (config.num_hidden_layers, config.hidden_size, narrow))
    assert scaling.lora_bytes("tiny", 4) == sum(4 * tensor.numel() for tensor in base.parameters("a").values())
