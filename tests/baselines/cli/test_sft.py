"""`marft sft` and `marft train --start-from`: from the oracle's episodes to a run that every other command accepts."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import jsonschema
import pytest
import torch
from safetensors.torch import load_file

import marft_envs
from baselines.cli import sft
from baselines.cli.main import main
from baselines.experiment.experiment import Experiment
from baselines.experiment.progress import Updated
from baselines.training_data.demonstrations import demonstrations
from baselines.training_data.recordings import read_recording
from baselines.training_data.turn_file import read_turns
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import read_metrics

ENV = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories"]
SMALL = ["--groups", "2", "--group-size", "2", "--updates", "1", "--max-new-tokens", "4", "--device", "cpu"]
SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
KEEP = ["--policy-lr", "1e-30"]  # a step that no float32 sees


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The oracle's episodes, their turns, and a team fine-tuned on them."""
    folder = tmp_path_factory.mktemp("flywheel")
    oracle, turns = folder / "oracle", folder / "turns.jsonl"
    assert run("eval", *ENV, "--split", "train", "--policy", "scripted", "--limit", 6, "--out", oracle) == 0
    assert run("data", "from-runs", oracle, "--held-out", 0.3, "--out", turns) == 0
    flags = ["--epochs", 2, "--batch-size", 3, "--max-new-tokens", 40, "--device", "cpu", "--model", "tiny"]
    assert run("sft", "--data", turns, *flags, "--out", folder / "sft") == 0
    return folder


def weights(path):
    found = checkpoint.resolve(path)
    return {file.parent.name: load_file(file) for file in sorted(found.rglob("*.safetensors"))}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[a][n], other[a][n]) for a in one for n in one[a])


def test_the_run_is_one_of_the_suite(made, tmp_path, capsys):
    history = read_metrics(made / "sft")
    assert len(history) == 4
    for agent in ("reasoner_0", "actor_0"):
        assert history[-1][f"{agent}/held_out_nll"] < history[0][f"{agent}/held_out_before_nll"]
    experiment = Experiment.load(made / "sft")
    assert (experiment.env, experiment.algorithm) == ("marft/gsm8k_duo-v0", "sft")
    assert experiment.keywords == {"split": "train", "data": "embedded:stories"}
    assert run("eval", *ENV, "--checkpoint", made / "sft", "--limit", 2, "--out", tmp_path / "e") == 0
    assert run("play", ENV[1], *ENV[2:], "--checkpoint", made / "sft", "--index", 0) == 0
    assert run("report", made / "sft", "--out", tmp_path / "r.html") == 0
    assert "sft" in (tmp_path / "r.html").read_text()
    assert run("train", "--config", made / "sft", "--out", tmp_path / "t") == 1
    assert "is a config of marft sft, not of marft train; to train on from it: marft train --start-from RUN" in (
        capsys.readouterr().err
    )


def test_prompts_of_the_file_are_those_of_rollouts(made):
    """Token for token: the file's chat messages against what the environment shows before each turn."""
    experiment = Experiment.load(made / "sft")
    env = marft_envs.make(experiment.env, **experiment.keywords)
    team = experiment.build_team(env.possible_agents, torch.device("cpu"))
    examples, _ = read_turns(made / "turns.jsonl")
    shown = demonstrations(made, examples, team)
    told = {agent: (action for own in episodes for action in own) for agent, episodes in shown.items()}
    compared = 0
    for episode in read_recording(made / "oracle", lambda _: ({}, None)).episodes:
        env.reset(seed=episode.facts["seed"], options={"task_id": episode.task_id})
        for turn in episode.turns:
            demonstrated = next(told[turn.agent])
            prompt = team.encode(turn.agent, env.observe(turn.agent))
            assert demonstrated.prompt_ids.tolist() == prompt.tolist()
            assert demonstrated.text == turn.action
            assert demonstrated.stopped
            env.step(turn.action)
            compared += 1
    assert compared == len(examples) == 12


def test_training_starts_from_the_adapters(made, tmp_path):
    out = tmp_path / "run"
    start = ["--start-from", made / "sft", "--model", "tiny", *SMALL]
    assert run("train", *ENV, *start, *KEEP, "--out", out) == 0
    assert equal(weights(out), weights(made / "sft"))
    assert run("train", *ENV, "--model", "tiny", *SMALL, *KEEP, "--out", tmp_path / "new") == 0
    assert not equal(weights(tmp_path / "new"), weights(made / "sft"))
    assert Experiment.load(out).start_from == str((made / "sft").resolve())
    gone = tmp_path / "gone"
    shutil.copytree(made / "sft", gone)
    assert run("train", "--config", out, "--start-from", gone, "--out", tmp_path / "again") == 0
    assert equal(weights(tmp_path / "again"), weights(out))
    shutil.rmtree(gone)
    assert run("train", "--resume", tmp_path / "again", "--updates", 2) == 0, "the start is not needed again"


