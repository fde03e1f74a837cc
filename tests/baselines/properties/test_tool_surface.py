"""A checkpoint remembers which tools its team had; evaluation with others is refused unless told."""

from __future__ import annotations

import json

import pytest

import marft_envs
from baselines.cli.main import main
from marft_envs import Episode, Team, replay

ENV = ["--env", "marft/tools_duo-v0", "--data", "embedded:lookup", "--horizon", "2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("tools") / "run"
    small = ["--model", "tiny", "--updates", "1", "--groups", "1", "--group-size", "2"]
    assert main(["train", *ENV, *small, "--max-new-tokens", "8", "--out", str(out)]) == 0
    return out


@pytest.fixture
def other_team(tmp_path):
    plain = Team.preset("duo", family="tools").to_dict()
    plain["profiles"][0]["tools"].remove("get_hotel")
    path = tmp_path / "team.json"
    path.write_text(json.dumps(plain))
    return str(path)


def evaluate(trained, out, *more):
    arguments = ["--checkpoint", str(trained), "--split", "train", "--limit", "1", "--max-new-tokens", "8"]
    return main(["eval", *ENV, *arguments, "--out", str(out), *more])


def test_run_and_checkpoint_hold_the_hash(trained):
    versions = json.loads((trained / "versions.json").read_text())
    state = json.loads((trained / "checkpoints" / "update-00001" / "state.json").read_text())
    assert state["notes"] == {name: versions[name] for name in ("tool_surface", "tasks")}
    assert len(versions["tool_surface"]) == 64


def test_the_same_tools_are_evaluated_and_the_record_replays(trained, tmp_path):
    assert evaluate(trained, tmp_path) == 0
    (line,) = (tmp_path / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    written = json.loads(line)
    record = Episode.from_dict(written["game"])
    assert [turn.tokens for turn in record.turns] == [turn["tokens"] for turn in written["turns"]]
    env = marft_envs.make("marft/tools_duo-v0", data="embedded:lookup", horizon=2, split="train")
    assert replay(env, record) == []


def test_a_training_record_says_who_saw_whom_and_what_the_tools_did(trained):
    (first, _) = (trained / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    game = json.loads(first)["game"]
    assert set(game) == {"task_id", "outcomes", "terms", "turns"}
    assert set(game["turns"][0]) == {"agent", "round", "visible", "fault"}
    assert len(game["outcomes"]) == 2


def test_violations_are_reported_beside_success(tmp_path, capsys):
    safety = ["--env", "marft/tools_solo-v0", "--split", "safety", "--limit", "2", "--horizon", "1"]
    assert main(["eval", *safety, "--model", "tiny", "--max-new-tokens", "4", "--out", str(tmp_path)]) == 0
    assert "violations" in capsys.readouterr().out
    found = json.loads((tmp_path / "evaluation.json").read_text())
    assert (found["accuracy"], found["violations"]) == (0.0, 0.0)


def test_other_tools_are_refused_unless_told(trained, tmp_path, other_team, capsys):
    assert evaluate(trained, tmp_path, "--team", other_team) == 1
    assert "tool surface" in capsys.readouterr().err
    assert evaluate(trained, tmp_path, "--team", other_team, "--other-tools") == 0
