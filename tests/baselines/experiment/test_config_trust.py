"""Trust in recorded settings: every setting has a rule, what acts is named, and only this user's own word passes."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path

import pytest

import marft_envs
from baselines.cli.config_file import with_config
from baselines.cli.main import build_parser
from baselines.cli.train import experiment_of
from baselines.experiment.config_files import bundled, read_file
from baselines.experiment.config_trust import (
    CONNECTS,
    IMPORTS,
    LOADS,
    RULES,
    RUNS,
    SECRET,
    UNKNOWN,
    UNPROTECTED,
    UntrustedConfigError,
    Uses,
    acting_values,
    read_config,
)
from baselines.experiment.experiment import ATTRIBUTES, SETTINGS, Experiment
from baselines.programs import ENVIRONMENT as PROGRAM
from marft_agents.runs.run_folder import write_json
from marft_envs.graders import GraderSettings
from marft_envs.registration.factory import _keywords, _resolve
from marft_envs.tasks.tools.connectors.tool_file import HttpEntry, McpEntry, ToolFile
from marft_envs.teams.team import Team

# ------------------------------------------------------------------ the table


def holds_text(hint):
    """Return True if a value of this type may hold a text."""
    if hint in (int, float, bool, type(None)):
        return False
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return any(isinstance(part, str) for part in parts)
    return any(map(holds_text, parts)) if parts and typing.get_origin(hint) not in (dict, tuple) else True


def text_fields(kind, place):
    hints = typing.get_type_hints(kind)
    return {f"{place}{field.name}" for field in dataclasses.fields(kind) if holds_text(hints[field.name])}


def settings_with_texts():
    found = text_fields(Experiment, "") - set(ATTRIBUTES.values()) - {"keywords"}
    for table, (kind, _) in SETTINGS.items():
        found |= text_fields(kind, f"{table}.")
    marft_envs.spec(PROGRAM)
    for env_id in marft_envs.envs():
        if not env_id.startswith(("marft/", "program/")):  # another test's: nobody knows what its keywords do
            continue
        names = _keywords(_resolve(marft_envs.spec(env_id).entry_point))
        found |= {f"keywords.{name}" for name in names or ()}
    found |= text_fields(GraderSettings, "keywords.grader.")
    found |= text_fields(ToolFile, "keywords.tools.") - {"keywords.tools.where"}  # a file cannot give it
    found |= text_fields(HttpEntry, "keywords.tools.http.*.") | text_fields(McpEntry, "keywords.tools.mcp.*.")
    return found | {f"keywords.team.{name}" for name in Team.preset("duo").to_dict()}


def test_every_setting_that_may_hold_a_text_has_a_rule():
    """A new one must be added to the table: does its value run, import, connect, load or name a secret?"""
    without = [
        name for name in settings_with_texts() if not any(rule == name or rule.startswith(f"{name}.") for rule in RULES)
    ]
    assert without == []


def test_the_table_has_no_rule_of_a_setting_that_is_gone():
    known = settings_with_texts() | {"policy", "checkpoint", "endpoint", "scenario_file"}
    tops = {name for name in known if not any(other.startswith(f"{name}.") for other in known)}
    gone = [key for key in RULES if not any(key == name or key.startswith(f"{name}.") for name in (*tops, *known))]
    assert gone == []


SERVED = {"name": "x", "mcp": [{"command": ["/bin/sh", "-c", "id"]}]}


@pytest.mark.parametrize(
    ("record", "place", "does"),
    [
        ({"env": "evil:a/b-v0"}, "env", IMPORTS),
        ({"env": "program/team-v0", "keywords": {"program": "rm -rf ~"}}, "keywords.program", RUNS),
        ({"env": "program/team-v0", "keywords": {"program_folder": "/tmp"}}, "keywords.program_folder", RUNS),
        ({"models": {"*": "tiny", "a": "endpoint:http://host/v1#x"}}, "models.a", CONNECTS),
        ({"models": {"a_0": "a2a:http://host"}}, "models.a_0", CONNECTS),
        ({"models": {"a": "a2a:nonsense"}}, "models.a", CONNECTS),
        ({"models": ["/srv/model"]}, "models[0]", LOADS),
        ({"models": {"a": "frozen:model.gguf"}}, "models.a", LOADS),
        ({"models": {"a": {"b": "endpoint:http://host/v1#x"}}}, "models.a", UNKNOWN),
        ({"sampler": "http://host:8000/v1"}, "sampler", CONNECTS),
        ({"rollouts": {"ray": "host:6379"}}, "rollouts.ray", CONNECTS),
        ({"rollouts": {"ray": "auto"}}, "rollouts.ray", CONNECTS),
        ({"start_from": "/srv/run"}, "start_from", LOADS),
        ({"replay_from": "/srv/turns.jsonl"}, "replay_from", LOADS),
        ({"keywords": {"data": "sums.jsonl"}}, "keywords.data", LOADS),
        ({"keywords": {"data": "hub:owner/name"}}, "keywords.data", LOADS),
        ({"keywords": {"team": "team.json"}}, "keywords.team", LOADS),
        ({"keywords": {"judge": "unsafe"}}, "keywords.judge", UNPROTECTED),
        ({"keywords": {"judge": "ray:unsafe"}}, "keywords.judge", CONNECTS),
        ({"keywords": {"reward": {"mine": {"function": "evil:f"}}}}, "keywords.reward.mine.function", IMPORTS),
        ({"keywords": {"grader": "evil:f"}}, "keywords.grader", IMPORTS),
        ({"keywords": {"grader": "grader.toml"}}, "keywords.grader", LOADS),
        ({"keywords": {"grader": "endpoint:http://host"}}, "keywords.grader", CONNECTS),
        ({"keywords": {"grader": {"kind": "evil:f"}}}, "keywords.grader.kind", IMPORTS),
        ({"keywords": {"grader": {"kind": "endpoint", "url": "http://h"}}}, "keywords.grader.url", CONNECTS),
        ({"keywords": {"grader": {"kind": "text", "api_key_env": "K"}}}, "keywords.grader.api_key_env", SECRET),
        ({"keywords": {"grader": {"headers_env": {"A": "K"}}}}, "keywords.grader.headers_env", SECRET),
        ({"keywords": {"tools": "tools.toml"}}, "keywords.tools", LOADS),
        ({"keywords": {"tools": SERVED}}, "keywords.tools.mcp[0].command", RUNS),
        ({"keywords": {"tools": {"mcp": [{"url": "http://h"}]}}}, "keywords.tools.mcp[0].url", CONNECTS),
        ({"keywords": {"tools": {"http": [{"url": "http://h"}]}}}, "keywords.tools.http[0].url", CONNECTS),
        (
            {"keywords": {"tools": {"http": [{"headers_env": {"A": "K"}}]}}},
            "keywords.tools.http[0].headers_env",
            SECRET,
        ),
        ({"keywords": {"of_a_plugin": {"deep": ["x"]}}}, "keywords.of_a_plugin.deep[0]", UNKNOWN),
        ({"keywords": {"config": {"file": "x"}}}, "keywords.config.file", UNKNOWN),
        ({"endpoint": "http://host/v1"}, "endpoint", CONNECTS),
        ({"checkpoint": "/srv/run"}, "checkpoint", LOADS),
        ({"scenario_file": "/srv/list.json"}, "scenario_file", LOADS),
        ({"unheard_of": "x"}, "unheard_of", UNKNOWN),
        ({"keywords": "x"}, "keywords", UNKNOWN),
        ({"env": ["evil:a"]}, "env", UNKNOWN),
    ],
)
def test_what_acts_is_named_with_its_place(record, place, does):
    [found] = acting_values(record)
    assert str(found).startswith(f"{place} {does}: ")


@pytest.mark.parametrize(
    "record",
    [
        {"env": "marft/math_duo-v0", "keywords": {"data": "embedded:stories", "split": "train", "horizon": 2}},
        {"models": {"*": "smollm2-135m", "a": "owner/name", "b": "frozen:tiny"}, "sampler": "own"},
        {"sampler": "vllm", "rollouts": {"ray": "none", "rollout_workers": 2}, "start_from": None},
        {"rollouts": {"ray": "local"}, "keywords": {"judge": "landlock", "team": "trio", "grader": "text"}},
        {"keywords": {"team": Team.preset("trio").to_dict(), "dependency": {"kind": "routed", "by": "a"}}},
        {"keywords": {"reward": {"completion": 1.0}, "grader": {"kind": "number", "mode": "confirm"}}},
        {"keywords": {"config": {"min_terms": 2}, "of_a_plugin": [1, True, None, ""]}},
        {"scenario_file": "scenarios.json", "checkpoint": None},
    ],
)
def test_what_does_not_act_needs_no_trust(record):
    assert acting_values(record) == []


def test_the_experiments_that_come_with_marft_act_by_their_data_alone(tmp_path):
    [commands] = [action for action in build_parser(["train"])._actions if action.dest == "command"]
    parser = commands.choices["train"]
    for name in bundled():
        if read_file(name).get("command", "train") == "train":
            arguments = with_config(parser.parse_args(["--config", name, "--out", str(tmp_path)]), parser)
            found = acting_values(experiment_of(arguments).to_dict())
            assert {(one.place, one.does) for one in found} <= {(("keywords", "data"), LOADS)}, name


def test_the_keywords_of_a_plugin_are_its_own():
    """Its `policy` may be a path, though that of tau2 is one of three names."""
    keywords = {"policy": "x", "size": {"of": "x"}, "judge": "auto", "horizon": 2, "split": "train", "seed": 3}
    assert acting_values({"env": "marft/tau2_retail_duo-v0", "keywords": keywords}) == []
    found = acting_values({"env": "desk/own-v0", "keywords": keywords})
    assert [one.place for one in found] == [("keywords", "policy"), ("keywords", "size", "of"), ("keywords", "judge")]
    assert {one.does for one in found} == {UNKNOWN}


def test_only_what_is_used_counts():
    record = {"env": "evil:x", "models": {"a": "/x", "b": "/y"}, "keywords": {"data": "x.csv", "grader": "evil:f"}}
    places = {str(one).split()[0] for one in acting_values(record, Uses(only=("models", "keywords.data")))}
    assert places == {"models.a", "models.b", "keywords.data"}
    places = {str(one).split()[0] for one in acting_values(record, Uses(but=("models.a", "keywords")))}
    assert places == {"env", "models.b"}
    assert acting_values(record, Uses(only=())) == []
    assert acting_values({"keywords": {"data2": "x"}}, Uses(only=("keywords.data",))) == []


# ------------------------------------------------------------------ trust


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A config.json of somebody else."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "downloads" / "run" / "config.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"env": "evil:a/b-v0", "keywords": {"tools": SERVED}}))
    return file


def test_the_record_of_somebody_else_is_refused_with_all_that_acts(config):
    with pytest.raises(UntrustedConfigError) as caught:
        read_config(config)
    assert str(caught.value) == (
        f"{config} was not written by you on this machine (or is a copy, or of an earlier version), and names what "
        'this command would do: env imports a module: "evil:a/b-v0"; keywords.tools.mcp[0].command runs a command: '
        '["/bin/sh", "-c", "id"]. Look at it; if you want that, give --trust-config, or set MARFT_TRUST to a folder of '
        "records that you trust"
    )


def test_the_flag_and_the_variable_and_the_ledger_are_a_yes(config, tmp_path, monkeypatch):
    record = json.loads(config.read_text())
    assert read_config(config, trust=True) == record
    for root in (tmp_path / "other", tmp_path / "downloads" / "run2", tmp_path / "down"):
        monkeypatch.setenv("MARFT_TRUST", str(root))
        with pytest.raises(UntrustedConfigError):
            read_config(config)
    monkeypatch.setenv("MARFT_TRUST", f"{tmp_path / 'other'}:{tmp_path / 'downloads'}")
    assert read_config(config) == record
    monkeypatch.setenv("MARFT_TRUST", ":")  # nothing, and not the working directory
    monkeypatch.chdir(config.parent)
    with pytest.raises(UntrustedConfigError):
        read_config(config)
    write_json(config, record)
    with pytest.raises(UntrustedConfigError):
        read_config(config)
    write_json(config, record, own=True)
    assert read_config(config) == record
    config.write_text(config.read_text().replace("id", "ls"))
    with pytest.raises(UntrustedConfigError):
        read_config(config)


def test_a_link_out_of_a_trusted_folder_is_not_trusted(config, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").symlink_to(config)
    monkeypatch.setenv("MARFT_TRUST", str(tmp_path / "mine"))
    with pytest.raises(UntrustedConfigError):
        read_config(tmp_path / "mine" / "config.json")


def test_no_text_of_the_record_reaches_the_terminal_as_it_is(config):
    config.write_text(json.dumps({"env": "x:\x1b]0;a\x07\u202e" + "y" * 500, "keywords": {"\x1b[2J\n": "z"}}))
    with pytest.raises(UntrustedConfigError) as caught:
        read_config(config)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()
    assert "yyy..." in str(caught.value)
    assert len(str(caught.value)) < len(str(config)) + 700


def test_a_record_without_end_is_an_error(config):
    config.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_config(config)


def test_experiments_are_read_without_trust_where_nothing_is_used(config):
    record = {"env": "evil:a/b-v0"}
    config.write_text(json.dumps(record))
    assert read_config(config, Uses(only=("models",))) == record
    with pytest.raises(UntrustedConfigError):
        read_config(Path(config), Uses(only=("env",)))
