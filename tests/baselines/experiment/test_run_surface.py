"""`surface.json`: records are read with it as without it, where nothing that made them is left."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import marft_envs
from baselines.cli.main import main
from baselines.experiment.config_trust import UntrustedConfigError
from baselines.experiment.episode_source import EpisodeSource
from baselines.experiment.run_surface import RunSurfaceError, read_surface
from marft_envs.graders import GraderSettings
from marft_envs.registration.recorded_game import recorded_game, surface_of
from marft_envs.sandbox import Judge
from marft_envs.tasks.tools.connectors.tool_file import ToolFile
from marft_envs.tasks.tools.definition import ToolError
from tests.helpers.needed_package import needed_package

needed_package("mcp", "pip install 'marft[mcp]'")
SERVER = Path(__file__).parents[2] / "marft_envs" / "tasks" / "tools" / "mcp_server.py"
MODULE = """
def short(episode):
    return -float(len(episode.turns))

def right(answer, task):
    return float("4" in answer)
"""
TOOLS = """
name = "baskets"

[[mcp]]
command = ["{python}", "{server}", "stdio"]
tools = ["add"]
timeout_s = 60

[owners]
reader_0 = ["add"]
writer_0 = ["add", "finish"]

[limits]
calls_per_turn = 2

[[task]]
id = "pears"
prompt = "Put a pear into the basket."
answer = "done"
calls = [{{tool = "add", arguments = {{item = "pear"}}}}]

[[task]]
id = "plums"
prompt = "Put a plum into the basket."
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A working directory with a module and a tool file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "own_rules", raising=False)
    Path("own_rules.py").write_text(MODULE)
    Path("baskets.toml").write_text(TOOLS.format(python=sys.executable, server=SERVER))
    return tmp_path


def nothing_is_made(patch):
    """Let all fail that a record could make: tools, graders, judges, functions of the reward."""

    def fail(*_, **__):
        raise AssertionError("a record was resolved")

    for owner, name in ((ToolFile, "world"), (ToolFile, "read"), (GraderSettings, "open"), (Judge, "__init__")):
        patch.setattr(owner, name, fail)
    patch.setattr("marft_envs.game.rewards.imported", fail)


def rebuilt(place):
    """Return the episodes of a folder with the chat forms of all observations, and the settings of their game."""
    source = EpisodeSource(place, rebuilt=True, trust=True)
    found = [
        (one.episode.to_dict(), [list(turn.observation.messages) for turn in one.episode.turns])
        for one in source.records()
    ]
    assert source.replay is not None
    return found, json.loads(json.dumps(source.replay.env.unwrapped.settings))


EVALUATIONS = [
    ["marft/math_duo-v0", "--horizon", "2", "--feedback", "verdict", "--dependency", "full"],
    ["marft/gsm8k_trio-v0", "--data", "embedded:stories", "--grader", "own_rules:right"],
    [
        "marft/gsm8k_duo-v0",
        "--data",
        "embedded:stories",
        "--reward-term",
        "s=own_rules:short:0.1",
    ],
    ["marft/codeforces_duo-v1", "--judge", "unsafe"],
    ["marft/tools_trio-v0", "--data", "embedded:desk"],
    ["marft/recall_duo-v0", "--size", "tiny"],
    ["marft/tools_duo-v0", "--tools", "baskets.toml", "--split", "train"],
    ["marft/tools_duo-v0", "--tools", "baskets.toml", "--reward", "recipe", "--env-arg", 'listing="schema"'],
]


@pytest.mark.parametrize("game", EVALUATIONS, ids=" ".join)
def test_records_are_read_the_same_with_and_without_what_made_them(desk, monkeypatch, game):
    assert (
        main(["eval", "--env", *game, "--policy", "random", "--limit", "2", "--max-turns", "40", "--out", "out"]) == 0
    )
    surface = Path("out/surface.json")
    kept = surface.read_bytes()
    surface.unlink()
    as_made = rebuilt(Path("out"))
    surface.write_bytes(kept)
    Path("own_rules.py").unlink()
    Path("baskets.toml").unlink()
    sys.modules.pop("own_rules", None)
    with monkeypatch.context() as patch:
        nothing_is_made(patch)
        assert rebuilt(Path("out")) == as_made


