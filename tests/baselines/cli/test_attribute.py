"""`marft attribute` as a user meets it: cost, results, resume, and refusals before a model is loaded."""

import json
import shutil

import pytest

from baselines.cli.main import main
from baselines.experiment.trained_team import TeamSettings
from marft_agents.runs import checkpoint

DUO = "marft/gsm8k_duo-v0"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    flags = ["--groups", "1", "--group-size", "2", "--max-new-tokens", "2", "--updates", "1", "--device", "cpu"]
    assert (
        main(["train", "--env", DUO, "--data", "embedded:stories", "--model", "tiny", *flags, "--out", str(out)]) == 0
    )
    return out


@pytest.fixture
def unloaded(monkeypatch):
    """No model may be loaded."""

    def load(*_):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(TeamSettings, "load", load)


def attribute(*arguments):
    return main(["attribute", *map(str, arguments), "--device", "cpu"])


def error_of(capsys, *arguments):
    assert attribute(*arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("marft: error: ")
    assert error.count("\n") == 1
    return error


def edited(run, folder, **changes):
    """Return a copy of a run with other entries in its config.json."""
    copy = folder / "copy"
    shutil.copytree(run, copy)
    path = copy / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return copy


def test_a_dry_run_prints_the_cost_and_loads_and_writes_nothing(capsys, tmp_path, trained, unloaded):
    assert attribute(trained, "--out", tmp_path / "out", "--limit", 5, "--seeds", "0,1", "--dry-run") == 0
    told = capsys.readouterr().out
    assert told.startswith("cost: 4 coalitions and 1 edges, 50 episodes; without replayed turns 40 to generate; about ")
    assert "per episode in training)" in told
    assert list(tmp_path.iterdir()) == []
    assert attribute(trained, "--limit", 5, "--dry-run", "--method", "loo", "--no-influence") == 0
    assert capsys.readouterr().out.startswith("cost: 3 coalitions and 0 edges, 15 episodes")


def test_it_plays_the_scenarios_of_a_list_and_writes_them(capsys, tmp_path, trained):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert attribute(trained, "--limit", 2, "--dry-run", "--save-scenarios", first) == 0
    assert not first.exists()
    flags = ["--method", "loo", "--no-influence"]
    assert attribute(trained, "--out", tmp_path / "a", "--limit", 2, *flags, "--save-scenarios", first) == 0
    assert attribute(trained, "--out", tmp_path / "b", "--scenarios", first, *flags, "--save-scenarios", second) == 0
    assert first.read_bytes() == second.read_bytes()
    plans = [json.loads((tmp_path / name / "plan.json").read_text()) for name in "ab"]
    assert len(plans[1]["scenarios"]) == 2
    assert plans[0]["scenarios_sha256"] == plans[1]["scenarios_sha256"]
    assert json.loads(first.read_text())["checksum"] == f"sha256:{plans[0]['scenarios_sha256']}"
    capsys.readouterr()
    assert "leave out --limit" in error_of(capsys, trained, "--scenarios", first, "--limit", 2, "--dry-run")


def test_without_metrics_the_cost_is_measured(capsys, tmp_path, trained):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    (copy / "metrics.jsonl").unlink()
    assert attribute(copy, "--limit", 5, "--dry-run") == 0
    assert "per episode in 4 episodes now)" in capsys.readouterr().out


def test_results_and_resume(capsys, tmp_path, trained, monkeypatch):
    out = tmp_path / "out"
    assert attribute(trained, "--out", out, "--limit", 3) == 0
    table = capsys.readouterr().out
    assert all(words in table for words in ("Shapley value", "whole team - none", "reasoner_0 -> actor_0"))
    found = json.loads((out / "attribution.json").read_text())
    assert found["schema"] == "marft.attribution/1"
    assert (found["env"], found["keywords"]["split"], found["replace"]) == (DUO, "test", "untrained")
    assert len(found["adapters_sha256"]) == 64
    assert found["versions"]["marft"]
    assert [len(one["players"]) for one in found["coalitions"]] == [2, 1, 1, 0]
    per_scenario = [one["per_scenario"] for one in found["agents"].values()]
    whole, *_, nobody = (one["scores"] for one in found["coalitions"])
    assert len(whole) == len(found["scenarios"]) == 3
    for place, parts in enumerate(zip(*per_scenario, strict=True)):
        assert sum(parts) == pytest.approx(whole[place][0] - nobody[place][0])
    assert found["influence"][0]["scenarios"] <= 3

    def load(*_):
        raise AssertionError("nothing is left to play")

    monkeypatch.setattr(TeamSettings, "load", load)
    (out / "attribution.json").unlink()
    assert attribute(trained, "--out", out, "--limit", 3) == 0
    again = json.loads((out / "attribution.json").read_text())
    assert again["agents"] == found["agents"]
    assert "holds another attribution: its scenarios" in error_of(capsys, trained, "--out", out, "--limit", 2)
    assert "its replace" in error_of(capsys, trained, "--out", out, "--limit", 3, "--replace", "silence")


def test_a_file_as_out(tmp_path, trained):
    flags = ["--limit", 1, "--replace", "silence", "--agents", "actor_0", "--no-influence"]
    assert attribute(trained, "--out", tmp_path / "duo.json", *flags) == 0
    found = json.loads((tmp_path / "duo.json").read_text())
    assert list(found["agents"]) == ["actor_0"]
    assert [one["players"] for one in found["coalitions"]] == [["actor_0"], []]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["duo", "duo.json"]


# ------------------------------------------------------------------ refusals

REFUSED = {
    "no such agent": (["--agents", "reasoner_0,nobody_0"], "no agent 'nobody_0'; the team has reasoner_0, actor_0"),
    "no agent": (["--agents", ","], "the team has reasoner_0, actor_0"),
    "no scenario": (["--limit", "0"], "--limit 0: wanted at least 1"),
    "another team": (["--team", "trio"], "is of another team: found agents reasoner_0, actor_0"),
    "no such split": (["--split", "nowhere"], "nowhere"),
    "no room": (["--max-new-tokens", "100000"], "max_new_tokens"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_a_model_is_loaded(capsys, tmp_path, trained, unloaded, case):
    flags, words = REFUSED[case]
    assert words in error_of(capsys, trained, "--out", tmp_path / "out", *flags)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_replacement_is_bad_usage(capsys, trained):
    with pytest.raises(SystemExit) as stopped:
        attribute(trained, "--replace", "nothing", "--dry-run")
    assert stopped.value.code == 2
    assert "untrained" in capsys.readouterr().err


def test_out_is_needed(capsys, trained):
    assert "needs --out PATH (or --dry-run)" in error_of(capsys, trained)


def test_a_run_is_no_folder_for_results(capsys, trained, unloaded, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    with (copy / "metrics.jsonl").open("a") as stream:
        stream.write('{"update": 1}\n')
    assert "already holds a run" in error_of(capsys, trained, "--out", copy)


def test_no_checkpoint(capsys, tmp_path, unloaded):
    assert "no complete checkpoint" in error_of(capsys, tmp_path, "--dry-run")


def test_solo_environment(capsys, tmp_path, trained, unloaded):
    copy = edited(trained, tmp_path, env="marft/gsm8k_solo-v0")
    assert "one agent (actor_0)" in error_of(capsys, copy, "--dry-run")


def test_exact_values_of_large_teams(capsys, tmp_path, trained, unloaded):
    copy = edited(trained, tmp_path, env="marft/gsm8k_octet-v0")
    error = error_of(capsys, copy, "--dry-run", "--method", "shapley")
    assert "8 agents need 256 coalitions, wanted at most 4 agents" in error


def test_tool_surface(capsys, tmp_path, trained, unloaded):
    copy = edited(trained, tmp_path)
    newest = checkpoint.resolve(copy)
    checkpoint.write_state(newest, checkpoint.read_state(newest) | {"notes": {"tool_surface": "0" * 64}})
    assert "tool" in error_of(capsys, copy, "--dry-run")


def test_no_oracle(capsys, tmp_path, trained, unloaded):
    copy = edited(trained, tmp_path, env="marft/tools_duo-v0", keywords={})
    error = error_of(capsys, copy, "--dry-run", "--replace", "oracle", "--other-tools")
    assert "no scripted oracle" in error
