"""Records of wrong types: the file and the line are named, with what was found and wanted; nothing else is raised."""

from __future__ import annotations

import copy
import itertools
import json
import re

import pytest
import torch  # noqa: F401 - else the first command says that it loads it

from baselines.cli.main import main
from baselines.experiment import record_shapes
from baselines.experiment.record_shapes import described, either, list_of, mapping_of, nullable, pair_of, record
from baselines.report.episode_set import EpisodeError
from baselines.report.page import build_report, report_content
from baselines.report.sources import SourceError, read_source
from baselines.results.bench_records import RecordsError, read_records
from baselines.results.comparison import ComparisonError, compare, read_evaluation
from baselines.results.table_text import markdown, to_json
from baselines.results.tables import tables_of
from tests.baselines.report.report_inputs import episode, run

OTHER = [None, True, -3, 2.5, 10**400, float("nan"), float("inf"), "x", "", "9" * 5000, [], {}, [[]], {"a": []}]
DEEP = '{"a": ' * 400 + "1" + "}" * 400
CELL = {
    **{"schema": "marft.bench.cell/1", "plan": "p", "plan_checksum": "c", "cell": "x", "task": "t", "team": "duo"},
    **{
        "arm": "team",
        "algorithm": "marft-a",
        "training_seed": 0,
        "evaluation_seeds": [0],
        "command": "marft",
        "commit": "c",
    },
    "rules": {"env": "e", "data": "d", "model": "m", "horizon": 1, "feedback": "none", "temperature": 0.8},
    "scenarios": {"count": 3, "checksum": "sha256:1"},
    "cohorts": {"level": [1, 2, 1]},
    **{"scores": [[0.0], [1.0], [None]], "answers": 3, "output_tokens_per_answer": 2.0, "cap_hit_share": 0.5},
    **{"failed_episodes": 1, "training_tokens": 10, "training_seconds": 1.0, "seconds": 2.0, "failure": None},
    "ledger": {"training": {}, "evaluation": {"team": {"ideal_cache_tokens": 5}, "critical_path_tokens": None}},
    "vote": {"samples": 3},
    "training": "t--duo",
    "curve": {
        "training": {"tokens": [0, 9], "success": [0.1, 0.5]},
        "validation": {"tokens": [0, 10], "success": [0.2, 0.4]},
    },
    "settings": {"policy_lr": 0.001},
    "tuned": {
        "grid": [{"settings": {"policy_lr": 0.001}, "success": 0.5, "tokens": 9}],
        "chosen": {"policy_lr": 0.001},
    },
}