def test_a_surface_has_what_the_agents_were_told_and_no_address(desk):
    assert main(["eval", "--env", *EVALUATIONS[6], "--policy", "random", "--limit", "1", "--out", "out"]) == 0
    text = Path("out/surface.json").read_text()
    surface = json.loads(text)
    told = json.loads(Path("out/evaluation.json").read_text())["settings"]
    assert surface["tools"]["sha256"] == told["tool_surface"]
    [tool, *_] = surface["tools"]["owned"]["baskets"]["reader_0"]
    assert (tool["name"], tool["description"]) == ("add", "Add an item to the basket.")
    assert tool["parameters"]["properties"]["item"]["type"] == "string"
    assert [profile["name"] for profile in surface["team"]["profiles"]] == ["reader_0", "writer_0"]
    assert [task["id"] for task in surface["connected"]["task"]] == ["pears", "plums"]
    assert surface["answers"] is False
    assert str(SERVER) not in text


def test_the_tools_of_a_record_cannot_be_called(desk):
    keywords = {"tools": "baskets.toml"}
    env = marft_envs.make("marft/tools_duo-v0", **keywords)
    game = recorded_game("marft/tools_duo-v0", {"tools": "gone.toml"}, json.loads(json.dumps(surface_of(env))))
    tool = game.unwrapped.tasks.surface.owned["baskets"]["reader_0"]["add"]
    with pytest.raises(ToolError, match="this tool is of a record, and cannot be called"):
        tool.function(item="pear")
    assert game.unwrapped.tasks.surface.sha256 == env.unwrapped.tasks.surface.sha256
    assert game.unwrapped.tasks[1] == env.unwrapped.tasks[1]


def test_an_environment_without_parts_is_made_as_it_was(desk):
    """A game that no task set makes is not known in parts."""
    surface = surface_of(marft_envs.make("marft/math_duo-v0"))
    assert surface["answers"] is True
    assert surface["tools"] is None
    marft_envs.register("desk/own-v0", lambda: marft_envs.make("marft/math_duo-v0").unwrapped, force=True)
    assert recorded_game("desk/own-v0", {}, surface) is None


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda record: [record], "found the schema 'list', wanted 'marft.surface/1'"),
        (lambda record: record | {"schema": "marft.surface/9"}, "found the schema 'marft.surface/9'"),
        (lambda record: record | {"team": {}}, "team: "),
        (lambda record: record | {"team": record["team"] | {"profiles": 7}}, "profiles"),
        (lambda record: record | {"dependency": {"kind": "evil:kind"}}, "found 'evil:kind', wanted one of"),
        (lambda record: record | {"tools": {"owned": {}, "listing": "schema"}}, "wanted None: it was changed later"),
        (lambda record: record | {"tools": {"owned": 7, "listing": "schema"}}, "this is no tool surface"),
        (lambda record: record | {"tools": {"owned": {"w": {"a": [{"name": 1}]}}}}, "this is no tool surface"),
        (lambda record: "[" * 100_000, "RecursionError|nested|recursion"),
    ],
)
def test_a_damaged_surface_is_an_error_that_names_it(tmp_path, change, wanted):
    record = change(surface_of(marft_envs.make("marft/tools_duo-v0", data="embedded:lookup")))
    (tmp_path / "surface.json").write_text(record if isinstance(record, str) else json.dumps(record))
    with pytest.raises(RunSurfaceError, match=rf"surface\.json is no surface of a run: .*({wanted})"):
        read_surface(tmp_path)


def test_an_older_run_without_a_surface_has_none(tmp_path):
    assert read_surface(tmp_path) is None


def test_the_data_of_somebody_else_still_needs_a_yes(desk, monkeypatch):
    Path("sums.jsonl").write_text('{"question": "1 + 1?", "answer": "#### 2"}\n')
    game = ["marft/gsm8k_duo-v0", "--data", "sums.jsonl", "--policy", "random"]
    assert main(["eval", "--env", *game, "--limit", "1", "--out", "out"]) == 0
    assert len(rebuilt(Path("out"))[0]) == 1
    monkeypatch.setenv("XDG_STATE_HOME", str(desk / "another user"))
    with pytest.raises(UntrustedConfigError, match=r'keywords\.data loads a path or a data set: "sums\.jsonl"'):
        EpisodeSource(Path("out"), rebuilt=True)
