"""One run of somebody else, whose records name everything that acts, is given to every command in every place.

No command may touch any of it. With `--trust-config` the same command does, so these tests can fail.
"""

from __future__ import annotations

import importlib
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from baselines.cli.main import COMMANDS, main
from baselines.experiment.data_checksums import sha256_of
from baselines.report.server import Server
from marft_common.import_paths import search_working_directory
from tests.helpers.canary import WITHOUT_PLACE, Canary, change, error_of, invocations, leaves, plant, remove
from tests.helpers.needed_package import needed_package

needed_package("mcp.client.stdio", "pip install 'marft[mcp]'")  # its servers write to the standard error of this moment
GAME = ["--env", "marft/gsm8k_duo-v0", "--data", "embedded:stories"]
SMALL = ["--model", "tiny", "--device", "cpu", "--max-new-tokens", "4"]
REFUSE = {  # the commands that would act on a record; the others read it as data
    *("train", "sft", "eval", "play", "attribute", "serve", "export", "push"),
    *("data from-runs", "data mine", "data shadow"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with an evaluation in it, and a turn file of it."""
    folder = tmp_path_factory.mktemp("made")
    run = str(folder / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))  # of the person who made it
        train = ["--groups", "1", "--group-size", "2", "--updates", "1", "--seed", "1"]
        assert main(["train", *GAME, *SMALL, *train, "--out", run]) == 0
        play = ["--checkpoint", run, "--limit", "2", "--max-new-tokens", "4", "--device", "cpu"]
        assert main(["eval", *GAME, "--split", "train", *play, "--out", f"{run}/trained"]) == 0
        turns = ["--where", "True", "--out", str(folder / "turns.jsonl")]
        assert main(["data", "from-runs", run, *turns]) == 0
    return folder


@pytest.fixture
def canary(made, tmp_path, monkeypatch):
    """Probes in the working directory, and a copy of the run as a download; it is an older run without surface."""
    shutil.copytree(made, tmp_path / "theirs", ignore=shutil.ignore_patterns("state"))
    for surface in (tmp_path / "theirs").rglob("surface.json"):
        surface.unlink()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", sys.path.copy())  # commands add the working directory
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(Server, "serve_forever", lambda server: [server.view.report(n) for n in server.view.places()])
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    made_here = Canary(tmp_path / "work")
    yield made_here
    made_here.close()


@pytest.fixture
def run(canary):
    return canary.folder.parent / "theirs" / "run"


def test_the_probes_tell(canary):
    """They are touched by what they are made for."""
    assert canary.touched() == set()
    subprocess.run(canary.command, check=True)
    assert canary.touched() == {"command"}
    search_working_directory()
    importlib.import_module("evil")
    assert canary.touched() == {"import"}
    socket.create_connection(canary.address.split(":")).close()
    assert canary.touched() == {"connection"}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_touches_what_the_records_of_others_name(canary, run, command):
    """The commands, and the flags that name a record, come from the table of the commands: new ones are covered."""
    records, refused = plant(run, canary), set()
    for leaf in leaves(command):
        assert bool(leaf.places) != (leaf.name in WITHOUT_PLACE), f"does {leaf.name} read a record? see canary.py"
        for words in invocations(leaf, records, canary.folder):
            error = error_of(words)
            assert canary.touched() == set(), (words, error)
            if "was not written by you on this machine" in error and "give --trust-config" in error:
                refused.add(leaf.name)
            remove(canary.folder / "out")
    assert refused == {leaf.name for leaf in leaves(command)} & REFUSE


READING = [
    *(f"export RUN --format {form} --texts --out out" for form in ("jsonl", "spans")),
    *(f"data {action} RUN --where True --out out" for action in ("from-runs", "mine", "shadow")),
    "push RUN --repo me/theirs --dry-run --out out",
    "serve RUN --openai --port 0",
]


@pytest.mark.parametrize("command", READING)
def test_records_are_read_without_what_made_them(canary, run, made, command):
    """A run that keeps its surface is read by everybody, without a question; an older one is refused."""
    reward = {"mine": {"function": "evil:anything", "weight": 1.0}}
    keywords = {"data": "embedded:stories", "grader": "evil:anything", "reward": reward, "judge": "unsafe"}
    for file in (run / "config.json", run / "trained" / "evaluation.json"):
        change(file, {"keywords": {"split": "train", **keywords}})
    words = command.replace("RUN", str(run)).split()
    assert "was not written by you" in error_of(words)
    for place in (".", "trained"):
        shutil.copy(made / "run" / place / "surface.json", run / place)
    assert error_of(words) == ""
    assert canary.touched() == set()
    assert Path("out").exists() != command.startswith("serve")


# ------------------------------------------------------------------ with the flag


def foreign(canary):
    """Return a change of a config.json for each kind of value, and what it touches."""
    endpoint = f"endpoint:http://{canary.address}/v1#x"
    tools = {"env": "marft/tools_duo-v0"}
    served = {key: value for key, value in canary.tools.items() if key != "http"}
    connected = {key: value for key, value in canary.tools.items() if key != "mcp"}
    return {
        "env": ({"env": "evil:marft/gsm8k_duo-v0"}, "import"),
        "command": (tools | {"keywords": {"tools": served}}, "command"),
        "http": (tools | {"keywords": {"tools": connected}}, "connection"),
        "grader": ({"keywords": {"data": "embedded:stories", "grader": "evil:anything"}}, "import"),
        "reward": ({"keywords": {"reward": {"mine": {"function": "evil:anything"}}}}, "import"),
        "models": ({"models": {"*": "tiny", "actor_0": endpoint}}, "connection"),
        "endpoint": (
            {"endpoint": f"http://{canary.address}/v1", "models": ["x"], "checkpoint": None, "context": None},
            "connection",
        ),
        "sampler": ({"sampler": f"http://{canary.address}/v1"}, "connection"),
        "ray": ({"rollouts": {"ray": canary.address}}, "connection"),
    }


RESUME = "train --resume RUN"  # which is over
AGAIN = "train --config RUN/config.json --out out"
PLAY = f"--env marft/gsm8k_duo-v0 {' '.join(SMALL[2:])} --limit 1 --out out"


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        *((kind, RESUME) for kind in ("env", "command", "http", "grader", "reward", "models", "sampler", "ray")),
        ("env", f"{AGAIN} --sampler nothing"),  # refused once there is an environment
        *((kind, AGAIN) for kind in ("models", "sampler")),
        ("env", "sft --resume RUN"),
        ("env", "sft --data TURNS --temperature 0 --out out"),  # likewise
        ("models", f"eval --checkpoint RUN {PLAY}"),
        *((kind, "eval --config RUN/trained/evaluation.json --out out") for kind in ("env", "grader", "endpoint")),
        ("models", "play marft/gsm8k_duo-v0 --checkpoint RUN"),
        *((kind, "attribute RUN --dry-run") for kind in ("env", "grader", "models")),
        *((kind, "serve RUN --openai --port 0") for kind in ("env", "models")),
        *((kind, "export RUN --format jsonl --out out") for kind in ("env", "command", "grader")),
        *(
            (kind, f"data {action} RUN --where True --out out")
            for action in ("from-runs", "mine", "shadow")
            for kind in ("env", "command")
        ),
        *((kind, "push RUN --repo me/theirs --dry-run --out out") for kind in ("env", "command", "reward")),
    ],
)
def test_with_the_flag_the_same_command_acts(canary, run, kind, command):
    changes, probe = foreign(canary)[kind]
    turns = run.parent / "turns.jsonl"
    for file in (run / "config.json", run / "trained" / "evaluation.json"):
        change(file, changes)
    manifest = Path(f"{turns}.manifest.json")
    origins = [one | changes for one in json.loads(manifest.read_text())["origins"]]
    change(manifest, {"origins": origins})
    told = {"data": str(turns), "sha256": sha256_of(turns), "settings": {}, "manifest": {}}
    (run / "sft.json").write_text(json.dumps(told))
    words = command.replace("RUN", str(run)).replace("TURNS", str(turns)).split()
    error = error_of(words)
    assert canary.touched() == set()
    assert "was not written by you on this machine" in error
    assert "--trust-config" in error
    assert not Path("out").exists()
    error = error_of([*words, "--trust-config"])
    assert probe in canary.touched(), error


@pytest.mark.long
def test_a_run_that_goes_on_with_the_flag_is_ones_own(canary, run):
    reward = {"completion": 1.0, "mine": {"function": "evil:anything", "weight": 1.0}}
    change(run / "config.json", {"keywords": {"data": "embedded:stories", "split": "train", "reward": reward}})
    assert "--trust-config" in error_of(["train", "--resume", str(run), "--updates", "2"])
    assert main(["train", "--resume", str(run), "--updates", "2", "--trust-config"]) == 0
    assert main(["train", "--resume", str(run)]) == 0
    (run.parent / "run").rename(run.parent / "moved")
    assert "--trust-config" in error_of(["train", "--resume", str(run.parent / "moved")])


def test_a_flag_in_place_of_the_value_is_the_users_word(canary, run):
    change(run / "config.json", foreign(canary)["models"][0] | {"sampler": f"http://{canary.address}/v1"})
    play = ["--checkpoint", str(run), *PLAY.split()]
    assert "models.actor_0" in error_of(["eval", *play])
    assert main(["eval", *play, "--model", "actor_0=tiny"]) == 0
    again = ["train", "--config", str(run / "config.json"), "--out", "again", "--sampler", "own", "--model", "tiny"]
    assert main([*again, "--print-config"]) == 0
    assert canary.touched() == set()


def test_a_config_cannot_trust_itself(canary, run):
    change(run / "config.json", {"trust_config": True, "env": "evil:marft/gsm8k_duo-v0"})
    assert "--trust-config" in error_of(["train", "--config", str(run), "--out", "out"])
    Path("own.toml").write_text("trust_config = true\nenv = 'marft/gsm8k_duo-v0'\n")
    assert "unknown key 'trust_config'" in error_of(["train", "--config", "own.toml", "--out", "out"])
    assert canary.touched() == set()


def test_a_toml_file_on_the_command_line_is_a_yes(canary):
    Path("own.toml").write_text("env = 'evil:marft/gsm8k_duo-v0'\n")
    assert main(["train", "--config", "own.toml", "--print-config"]) == 0
    assert canary.touched() == {"import"}
