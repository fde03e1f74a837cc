"""The quickstart, with a tiny model in place of the pretrained one: it runs through and keeps what it promises."""

import json
import re
import shutil
import urllib.request

import numpy as np
import pytest
import torch

import envs_data
from baselines import quickstart
from baselines.cli.main import main as command
from baselines.experiment.learning_curve import Points, draw_curve
from baselines.experiment.progress import Updated
from baselines.quickstart import experiment, main
from baselines.quickstart_table import main as results
from baselines.quickstart_table import read_kinds
from marft_agents.runs.evaluation import Interval, wilson


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "quickstart"
    assert main(["--model", "tiny", "--updates", "2", "--limit", "4", "--out", str(out)]) == 0
    return out


def test_it_evaluates_the_same_held_out_problems_before_and_after(finished):
    records = [json.loads((finished / when / "evaluation.json").read_text()) for when in ("before", "after")]
    assert all(len(record["scores"]) == 4 for record in records)
    assert [record["checkpoint"] is None for record in records] == [True, False]
    assert {record["law"]["temperature"] for record in records} == {0.0}
    prompts = [
        [
            json.loads(line)["infos"]["task_index"]
            for line in (finished / when / "episodes.jsonl").read_text().splitlines()
        ]
        for when in ("before", "after")
    ]
    assert prompts == [[0, 50, 100, 150]] * 2  # spread over the 200


def test_before_and_after_can_be_compared(finished, capsys):
    assert command(["compare", str(finished / "before"), str(finished / "after")]) == 0
    assert "level=" in capsys.readouterr().out


def test_it_reports_intervals_and_draws_the_curve(finished):
    summary = json.loads((finished / "quickstart.json").read_text())
    for entry in ("before", "after"):
        mean, low, high = summary[entry]
        assert low <= mean <= high
    assert len(summary["paired_gain"]) == 3
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert b"<html" in (finished / "report.html").read_bytes()[:200]


def _asked(url, name=""):
    with urllib.request.urlopen(url + name) as answer:
        return answer.geturl(), answer.read().decode()


SMALL = ["--model", "tiny", "--updates", "2", "--limit", "2", "--out"]


class Stop(quickstart.TrainingDisplay):
    """Display that is interrupted after the first update, as by Ctrl-C."""

    def __call__(self, event):
        super().__call__(event)
        if isinstance(event, Updated):
            raise KeyboardInterrupt


@pytest.mark.long
def test_the_served_page_follows_the_quickstart(tmp_path, monkeypatch, capsys):
    class Look(quickstart.TrainingDisplay):
        def __call__(self, event):
            super().__call__(event)
            url.extend(re.findall(r"http://127\.0\.0\.1:\d+/", capsys.readouterr().out))
            address, page = _asked(url[0])
            assert address == f"{url[0]}run/"
            assert "<html" in page
            report = json.loads(_asked(address, "report.json")[1])
            seen.append([one["label"] for one in report["sets"]])

    url, seen = [], []
    monkeypatch.setattr(quickstart, "TrainingDisplay", Look)
    assert main([*SMALL, str(tmp_path / "run")]) == 0
    assert seen[0] == ["before"]  # the training begins
    assert seen[1:] == [["training", "before"]] * (len(seen) - 1)
    assert len(seen) > 3


