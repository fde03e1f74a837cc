"""Frozen and remote agents from the command line: training, resume, evaluation, config files and bench plans."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch  # noqa: F401 - else the first command says that it loads it

from baselines.bench.plan_errors import PlanError
from baselines.bench.plan_file import plan_of
from baselines.cli.evaluate import chosen_models
from baselines.cli.main import main
from baselines.experiment.experiment import Experiment, read_models
from marft_agents.runs.run_folder import read_metrics
from tests.helpers.endpoint import serving

ENV = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories", "--device", "cpu"]
SMALL = ["--groups", "1", "--group-size", "2", "--max-new-tokens", "4"]
NOBODY = "endpoint:http://127.0.0.1:9/v1#name"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@pytest.fixture
def endpoint():
    with serving() as server:
        server.usage = USAGE
        yield server


def train(out, *flags, updates=2):
    return main(["train", *ENV, *SMALL, "--model", "tiny", *flags, "--updates", str(updates), "--out", str(out)])


def test_a_run_beside_a_frozen_agent_resumes_exactly(tmp_path):
    frozen = ["--model", "reasoner_0=frozen:tiny"]
    assert train(tmp_path / "short", *frozen, updates=1) == 0
    assert main(["train", "--resume", str(tmp_path / "short"), "--updates", "2"]) == 0
    assert train(tmp_path / "whole", *frozen) == 0
    name = "checkpoints/update-00002/actor_0/adapter_model.safetensors"
    assert (tmp_path / "short" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert (tmp_path / "short" / "episodes.jsonl").read_bytes() == (tmp_path / "whole" / "episodes.jsonl").read_bytes()
    assert not (tmp_path / "whole" / "checkpoints" / "update-00002" / "reasoner_0").exists()
    assert Experiment.load(tmp_path / "whole").models == {"*": "tiny", "reasoner_0": "frozen:tiny"}
    last = read_metrics(tmp_path / "whole")[-1]
    assert last["reasoner_0/output_tokens_sum"] > 0
    assert "actor_0/kl" in last
    assert "reasoner_0/kl" not in last


def test_a_run_beside_an_endpoint_is_trained_resumed_and_evaluated(tmp_path, endpoint, capsys):
    run, model = tmp_path / "run", f"endpoint:{endpoint.url}#echo"
    assert train(run, "--model", f"reasoner_0={model}", "--remote-retries", "0", updates=1) == 0
    assert main(["train", "--resume", str(run), "--updates", "2"]) == 0
    assert read_metrics(run)[-1]["reasoner_0/output_tokens_sum"] == 2 * 3
    record = json.loads((run / "config.json").read_text())
    assert record["models"]["reasoner_0"] == model
    assert record["remote"]["remote_retries"] == 0
    evaluate = ["eval", *ENV, "--checkpoint", str(run), "--limit", "2"]
    assert main([*evaluate, "--out", str(tmp_path / "same")]) == 0
    assert main([*evaluate, "--model", "reasoner_0=frozen:tiny", "--out", str(tmp_path / "other")]) == 0
    found = [json.loads((tmp_path / name / "evaluation.json").read_text()) for name in ("same", "other")]
    assert [one["models"]["reasoner_0"] for one in found] == [model, "frozen:tiny"]
    assert found[0]["ledger"]["agents"]["reasoner_0"]["output_tokens"] == 2 * 3
    assert found[0]["failures"] == 0
    again = ["eval", "--config", str(tmp_path / "other" / "evaluation.json"), "--out", str(tmp_path / "again")]
    assert main(again) == 0
    assert json.loads((tmp_path / "again" / "evaluation.json").read_text())["models"] == found[1]["models"]


BAD = {
    "unknown agent": (["--model", "reasner_0=frozen:tiny"], ["reasner_0", "did you mean reasoner_0"]),
    "silent endpoint": (["--model", f"reasoner_0={NOBODY}"], ["--model reasoner_0: endpoint http://127.0.0.1:9/v1"]),
    "silent A2A agent": (
        ["--model", "reasoner_0=a2a:http://127.0.0.1:9"],
        ["--model reasoner_0: A2A agent http://127.0.0.1:9: wanted an agent card"],
    ),
    "all agents frozen": (
        ["--model", "reasoner_0=frozen:tiny", "--model", "actor_0=frozen:tiny"],
        ["all agents are frozen or remote (reasoner_0, actor_0): wanted at least one to train"],
    ),
    "no name": (["--model", "reasoner_0=endpoint:http://host/v1"], ["wanted endpoint:URL#NAME"]),
    "top-k": (["--model", f"reasoner_0={NOBODY}", "--top-k", "5"], ["top_k = 5"]),
    "timeout": (["--remote-timeout", "0"], ["remote_timeout = 0.0, wanted > 0"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_partners_are_one_clear_line_and_leave_nothing(tmp_path, capsys, case):
    flags, words = BAD[case]
    assert train(tmp_path / "run", *flags) == 1
    error = capsys.readouterr().err
    assert all(word in error for word in words), error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_config_files_and_flags_name_partners(tmp_path, capsys):
    file = tmp_path / "mine.toml"
    file.write_text(
        'env = "marft/gsm8k_duo-v0"\n[models]\n"*" = "tiny"\nreasoner_0 = "frozen:tiny"\n[remote]\nremote_retries = 5\n'
    )
    assert main(["train", "--config", str(file), "--print-config", "--model", f"actor_0={NOBODY}"]) == 0
    printed = capsys.readouterr().out
    assert f'actor_0 = "{NOBODY}"' in printed
    assert 'reasoner_0 = "frozen:tiny"' in printed
    assert "remote_retries = 5" in printed


def test_a_frozen_model_of_a_folder_has_its_absolute_path(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_models(["a=frozen:model", "b=model"]) == {
        "a": f"frozen:{tmp_path / 'model'}",
        "b": str(tmp_path / "model"),
    }


def test_a_flag_replaces_the_model_of_one_agent_of_a_trained_team():
    trained = dataclasses.make_dataclass("Trained", ["models"])({"*": "tiny", "actor_0": "frozen:tiny"})
    assert chosen_models(["actor_0=a2a:http://h"], trained) == {"*": "tiny", "actor_0": "a2a:http://h"}
    assert chosen_models(["other"], trained) == {"*": "other"}
    assert chosen_models(None, trained) == trained.models
    assert chosen_models(None, None) == {"*": "smollm2-135m"}


PLAN = {
    "name": "partners",
    "arms": ["team"],
    "tasks": [
        {
            "name": "words",
            "env": "marft/gsm8k_duo-v0",
            "data": "embedded:stories",
            "model": "tiny",
            "teams": ["duo"],
            "problems": 2,
            "settings": {"groups": 1, "group_size": 2, "updates": 1},
        }
    ],
}


def plan_with(**models):
    return plan_of({**PLAN, "tasks": [{**PLAN["tasks"][0], **({"models": models} if models else {})}]})


def test_a_bench_plan_names_partners_of_its_teams_and_not_of_the_one_agent():
    plan = plan_with(reasoner_0="frozen:tiny")
    [task] = plan.tasks
    teams = [*task.teams.values(), task.solo]
    made = [task.experiment(team, "marft-a", 0, max_new_tokens=4).models for team in teams]
    assert made == [{"*": "tiny", "reasoner_0": "frozen:tiny"}, {"*": "tiny"}]
    assert plan.checksum != plan_with().checksum
    assert "models" not in plan_with().to_dict()["tasks"][0]["plan"]
    with pytest.raises(PlanError, match=r"unknown agent 'reasner_0'; did you mean reasoner_0\?"):
        plan_with(reasner_0="frozen:tiny")
    with pytest.raises(PlanError, match="all agents are frozen or remote"):
        plan_with(reasoner_0="frozen:tiny", actor_0="frozen:tiny")
