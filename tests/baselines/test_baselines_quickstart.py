"""The quickstart, with a tiny model in place of the pretrained one: it runs through and keeps what it promises."""

import json

import pytest

import envs_data
from baselines.curve import Points, draw_curve
from baselines.quickstart import experiment, main
from baselines.quickstart_table import main as results
from marft_agents.evaluation import Interval


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "quickstart"
    assert main(["--model", "tiny", "--updates", "2", "--limit", "4", "--out", str(out)]) == 0
    return out


def test_it_evaluates_the_same_held_out_problems_before_and_after(finished):
    records = [
        json.loads((finished / f"{when}-{how}" / "evaluation.json").read_text())
        for when in ("before", "after")
        for how in ("greedy", "sampled")
    ]
    assert all(len(record["scores"]) == 4 for record in records)
    assert [record["checkpoint"] is None for record in records] == [True, True, False, False]
    prompts = [
        [json.loads(line)["infos"]["task_index"] for line in path.read_text().splitlines()]
        for path in sorted(finished.glob("*-*/episodes.jsonl"))
    ]
    assert prompts == [[0, 1, 2, 3]] * 4


def test_it_reports_intervals_and_draws_the_curve(finished):
    summary = json.loads((finished / "quickstart.json").read_text())
    for how in ("greedy", "sampled"):
        for entry in ("before", "after"):
            mean, low, high = summary[how][entry]
            assert low <= mean <= high
        assert len(summary[how]["paired_gain"]) == 3
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_it_trains_on_the_training_split_for_right_answers_only():
    plan = experiment(seed=3)
    assert plan.keywords["split"] == "train"
    assert "reward" not in plan.keywords  # the default: 1 for success, else 0
    assert plan.schedule.seed == 3
    test = {row["question"] for row in envs_data.rows("stories", "test")}
    assert not test & {row["question"] for row in envs_data.rows("stories", "train")}
    shown = json.dumps(plan.keywords["team"])
    assert not any(question in shown for question in test)


def test_a_curve_needs_no_evaluation_and_leaves_no_part_file(tmp_path):
    history = [{"team/success": 0.1}, {"team/success": 0.4}]
    point = Interval(0.2, 0.1, 0.3)
    for held_out in (None, {"a": Points(point, point)}):
        path = draw_curve({"a": history}, tmp_path / "curve.png", held_out=held_out)
        assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["curve.png"]


def test_the_results_table_shows_the_worst_run_first(finished, tmp_path, capsys):
    summary = json.loads((finished / "quickstart.json").read_text())
    better = tmp_path / "better"
    better.mkdir()
    gain = {how: {**summary[how], "paired_gain": [0.5, 0.4, 0.6]} for how in ("greedy", "sampled")}
    (better / "quickstart.json").write_text(json.dumps({**summary, **gain, "seed": 1}))
    (better / "metrics.jsonl").write_bytes((finished / "metrics.jsonl").read_bytes())
    assert results([str(better), str(finished), "--png", str(tmp_path / "all.png")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["seed 0" in line for line in lines[2:]] == [True, False, True, False]
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")


def test_the_results_table_refuses_an_unfinished_run(tmp_path, capsys):
    assert results([str(tmp_path)]) == 1
    assert "quickstart.json is missing" in capsys.readouterr().err