def test_a_stopped_quickstart_goes_on_with_the_same_command(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(quickstart, "TrainingDisplay", Stop)
        assert main([*SMALL, str(out)]) == 130
    told = capsys.readouterr().err
    assert f"stopped; go on with: make quickstart ARGS='{' '.join([*SMALL, str(out)])}'" in told
    first = (out / "before" / "evaluation.json").stat().st_mtime_ns
    assert main([*SMALL, str(out)]) == 0
    assert (out / "before" / "evaluation.json").stat().st_mtime_ns == first
    shown = capsys.readouterr()
    assert "the evaluation before training is done already" in shown.out
    assert "update 2/2" in shown.err
    assert "update 1/2" not in shown.err
    assert [json.loads(line)["update"] for line in (out / "metrics.jsonl").read_text().splitlines()] == [0, 1]
    assert main([*SMALL, str(out)]) == 1
    assert "already holds a finished quickstart" in capsys.readouterr().err


@pytest.mark.long
def test_a_quickstart_with_other_settings_does_not_go_on(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    monkeypatch.setattr(quickstart, "TrainingDisplay", Stop)
    assert main([*SMALL, str(out)]) == 130
    assert main([*SMALL, str(out), "--seed", "4"]) == 1
    assert "holds a run with other settings" in capsys.readouterr().err
    main([*SMALL, str(out), "--limit", "3"])  # other problems: they are evaluated first
    assert len(json.loads((out / "before" / "evaluation.json").read_text())["scores"]) == 3


def test_it_trains_on_the_training_split_for_right_answers_only():
    plan = experiment(seed=3)
    assert plan.keywords["split"] == "train"
    assert "reward" not in plan.keywords  # the default: 1 for success, else 0
    assert plan.schedule.seed == 3
    test = {row["question"] for row in envs_data.rows("stories", "test")}
    assert not test & {row["question"] for row in envs_data.rows("stories", "train")}
    shown = json.dumps(plan.keywords["team"])
    assert not any(question in shown for question in test)


def test_the_frozen_model_has_the_chosen_dtype():
    assert experiment(0, model="tiny", dtype="bfloat16").build()[1].bases[0].dtype == torch.bfloat16


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
    shutil.copytree(finished, better)
    (better / "quickstart.json").write_text(json.dumps({**summary, "paired_gain": [0.5, 0.4, 0.6], "seed": 1}))
    assert results([str(better), str(finished), "--png", str(tmp_path / "all.png")]) == 0
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert ["seed 0" in line for line in lines[2:]] == [True, False, False]
    mean = float(np.mean(json.loads((finished / "after" / "evaluation.json").read_text())["scores"]))  # twice the same
    assert lines[-1].split("|")[1].strip() == "mean of 2 seeds"
    assert float(lines[-1].split("|")[3].split()[0]) == pytest.approx(mean, abs=5e-4)
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")


def test_the_results_are_told_by_kind_of_problem(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    kinds = [row["subject"] for row in envs_data.rows("stories", "test")]
    places = [kinds.index("addition"), *[i for i, kind in enumerate(kinds) if kind == "subtraction"][:4], 0]
    ended = [(place, success) for place, success in zip(places, (1, 1, 1, 1, 0, 0), strict=True)]
    episodes = [{"failure": None, "infos": {"task_index": place, "success": success}} for place, success in ended]
    episodes[-1] |= {"failure": "a server went away", "infos": {}}
    (run / "after" / "episodes.jsonl").write_text("\n".join(map(json.dumps, episodes)))
    assert results([str(run)]) == 0
    table = capsys.readouterr().out.partition("\n\n")[2].splitlines()
    assert table[0] == "| kind of problem | seed | before | after |"
    cells = {tuple(cell.strip() for cell in line.split("|")[1:3]): line.split("|")[4].strip() for line in table[2:]}
    assert cells["addition", "0"] == str(wilson(1.0, 1))
    assert cells["subtraction", "0"] == str(wilson(0.75, 4))
    assert len(cells) == 2
    shutil.rmtree(run / "before")
    assert results([str(run)]) == 1
    assert "holds no episodes of before" in capsys.readouterr().err


def test_the_results_by_kind_are_those_of_the_evaluations(finished):
    """The same episodes counted by kind and all together."""
    for evaluation in ("before", "after"):
        summary = json.loads((finished / evaluation / "evaluation.json").read_text())
        subjects = [row["subject"] for row in envs_data.rows("stories", "test")[: len(summary["scores"])]]
        by_kind = read_kinds(finished, evaluation)
        assert set(by_kind) == set(subjects)
        total = sum(by_kind[kind].mean * subjects.count(kind) for kind in by_kind)
        assert total / len(subjects) == pytest.approx(summary["accuracy"])


def test_the_results_table_refuses_an_unfinished_run(tmp_path, capsys):
    assert results([str(tmp_path)]) == 1
    assert "quickstart.json is missing" in capsys.readouterr().err
