"""`marft push`: the folder that is published, the commands of its model card, the upload, and what is refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from baselines.cli.main import main
from baselines.publishing.model_card import CardFacts, environment_flags, model_card
from baselines.publishing.private_content import replaced, search
from marft_agents.models import pretrained
from marft_agents.runs import checkpoint
from marft_agents.runs.checkpoint import CheckpointError
from marft_envs import Team
from tests.baselines.publishing.fake_hub import FakeHub

GAME = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories", "--max-new-tokens", "4"]
ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
FILES = {
    *("README.md", "team.json", "evaluation.json", "config.json", "state.json", "dependency.png"),
    *(
        f"{agent}/adapter_{name}"
        for agent in ("reasoner_0", "actor_0")
        for name in ("config.json", "model.safetensors")
    ),
}
TOKEN = "hf_" + "a" * 30
OF_ANN = "/".join(("", "home", "ann", "notes"))


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def files_of(folder):
    paths = [path for path in Path(folder).rglob("*") if path.is_file() and ".cache" not in path.parts]
    return {path.relative_to(folder).as_posix() for path in paths}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with a base model, a run on it, and an evaluation inside the run and one outside."""
    desk = tmp_path_factory.mktemp("desk")
    made = pretrained.load("tiny")
    made.model.save_pretrained(desk / "owner/base")
    made.tokenizer.save_pretrained(desk / "owner/base")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk)
        small = ["--groups", "2", "--group-size", "2", "--updates", "1", "--device", "cpu"]
        team = ["--dependency", "independent"]
        assert main(["train", *GAME, *team, *small, "--model", "owner/base", "--out", "run"]) == 0
        assert main(["eval", *GAME, *team, "--checkpoint", "run", "--limit", "3", "--out", "run/trained"]) == 0
        untrained = ["--model", "owner/base", "--limit", "3", "--out", "untrained"]
        assert main(["eval", *GAME, *team, *untrained]) == 0
    return desk


@pytest.fixture
def inside(desk, tmp_path, monkeypatch):
    """A copy of the desk as the working directory."""
    shutil.copytree(desk, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "no-token"))
    return desk


@pytest.fixture
def replacing(inside):
    return ["--replace", f"{inside / 'owner/base'}=owner/base"]


@pytest.fixture
def hub(monkeypatch):
    from huggingface_hub import constants

    with FakeHub(TOKEN).running() as hub:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        yield hub


# ------------------------------------------------------------------ the folder