def paths_of(value, path=()):
    """Yield the path of every value inside of a record; of long lists the first two."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, one in inner:
        yield from paths_of(one, (*path, key))


def changed(value, path, new):
    """Return a copy of a record with one value replaced, or left out where the new value is Ellipsis."""
    found = copy.deepcopy(value)
    inside = found
    for key in path[:-1]:
        inside = inside[key]
    if new is ...:
        del inside[path[-1]]
    else:
        inside[path[-1]] = new
    return found


def mutants(value):
    """Yield a record with each of its values replaced by another, in turn, or left out."""
    others = itertools.cycle(OTHER)
    for path in paths_of(value):
        for new in (..., next(others)):
            yield path, new, changed(value, path, new)


def dumped(value, file):
    """Return a record as the text of its file, where it is the first line."""
    text = json.dumps(value)
    if file.suffix != ".jsonl":
        return text
    lines = file.read_text().splitlines(keepends=True)
    return "".join([f"{text}\n", *lines[1:]])


def assert_named(error, file):
    where = f"{file}:1" if file.suffix == ".jsonl" else str(file)
    assert str(error).startswith(where), error
    assert "wanted" in str(error) or "no record" in str(error) or "not JSON" in str(error), error


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = run(tmp_path_factory.mktemp("records") / "duo", updates=1, episodes=1)
    (path / "versions.json").write_text(json.dumps({"python": "3.11", "torch": "2"}))
    return path


FILES = [
    *("config.json", "versions.json", "metrics.jsonl", "alarms.jsonl", "episodes.jsonl", "attribution.json"),
    *("before/evaluation.json", "after/episodes.jsonl"),
]


@pytest.mark.parametrize("name", FILES)
def test_a_report_names_the_file_of_every_wrong_value(folder, name):
    file = folder / name
    before = file.read_text()
    value = json.loads(before.splitlines()[0])
    refused = 0
    try:
        for path, new, other in mutants(value):
            file.write_text(dumped(other, file))
            try:
                report_content(read_source(folder))
            except (SourceError, EpisodeError) as error:
                assert_named(error, file)
                refused += 1
            except Exception as error:
                raise AssertionError(f"{path} = {new!r:.60}: {type(error).__name__}: {error}") from error
    finally:
        file.write_text(before)
    assert refused or name == "versions.json"


@pytest.mark.parametrize("name", [name for name in FILES if name != "attribution.json"])  # found by its content
@pytest.mark.parametrize("content", ["7", "null", '"x"', "[]", "[1]", "{", "\udcff", "[" * 3000 + "]" * 3000, DEEP])
def test_a_file_of_another_kind_is_named(folder, name, content):
    file = folder / name
    before = file.read_bytes()
    try:
        file.write_bytes(content.encode("utf-8", "surrogateescape") + b"\n")
        with pytest.raises((SourceError, EpisodeError), match=re.escape(str(file))):
            report_content(read_source(folder))
    finally:
        file.write_bytes(before)


def test_the_whole_command_says_so_in_one_line(folder, capsys, tmp_path):
    file = folder / "episodes.jsonl"
    before = file.read_text()
    file.write_text(before + json.dumps(changed(episode(1), ("turns", 0, "reward"), "high\x1b")) + "\n")
    try:
        assert main(["report", str(folder), "--out", str(tmp_path / "r.html")]) == 1
    finally:
        file.write_text(before)
    error = capsys.readouterr().err
    wanted = "episodes.jsonl:2: this is no record of an episode: turns[0].reward: found text 'high"
    assert wanted in error
    assert error.rstrip().endswith("wanted a number or null")
    assert error.count("\n") == 1
    assert not (tmp_path / "r.html").exists()


def test_comparing_names_the_file_of_every_wrong_value(folder):
    file = folder / "before" / "evaluation.json"
    before = file.read_text()
    messages = []
    try:
        for path, new, other in mutants(json.loads(before)):
            file.write_text(json.dumps(other))
            try:
                one, two = read_evaluation(file), read_evaluation(folder / "after" / "evaluation.json")
                found = compare([one], [two], ["temperature", "horizon"])
                found.rows(), found.totals()
            except ComparisonError as error:
                messages.append(str(error))
            except Exception as error:
                raise AssertionError(f"{path} = {new!r:.60}: {type(error).__name__}: {error}") from error
    finally:
        file.write_text(before)
    assert len(messages) > 25
    assert all(str(file) in message or "--allow-different" in message for message in messages)


@pytest.mark.parametrize("exported", [False, True])
def test_benchmarks_name_the_file_of_every_wrong_value(tmp_path, exported):
    (tmp_path / "cells").mkdir()
    place, value = tmp_path / "cells" / "x.json", CELL
    if exported:
        place = tmp_path / "e.json"
        cell = {name: one for name, one in CELL.items() if name != "cohorts"}
        value = {"schema": "marft.bench.records/1", "cohorts": {"sha256:1": CELL["cohorts"]}, "cells": [cell]}
    messages = []
    for path, new, other in mutants(value):
        place.write_text(json.dumps(other))
        try:
            tables = tables_of(read_records([place if exported else tmp_path]))
            markdown(tables), to_json(tables)
        except RecordsError as error:
            messages.append(str(error))
        except Exception as error:
            raise AssertionError(f"{path} = {new!r:.60}: {type(error).__name__}: {error}") from error
    assert len(messages) > 50
    assert all(str(place) in message for message in messages)
    place.write_text(json.dumps(value))
    assert build_report(place if exported else tmp_path)


def test_trainings_of_a_benchmark_are_checked(tmp_path):
    for name in ("cells", "trainings"):
        (tmp_path / name).mkdir()
    (tmp_path / "cells" / "x.json").write_text(json.dumps(CELL))
    (tmp_path / "trainings" / "y.json").write_text(json.dumps({"success": ["high"]}))
    with pytest.raises(SourceError, match=r"y\.json: success\[0\]: found text 'high', wanted a number or null"):
        build_report(tmp_path)


@pytest.mark.parametrize(
    ("shape", "value", "message"),
    [
        (record({"a": record_shapes.NUMBER}), {"a": "x"}, "a: found text 'x', wanted a number"),
        (record({"a": record_shapes.NUMBER}), {}, "found no field 'a', wanted one"),
        (record(a=record_shapes.NUMBER), {"b": 1}, None),
        (record_shapes.NUMBER, True, "found true, wanted a number"),
        (record_shapes.FINITE, float("nan"), "found number nan, wanted a finite number"),
        (record_shapes.NUMBER, 10**400, "found a very large number, wanted a number"),
        (list_of(nullable(record_shapes.TEXT)), ["a", None, 3], "[2]: found number 3, wanted text or null"),
        (list_of(length=2), [1], "found list of 1, wanted a list of 2"),
        (mapping_of(list_of(record_shapes.FLAG)), {"a": [True, 1]}, "a[1]: found number 1, wanted true or false"),
        (pair_of(record_shapes.NUMBER, record_shapes.TEXT), [1, 2], "[1]: found number 2, wanted text"),
        (either(record_shapes.TEXT, list_of()), {}, "found object, wanted text or a list"),
        (either(record_shapes.TEXT, list_of()), [], None),
    ],
)  # fmt: skip
def test_a_mismatch_says_where_what_and_what_is_wanted(shape, value, message):
    found = shape(value)
    assert (None if found is None else str(found)) == message


def test_every_value_has_a_description():
    assert all(described(value) for value in OTHER)