def test_a_start_that_does_not_fit_is_refused_and_leaves_no_folder(made, tmp_path, capsys):
    start, out = ["--start-from", made / "sft", "--model", "tiny", *SMALL], tmp_path / "run"
    cases = [
        (["--env", "marft/gsm8k_trio-v0", "--data", "embedded:stories"], "is of another team: found agents"),
        ([*ENV, "--rank", 3], "does not fit agent 'reasoner_0'"),
        (["--env", "marft/gsm8k_duo-v0", "--start-from", tmp_path / "none"], "no complete checkpoint in"),
        ([*ENV, "--replay-from", made / "turns.jsonl"], "has no effect: wanted replay_share > 0"),
        ([*ENV, "--replay-share", 0.5, "--replay-from", tmp_path / "none"], "cannot be read"),
    ]
    for flags, message in cases:
        assert run("train", *start, *flags, "--out", out) == 1
        assert message in capsys.readouterr().err
        assert not out.exists()


def test_turns_of_a_file_are_replayed_and_a_resume_needs_the_same(made, tmp_path, capsys):
    turns = shutil.copy(made / "turns.jsonl", tmp_path / "turns.jsonl")
    replay = ["--replay-share", 0.5, "--replay-from", turns, *SMALL[:-4], "--max-new-tokens", 40]
    assert run("train", *ENV, "--model", "tiny", *replay, "--device", "cpu", "--out", tmp_path / "run") == 0
    [metrics] = read_metrics(tmp_path / "run")
    assert metrics["actor_0/replay_nll"] > metrics["actor_0/entropy"] / 2 > 0
    with turns.open("a") as stream:
        stream.write("\n")
    assert run("train", "--resume", tmp_path / "run", "--updates", 2) == 1
    assert f"the turns of {turns} changed since {tmp_path}/run began: found sha256 " in capsys.readouterr().err


def test_a_resume_needs_the_same_data_and_no_other_flags(made, tmp_path, capsys):
    again = tmp_path / "sft"
    shutil.copytree(made / "sft", again)
    newest = checkpoint.resolve(again)
    shutil.rmtree(newest)
    assert run("sft", "--resume", again) == 0
    assert equal(weights(again), weights(made / "sft"))
    assert run("sft", "--resume", again, "--epochs", 9) == 1
    assert "--epochs cannot be changed (only --device)" in capsys.readouterr().err
    record = json.loads((again / "sft.json").read_text())
    (again / "sft.json").write_text(json.dumps(record | {"sha256": "0" * 64}))
    assert run("sft", "--resume", again) == 1
    assert "changed since" in capsys.readouterr().err
    assert run("sft", "--resume", made / "oracle") == 1


def test_bad_data_is_refused_before_a_model_is_loaded(made, tmp_path, capsys):
    lines = (made / "turns.jsonl").read_text()
    own = tmp_path / "own.jsonl"
    own.write_text(lines.replace("reasoner_0", "stranger_0"))
    cases = [
        (["--data", own], "its manifest names none as environment: give --env ID"),
        (["--data", own, "--env", "marft/gsm8k_duo-v0"], "found turns of stranger_0, wanted those of the team"),
        (["--data", made / "turns.jsonl", "--max-new-tokens", 3], "give --max-new-tokens"),
        (["--data", made / "turns.jsonl", "--temperature", 0], "temperature = 0, wanted > 0"),
        (["--out", tmp_path / "x"], "needs --data FILE and --out DIR"),
    ]
    for flags, message in cases:
        assert run("sft", "--model", "tiny", "--out", tmp_path / "run", *flags) == 1
        assert message in capsys.readouterr().err
        assert not (tmp_path / "run").exists()


def test_files_are_as_their_schemas_say(made):
    def valid(name, record):
        schema = json.loads((SCHEMAS / f"{name}.json").read_text())
        jsonschema.validate(record, schema, cls=jsonschema.Draft202012Validator)

    for line in (made / "turns.jsonl").read_text().splitlines():
        valid("turns", json.loads(line))
    valid("turns_manifest", json.loads((made / "turns.jsonl.manifest.json").read_text()))
    valid("sft", json.loads((made / "sft" / "sft.json").read_text()))
    valid("config", json.loads((made / "sft" / "config.json").read_text()))
    valid("evaluation", json.loads((made / "oracle" / "evaluation.json").read_text()))


def test_ctrl_c_names_the_command_that_goes_on(made, tmp_path, monkeypatch, capsys):
    class Stop(sft.StepDisplay):
        def __call__(self, event):
            super().__call__(event)
            if isinstance(event, Updated):
                raise KeyboardInterrupt

    out = tmp_path / "a run"
    flags = ["--epochs", 2, "--batch-size", 3, "--max-new-tokens", 40, "--device", "cpu", "--model", "tiny"]
    with monkeypatch.context() as patched:
        patched.setattr(sft, "StepDisplay", Stop)
        assert run("sft", "--data", made / "turns.jsonl", *flags, "--out", out) == 130
    command = shlex.join(["marft", "sft", "--resume", str(out)])
    assert f"stopped; go on with: {command}\n" in capsys.readouterr().err
    assert run(*shlex.split(command)[1:]) == 0
    assert equal(weights(out), weights(made / "sft"))