def test_a_dry_run_writes_the_folder_and_nothing_of_the_machine(capsys, inside, replacing):
    more = ["--evaluation", "run/trained", "--evaluation", "untrained"]
    code, out, error = run(capsys, "push", "run", "--repo", "me/sums", "--dry-run", "--out", "sums", *more, *replacing)
    assert (code, error) == (0, "")
    assert "nothing was uploaded" in out
    assert files_of("sums") == FILES | {"evaluation-untrained.json"}
    for path in Path("sums").rglob("*"):
        if path.is_file():
            assert os.fsencode(inside.parent) not in path.read_bytes(), path
    team = Team.load("sums/team.json")
    assert team.dependency.to_dict() == {"kind": "independent"}  # of the run, not of the preset
    assert Path("sums/dependency.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(Path("sums/evaluation.json").read_text())
    assert record["checkpoint"] == "update-00001"
    assert record["scores"] == json.loads(Path("run/trained/evaluation.json").read_text())["scores"]
    assert "guard" not in json.loads(Path("sums/state.json").read_text())


def test_the_card_has_a_header_and_the_table_of_results(capsys, replacing):
    more = ["--evaluation", "run/trained", "--evaluation", "untrained"]
    assert run(capsys, "push", "run", "--repo", "me/sums", "--dry-run", "--out", "sums", *more, *replacing)[0] == 0
    _, header, card = Path("sums/README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(header) == {
        "base_model": "owner/base",
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["marft", "multi-agent", "reinforcement-learning", "lora"],
    }
    assert "![D](dependency.png)" in card
    for file, row in (("evaluation", "trained | update-00001"), ("evaluation-untrained", "untrained | untrained")):
        record = json.loads(Path(f"sums/{file}.json").read_text())
        low, high = record["interval_95"]
        assert f"\n| {row} | {record['accuracy']:.3f} [{low:.3f}, {high:.3f}] | 3 | 1 | " in card


def test_episodes_are_published_on_request(capsys, replacing):
    shared = ["--repo", "me/sums", "--dry-run", *replacing]
    assert run(capsys, "push", "run@update-00001", *shared, "--out", "a", "--episodes")[0] == 0
    assert files_of("a") == FILES | {"episodes.jsonl"}
    assert len(Path("a/episodes.jsonl").read_text().splitlines()) == 3


def test_the_card_of_a_team_with_partners_and_two_bases_names_what_it_loads():
    evaluation = {
        **{"accuracy": 0.5, "interval_95": [0.1, 0.9], "checkpoint": "update-00002", "scores": [[1]], "seeds": [0]},
        **{"tokens_per_episode": 3.0, "failures": 0, "law": {"temperature": 1.0, "max_new_tokens": 4}},
        "keywords": {"team": {}, "dependency": "full", "horizon": 2, "reward": {"steps": -1}, "turns": 3},
    }
    facts = CardFacts(
        repo="me/mixed",
        config={"env": "my/game-v0", "algorithm": "grpo", "models": {"*": "a/b", "c_0": "frozen:e/f"}},
        checkpoint="update-00002",
        team={"profiles": [{"name": name, "answers": name == "c_0"} for name in ("a_0", "b_0", "c_0")]},
        folders={"a_0": "a_0", "b_0": "b_0"},
        bases={"a_0": "a/b", "b_0": "c/d"},
        evaluations={"trained": evaluation},
        scenarios="scenarios.json",
        versions={"marft": "1"},
    )
    card = model_card(facts)
    assert yaml.safe_load(card.split("---\n")[1])["base_model"] == ["a/b", "c/d"]
    assert "| `c_0` | yes | none: not trained | `frozen:e/f` |" in card
    assert "--checkpoint mixed --scenarios mixed/scenarios.json --out repeated" in card
    assert "`marft train --config mixed/config.json --out repeated-training`" in card
    assert environment_flags(facts) == [
        *("--team", "mixed/team.json", "--horizon", "2", "--reward", '{"steps": -1}', "--env-arg", "turns=3")
    ]
    assert "On other base models, in the same way: `b_0`." in card


# ------------------------------------------------------- upload, and loading


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # PEFT's
def test_the_commands_of_the_card_load_the_uploaded_team(capsys, replacing, hub):
    code, out, error = run(capsys, "push", "run", "--repo", "me/sums", "--private", *replacing)
    assert (code, error) == (0, "")
    assert f"{hub.url}/me/sums" in out
    repository = hub.repositories["me/sums"]
    assert repository.private
    assert set(repository.files) == FILES
    card = repository.files["README.md"].decode()
    for language, text in re.findall(r"```(bash|python)\n(.*?)```", card, re.DOTALL):
        if language == "python":
            shutil.copytree("sums", "me/sums")  # transformers knows the address of the hub since it was imported
            names = {}
            exec(text, names)
            assert set(names["model"].peft_config) == {"reasoner_0", "actor_0"}
        for command in map(shlex.split, text.splitlines() if language == "bash" else ()):
            if command[0] == "hf":
                program = Path(sys.executable).with_name("hf")
                known = {**os.environ, "HF_ENDPOINT": hub.url}
                subprocess.run([program, *command[1:]], env=known, check=True, capture_output=True)
                assert files_of("sums") == FILES
            elif command[:2] == ["marft", "eval"]:
                evaluate = command
            elif command[0] == "marft":
                assert run(capsys, *command[1:])[0] == 0
            else:
                assert command == ["pip", "install", "marft[agents,math]"]
    assert run(capsys, *evaluate[1:])[0] == 0
    repeated, first = (json.loads(Path(name, "evaluation.json").read_text()) for name in ("repeated", "run/trained"))
    assert (repeated["scores"], repeated["tokens"]) == (first["scores"], first["tokens"])


def test_a_hub_that_refuses_is_one_clear_line(capsys, replacing, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_" + "b" * 30)
    code, _, error = run(capsys, "push", "run", "--repo", "me/sums", *replacing)
    assert code == 1
    assert error.startswith("marft: error: me/sums could not be uploaded: ")
    assert error.count("\n") == 1


# ------------------------------------------------------------------ refusals


def test_a_path_of_the_machine_is_refused_with_its_place(capsys, inside):
    code, _, error = run(capsys, "push", "run", "--repo", "me/sums", "--dry-run", "--out", "sums")
    assert code == 1
    assert f"config.json: models.*: a path of this machine: '{inside / 'owner/base'}'" in error
    assert "actor_0/adapter_config.json: base_model_name_or_path" in error
    assert "--replace OLD=NEW" in error
    assert not Path("sums").exists()


def test_a_secret_is_refused_and_not_shown(capsys, replacing, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "correct-horse-battery")
    config = json.loads(Path("run/config.json").read_text())
    config["models"] |= {"a": "endpoint:https://me:pass@host/v1#m", "b": f"a2a:{TOKEN}", "c": "correct-horse-battery"}
    Path("run/config.json").write_text(json.dumps(config))
    code, _, error = run(capsys, "push", "run", "--repo", "me/sums", "--dry-run", "--out", "sums", *replacing)
    assert code == 1
    assert "config.json: models.a: a URL with a password" in error
    assert "config.json: models.b: a credential" in error
    assert "config.json: models.c: the value of the environment variable MY_API_KEY" in error
    assert not any(secret in error for secret in ("me:pass", TOKEN, "correct-horse"))
    assert not Path("sums").exists()


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["run", "--repo", "sums", "--dry-run", "--out", "x"], "--repo 'sums': wanted OWNER/NAME"),
        (["run", "--repo", "me/sums", "--dry-run"], "give --out FOLDER"),
        (["run", "--repo", "me/sums", "--dry-run", "--out", "run"], "run is not empty"),
        (["run", "--repo", "me/sums", "--dry-run", "--out", "x", "--replace", "y"], "--replace 'y': wanted OLD=NEW"),
        (["nowhere", "--repo", "me/sums", "--dry-run", "--out", "x"], "no complete checkpoint in nowhere"),
        (["run", "--repo", "me/sums"], "not logged in to the hub"),
    ],
)
def test_bad_input_is_one_clear_line(capsys, inside, arguments, wanted):
    code, _, error = run(capsys, "push", *arguments)
    assert code == 1
    assert wanted in error
    assert error.count("\n") == 1
    assert not Path("x").exists()


