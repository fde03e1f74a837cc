"""The command that measures communication: its record, what is still to do, and its table; no library is needed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from baselines.third_party import communication
from baselines.third_party.run import Planned, Run
from baselines.third_party.training_script import TrainingResult
from baselines.third_party.virtual_environments import LIBRARIES, ROOT


def result(success, game="tools-v1", seed=0, library="ray", algorithm="ppo"):
    return TrainingResult(library, "2.60.0", algorithm, "CandidateAction", game, success, 1 / 3, 1.0, 8192, 20.48, seed)


def runs(heard, muted):
    return [result(one, seed=seed) for seed, one in enumerate(heard)] + [
        result(one, "tools_muted-v1", seed) for seed, one in enumerate(muted)
    ]


@pytest.mark.parametrize(
    ("heard", "muted", "cells"),
    [
        ([0.9, 0.95, 1.0], [0.3, 0.33, 0.36], "0.95 [0.83, 1.00] | 0.33 [0.26, 0.40] | 0.33 | 3 of 3 | yes"),
        ([0.3, 0.95, 1.0], [0.3, 0.33, 0.36], "0.75 [0.00, 1.00] | 0.33 [0.26, 0.40] | 0.33 | 2 of 3 | in some seeds"),
        ([0.5, 0.5, 0.5], [0.3, 0.33, 0.36], "0.50 [0.50, 0.50] | 0.33 [0.26, 0.40] | 0.33 | 0 of 3 | no"),
        ([0.9, 0.9, 0.9], [0.3, 0.95, 0.36], "0.90 [0.90, 0.90] | 0.54 [0.00, 1.00] | 0.33 | 0 of 3 | no"),
        ([1.0], [0.3], "1.00 [0.00, 1.00] | 0.30 [0.00, 1.00] | 0.33 | 1 of 1 | not shown"),
    ],
)
def test_a_library_learned_to_communicate_if_all_seeds_do_and_the_muted_control_does_not(heard, muted, cells):
    head, _, row = communication.table(runs(heard, muted), "v1").splitlines()
    assert row == f"| tools-v1 | ray 2.60.0 | ppo | {cells} | 8192 | 400 |"
    assert head.count("|") == row.count("|")


def test_a_row_needs_its_control():
    assert len(communication.table(runs([0.9], []), "v1").splitlines()) == 2


def test_the_mappo_stands_for_a_library_that_has_one():
    assert [communication.algorithm_of(library) for library in ("skrl", "tianshou", "sb3")] == ["mappo", "ppo", "ppo"]


def fake_plan(libraries, games):
    planned = [
        Planned(library, Path("python"), *run, game)
        for library in libraries
        for run in LIBRARIES[library].runs
        for game in games
    ]
    return planned, []


def test_what_is_recorded_is_not_run_again_and_each_run_is_a_line(tmp_path, monkeypatch, capsys):
    played = []

    def play(one, steps, seed, folder):
        played.append((one.library, one.game, seed))
        if (one.game, seed) == ("tools_muted-v1", 1):
            return Run(one.library, one.algorithm, one.game, None, "exit code 1")
        success = 0.33 if "muted" in one.game else 0.9
        return Run(one.library, one.algorithm, one.game, result(success, one.game, seed))

    monkeypatch.setattr(communication, "plan", fake_plan)
    monkeypatch.setattr(communication, "play", play)
    record = tmp_path / "record.jsonl"
    record.write_text(json.dumps(asdict(result(1.0))) + "\n", encoding="utf-8")
    arguments = ["--only", "rllib", "--worlds", "tools", "--seeds", "2", "--jobs", "1", "--out", str(record)]
    assert communication.main(arguments) == 1
    assert played == [("rllib", "tools_muted-v1", 0), ("rllib", "tools-v1", 1), ("rllib", "tools_muted-v1", 1)]
    said = capsys.readouterr()
    assert "rllib ppo tools_muted-v1: exit code 1" in said.err
    assert "| tools-v1 | ray 2.60.0 | ppo | 0.95 " in said.out
    assert [one.seed for one in communication.read_record(record)] == [0, 0, 1]
    played.clear()
    communication.main(arguments)  # a failed run is not in the record
    assert played == [("rllib", "tools_muted-v1", 1)]
    played.clear()
    assert communication.main([*arguments, "--table"]) == 0
    assert played == []


def test_a_line_that_is_no_outcome_is_refused(tmp_path):
    record = tmp_path / "record.jsonl"
    record.write_text('{"library": "ray"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"record\.jsonl:1: .*; remove the line, and its run is done again"):
        communication.read_record(record)
    assert communication.read_record(tmp_path / "none.jsonl") == []


def test_the_page_shows_the_table_of_the_record():
    page = (ROOT / "docs/libraries/README.md").read_text("utf-8")
    assert communication.table(communication.read_record(communication.RECORD), "v1") in page
