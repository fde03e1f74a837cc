"""The JSON Schemas of docs/schemas describe the files that the commands write, and those that they read."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from baselines.cli.main import main
from marft_agents.metric_names import METRICS
from marft_envs.teams import team as teams

ROOT = Path(__file__).parents[3]
SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "docs/schemas").glob("*.json")}
GAME = "--env marft/gsm8k_duo-v0 --data embedded:stories --max-new-tokens 4"
TRAIN = f"train {GAME} --model tiny --updates 2 --groups 2 --group-size 2 --validate-every 1 --validate-on test:3"


def valid(name, record):
    jsonschema.validate(record, SCHEMAS[name], cls=jsonschema.Draft202012Validator)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make one file of each format."""
    folder = tmp_path_factory.mktemp("formats")
    commands = [
        f"{TRAIN} --out {folder}/run",
        f"eval {GAME} --checkpoint {folder}/run --limit 3 --save-scenarios {folder}/list.json --out {folder}/a",
        f"eval {GAME} --checkpoint {folder}/run@update-00001 --scenarios {folder}/list.json --out {folder}/b",
        f"compare {folder}/a {folder}/b --json {folder}/difference.json",
    ]
    for command in commands:
        assert main(command.split()) == 0
    return folder


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_describes_each_key(name):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    for part in (SCHEMAS[name], *SCHEMAS[name].get("$defs", {}).values()):
        assert all(entry.get("description") is not None for entry in part["properties"].values())
        assert set(part.get("required", ())) <= set(part["properties"])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("config", "run/config.json"),
        ("versions", "run/versions.json"),
        ("surface", "run/surface.json"),
        ("surface", "a/surface.json"),
        ("evaluation", "a/evaluation.json"),
        ("evaluation", "b/evaluation.json"),
        ("scenarios", "list.json"),
        ("comparison", "difference.json"),
    ],
)
def test_a_written_file_is_as_described(made, name, file):
    valid(name, json.loads((made / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("name", "file"),
    [("metrics", "run/metrics.jsonl"), ("episodes", "run/episodes.jsonl"), ("episodes", "a/episodes.jsonl")],
)
def test_every_line_of_a_written_file_is_as_described(made, name, file):
    lines = (made / file).read_text(encoding="utf-8").splitlines()
    assert lines
    for line in lines:
        valid(name, json.loads(line))


def test_every_metric_of_a_run_is_in_the_table_of_names(made):
    for line in (made / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines():
        for name in json.loads(line):
            prefix, _, measure = name.rpartition("/")
            measure = "term_NAME" if measure.startswith("term_") else measure
            about = METRICS[prefix if prefix in METRICS else "AGENT"]
            assert measure in about[1], f"{name} is missing in marft_agents.metric_names.METRICS"


@pytest.mark.parametrize("path", sorted(Path(teams.__file__).parent.glob("presets/*.json")), ids=lambda path: path.stem)
def test_the_teams_of_the_suite_are_as_described(path):
    valid("team", json.loads(path.read_text(encoding="utf-8")))


def test_rows_that_the_pages_show_are_as_described():
    from tests.house.house_pages import blocks

    rows = {b.file: b.text.splitlines() for b in blocks("docs/data.md") if (b.file or "").endswith(".jsonl")}
    for name, file in (("problems", "mine.jsonl"), ("tool_tasks", "labels.jsonl"), ("tool_tasks", "stall.jsonl")):
        for row in rows[file]:
            valid(name, json.loads(row))


def test_a_file_of_another_form_is_refused():
    with pytest.raises(jsonschema.ValidationError, match="'profiles' is a required property"):
        valid("team", {"name": "nobody"})
    with pytest.raises(jsonschema.ValidationError, match="unexpected"):
        valid("config", dict.fromkeys(SCHEMAS["config"]["required"]) | {"colour": "red"})