def test_a_published_folder_can_be_published_again(capsys, replacing):
    shared = ["--dry-run", "--repo", "me/sums"]
    assert run(capsys, "push", "run", *shared, "--out", "first", *replacing)[0] == 0
    assert run(capsys, "push", "first", *shared, "--out", "second")[0] == 0
    assert files_of("second") == FILES
    for name in FILES - {"README.md"}:
        assert Path("second", name).read_bytes() == Path("first", name).read_bytes()


def test_a_published_adapter_has_its_hash(capsys, replacing):
    assert run(capsys, "push", "run", "--dry-run", "--repo", "me/sums", "--out", "sums", *replacing)[0] == 0
    assert list(checkpoint.adapter_folders(Path("sums"))) == ["reasoner_0", "actor_0"]
    weights = Path("sums/actor_0/adapter_model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"adapter_model\.safetensors is damaged, or was changed later"):
        checkpoint.adapter_folders(Path("sums"))


def test_folders_outside_of_a_checkpoint_are_not_copied(capsys, replacing):
    path = checkpoint.resolve(Path("run"))
    shutil.copytree(path / "actor_0", "outside")
    state = checkpoint.read_state(path)
    checkpoint.write_state(path, state | {"folders": {"actor_0": "../../../outside"}, "sha256": {}})
    code, _, error = run(capsys, "push", "run", "--dry-run", "--repo", "me/sums", "--out", "deep/sums", *replacing)
    assert code == 1
    assert "folders: 'actor_0': found '../../../outside', wanted the name of a folder" in error
    assert not Path("deep/sums").exists()
    assert files_of("outside") == set(ADAPTER)


@pytest.mark.parametrize(
    "file", ["config.json", "trained/evaluation.json", "checkpoints/update-00001/actor_0/adapter_config.json"]
)
def test_a_link_publishes_no_other_file(capsys, replacing, file):
    Path("run", file).rename("private.json")
    Path("run", file).symlink_to(Path("private.json").resolve())
    code, _, error = run(capsys, "push", "run", "--dry-run", "--repo", "me/sums", "--out", "sums", *replacing)
    assert code == 1
    assert f"{file} is a link to {Path('private.json').resolve()}: wanted a file" in error
    assert not Path("sums").exists()


def test_an_evaluation_of_another_checkpoint_is_refused(capsys, replacing):
    more = ["--evaluation", "untrained", "--evaluation", "run/trained", *replacing]
    code, _, error = run(capsys, "push", "run", "--repo", "me/sums", "--dry-run", "--out", "x", *more)
    assert code == 1
    assert "the first is of the untrained team" in error
    assert "wanted one of the published checkpoint update-00001" in error
    assert not Path("x").exists()


def test_a_run_without_an_evaluation_is_refused_with_the_command(capsys, replacing):
    shutil.rmtree("run/trained")
    code, _, error = run(capsys, "push", "run", "--repo", "me/sums", "--dry-run", "--out", "x", *replacing)
    assert code == 1
    assert "marft eval --env marft/gsm8k_duo-v0 --checkpoint run@update-00001" in error


@pytest.mark.parametrize(
    ("record", "reasons"),
    [
        ({"data": "/data/sets/mine.jsonl"}, ["a path of this machine: '/data/sets/mine.jsonl'"]),
        ({"model": "frozen:/srv/models/a"}, ["a path of this machine: 'frozen:/srv/models/a'"]),
        ({"data": "C:\\sets\\mine.jsonl"}, ["a path of this machine: 'C:\\\\sets\\\\mine.jsonl'"]),
        ({"prompt": f"Write to {OF_ANN}."}, [f"a path of this machine: 'Write to {OF_ANN}.'"]),
        ({"env_arg": {"api_key": "x"}}, ["a credential"]),
        ({"header": "Bearer abcdefghijklmnop"}, ["a credential"]),
        ({"url": "https://host/v1?access_token=1"}, ["a URL with a password or token"]),
        ({"texts": ["1/2 and \\frac{1}{2}/3", "a/b", "hub:owner/name", "http://localhost:8000/v1"]}, []),
        ({"budget_tokens": 3, "record_tokens": False, "eos_token": "", "key": "level"}, []),
    ],
)
def test_private_texts_are_found_and_no_others(record, reasons):
    assert [one.reason for one in search(record, "file")] == reasons


def test_places_of_private_texts_are_named():
    record = {"models": {"*": "/a/b"}, "list": [{"url": "http://u:p@h"}]}
    assert [one.place for one in search(record, "config.json")] == ["config.json: models.*", "config.json: list[0].url"]


def test_replacing_reaches_every_text_and_no_key():
    record = {"a": ["a", {"b": ("a", 1, None)}]}
    assert replaced(record, lambda text: text.upper()) == {"a": ["A", {"b": ["A", 1, None]}]}
