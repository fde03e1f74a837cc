"""The GPU benchmark: it runs from end to end on a CPU, counts right, continues, and refuses what would say nothing."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import precision_agreement as agreement
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.benchmark_models import SHAPES, shaped_tokenizer
from benchmarks.gpu.peak_throughput import PeakThroughput
from benchmarks.gpu.record import Row, load_record, measure_rows
from benchmarks.gpu.training import Meter, Plan, Work, measure_training, shaped_team, shares
from benchmarks.gpu.updates import distinct_tokens, share_beginnings
from benchmarks.training.workload import END_TOKEN, RecordedTurn
from marft_agents.models.chat_template import encode

CPU = torch.device("cpu")
ONE = PeakThroughput("CPU", matmul_tflops=1e-12, copy_gb_s=1e-9, memory_gib=None)  # 1 FLOP/s, 1 byte/s
CONTENDERS = pytest.mark.filterwarnings("ignore::FutureWarning")  # TRL and PEFT read deprecated attributes
QUICK_ROWS = ["decode/own, 2", "update/own, answers", "agreement"]


@pytest.mark.parametrize("rows", [QUICK_ROWS, pytest.param([], marks=[pytest.mark.long, CONTENDERS])])
def test_rows_run_on_a_cpu_and_write_nothing(capsys, tmp_path, monkeypatch, rows):
    monkeypatch.chdir(tmp_path)
    chosen = ["--only", *rows] if rows else ["--full"]
    assert main(["--device", "cpu", *chosen, "--out", str(tmp_path / "docs")]) == 0
    printed = capsys.readouterr().out
    page = printed[printed.index("# Teams on a GPU") :]
    assert re.search(r"\| own, 2 adapters \| 4 \| \d+ \| 4 \| [\d,.]+ \|", page)
    assert re.search(r"\| own, answers share beginnings \| 4 \| \d+ \| [\d,.]+ \|", page)
    assert re.search(r"\| cpu \| bfloat16 \| \d+ \|.*\| yes \|", page)
    if not rows:
        assert re.findall(r"\| tiny, (\w+)", page) == ["duo", "trio", "1", "2"]
        assert re.search(r"\| generate_batch \| 4 \| - \| 4 \|", page)
        assert re.search(r"\| before \| after \| paired gain \|\n\|---\|---\|---\|\n\| 0\.000 \[", page)
        assert "Not measured" not in page
    assert list(Path(tmp_path).iterdir()) == []


def test_without_cuda_it_says_so(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 1
    assert "no CUDA device was found" in capsys.readouterr().err
    assert main(["--device", "cpu", "--only", "nothing"]) == 1
    assert "no row begins so" in capsys.readouterr().err


def test_a_record_is_continued_and_a_row_ends_at_its_limit(tmp_path):
    path, calls = tmp_path / "gpu.json", []

    def figures(name):
        calls.append(name)
        return {"tokens_per_s": 1.0}

    def endless():
        while True:
            time.sleep(0.01)

    rows = [
        Row("a", lambda: figures("a")),
        Row("b", endless, limit_s=0.05),
        Row("c", lambda: 1 / 0),
        Row("d", lambda: figures("d")),
    ]
    facts = {"commit": "1", "device": "card"}
    measure_rows(rows[:3], load_record(path, facts), path, budget_s=60)
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["rows"]["a"]["tokens_per_s"] == 1.0
    assert record["rows"]["b"]["error"] == "RowTimeoutError: longer than 0.05 s"
    assert record["rows"]["c"]["error"] == "ZeroDivisionError: division by zero"
    measure_rows([rows[0], rows[3]], load_record(path, facts), path, budget_s=60)
    assert calls == ["a", "d"]  # a is kept
    assert list(json.loads(path.read_text(encoding="utf-8"))["rows"]) == ["a", "b", "c", "d"]
    assert load_record(path, {"commit": "2", "device": "card"})["rows"] == {}


def test_no_row_starts_beyond_the_budget(capsys):
    record = {"rows": {}}
    measure_rows([Row("late", lambda: {})], record, None, budget_s=0)
    assert record == {"rows": {}}
    assert "late: not measured" in capsys.readouterr().err


def test_distinct_tokens_are_the_distinct_prefixes():
    sequences = [(1, 2, 3), (1, 2, 4), (1, 2), (5,), (5,)]
    brute = {sequence[: n + 1] for sequence in sequences for n in range(len(sequence))}
    assert distinct_tokens(sequences) == len(brute) == 5


def test_answers_share_beginnings_and_keep_their_lengths():
    answers = [(*range(10 * i + 1, 10 * i + 9), END_TOKEN) for i in range(4)]
    turns = [RecordedTurn(i, "actor_0", (), (7,), answer) for i, answer in enumerate(answers)]
    found = [turn.token_ids for turn in share_beginnings(turns, 4)]
    assert [len(answer) for answer in found] == [9] * 4
    assert all(answer[-1] == END_TOKEN and END_TOKEN not in answer[:-1] for answer in found)
    assert distinct_tokens(found) < distinct_tokens(answers)


@pytest.mark.parametrize(
    ("name", "total", "blocks"), [("qwen2.5-0.5b", 0.494e9, 0.358e9), ("qwen2.5-3b", 3.086e9, 2.77e9)]
)
def test_shapes_have_the_published_number_of_parameters(name, total, blocks):
    with torch.device("meta"):
        model = SHAPES[name].model(shaped_tokenizer(300), torch.bfloat16)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(total, rel=2e-3)
    assert sum(p.numel() for p in model.model.layers.parameters()) == pytest.approx(blocks, rel=2e-3)


def test_the_tokenizer_of_a_shape_has_its_vocabulary():
    tokenizer = shaped_tokenizer(1000)
    assert len(tokenizer) == 1000
    prompt = encode(tokenizer, "2 + 2 = é").ids
    assert "2 + 2 = é" in tokenizer.decode(prompt)
    assert all(isinstance(tokenizer.decode([i]), str) for i in range(1000))
    assert len({tokenizer.decode([i]) for i in range(256, 1000)}) == 744


def test_the_meter_counts_what_is_computed():
    team = shaped_team(SHAPES["tiny"], ["actor_0"], CPU, max_new_tokens=4)
    base = team.bases[0]
    meter = Meter(team)
    with torch.no_grad():
        base.trunk(input_ids=torch.zeros(2, 7, dtype=torch.long))
    base.trunk(input_ids=torch.zeros(3, 5, dtype=torch.long))
    assert (meter.playing, meter.learning) == (Work(), Work(2, 14, 15))
    blocks = sum(p.numel() for p in SHAPES["tiny"].build(CPU).model.model.layers.parameters())
    head = 1000 * 32
    meter.playing = Work(passes=3, positions=20, action_tokens=5)
    assert shares(meter, base, play_s=2.0, learn_s=4.0, limits=ONE) == pytest.approx(
        {
            "rollout_share_of_matmul": (2 * blocks * 20 + 2 * head * 5) / 2,
            "rollout_share_of_copy": 3 * 4 * (blocks + head) / 2,
            "update_share_of_matmul": (2 * blocks * 14 + 4 * blocks * 15 + 4 * head * 5) / 4,
        }
    )
    meter.reset()
    with pytest.raises(RuntimeError, match="needs a new place"):
        shares(meter, base, 1.0, 1.0, ONE)


def test_too_little_memory_is_a_row_of_the_table(monkeypatch):
    def build(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    monkeypatch.setattr(type(SHAPES["tiny"]), "build", build)
    row = measure_training(SHAPES["tiny"], "duo", Plan(1, 1, 2, 4), ONE, CPU)
    assert row == {
        "model": "tiny",
        "team": "duo",
        "sampler": "own",
        "error": "CUDA out of memory",
    }


def test_a_missing_sampler_is_a_row_of_the_table():
    row = measure_training(SHAPES["tiny"], "duo", Plan(1, 1, 2, 4), ONE, CPU, "vllm")
    assert (row["sampler"], "vllm" in row["error"]) == ("vllm", True)


def test_bfloat16_agrees_with_float32():
    [row] = agreement.measure_agreement(SHAPES["tiny"], CPU, groups=1, max_new_tokens=4)
    assert row["agrees"]
    assert row["tokens"] > 4
    assert 0 < row["logprob_mean"] <= row["logprob_max"] < 0.05
    assert 0 < row["gradient"] < 0.1


@pytest.mark.parametrize(
    ("logprobs", "gradient", "agrees"),
    [
        ([-1.0, -2.04], [3.0, 4.4], True),
        ([-1.0, -2.2], [3.0, 4.4], False),
        ([-1.0, -2.04], [3.0, 5.5], False),
        ([-1.0, float("nan")], [3.0, 4.4], False),
    ],
)
def test_what_is_beyond_a_tolerance_does_not_agree(logprobs, gradient, agrees):
    found = (torch.tensor(logprobs), torch.tensor(gradient))
    wanted = (torch.tensor([-1.0, -2.0]), torch.tensor([3.0, 4.0]))
    row = agreement.compare(found, wanted, CPU, torch.bfloat16)
    assert row["agrees"] is agrees
    if agrees:
        numbers = [row[name] for name in ("logprob_mean", "logprob_max", "gradient", "gradient_cosine")]
        assert numbers == pytest.approx([0.02, 0.04, 0.08, 26.6 / 5 / 28.36**0.5])
