"""Tests of reading records and of the overview of a report: curves, gains, cohorts, costs, refusals."""

from __future__ import annotations

import json

import pytest

from baselines.report.overview import cohorts_of, comparison, curves, overview, trainings
from baselines.report.sources import SourceError, kind_of, read_source
from marft_agents.intervals import wilson
from tests.baselines.report.report_inputs import AGENTS, evaluation, run


def test_a_run_brings_its_evaluations_attribution_alarms_and_episodes(tmp_path):
    source = read_source(run(tmp_path / "duo"))
    assert source.kind == "run"
    assert [one.label for one in source.evaluations] == ["before", "after"]
    assert [name for name, _ in source.attributions] == ["attribution"]
    assert [one.label for one in source.episodes] == ["training", "before", "after"]
    [side] = overview(source)["sides"]
    assert dict(side["facts"]) == {"environment": "marft/tools_trio-v0", "algorithm": "marft-a", "model": "tiny"}
    assert side["alarms"][0]["kind"] == "collapse"
    assert [done for done, *_ in side["validations"]] == [1, 4]


def test_the_gain_of_training_is_paired_with_the_untrained_team(tmp_path):
    [side] = overview(read_source(run(tmp_path / "duo")))["sides"]
    [gain] = side["gains"]
    assert (gain["before"], gain["after"]) == ("before", "after")
    assert gain["difference"][0] == pytest.approx(gain["b"] - gain["a"])
    assert json.dumps(side, allow_nan=False)  # browsers read no NaN


def test_metrics_become_columns_with_nothing_in_place_of_what_is_no_number():
    found = curves([{"a/x": 1, "text": "no"}, {"a/x": float("nan"), "a/y": 0.123456789}])
    assert found == {"a/x": [1, None], "a/y": [None, 0.123457]}


def test_costs_add_up_by_agent_and_unknown_measures_are_kept(tmp_path):
    [side] = overview(read_source(run(tmp_path / "duo", updates=4)))["sides"]
    assert side["ledger"]["team"] == {"output_tokens": 200.0, "turns": 48.0}
    assert side["ledger"]["agents"] == {agent: {"output_tokens": 40.0} for agent in AGENTS}
    assert side["ledger"]["seconds"] == {"rollout": 6.0, "update": 10.0}
    assert side["evaluations"][0]["ledger"]["team"]["new_count"] == 5
    assert side["evaluations"][0]["ledger"]["seconds"] == {"generation": 3.0}


def test_numbers_and_tables_of_an_evaluation_that_are_new_are_shown(tmp_path):
    path = evaluation(tmp_path / "eval", 4)
    record = json.loads((path / "evaluation.json").read_text())
    tools = {"team": {"calls": 7, "by_name": {"look": 7}}, "agents": {AGENTS[0]: {"calls": 7}}}
    new = {"return": 0.5, "terms": {"task": 0.4}, "tools": tools, "max_turns": 9, "greedy": True}
    (path / "evaluation.json").write_text(json.dumps(record | new))
    [side] = overview(read_source(path))["sides"]
    [one] = side["evaluations"]
    assert one["numbers"] == {"tokens_per_episode": 30.0, "failures": 0, "return": 0.5, "term_task": 0.4}
    assert one["tables"]["tools"]["agents"] == {AGENTS[0]: {"calls": 7}}


def test_cohorts_average_seeds_first_and_have_wilson_intervals():
    scores = [[1.0, 0.0], [1.0, None], [None, None], [0.0, 0.0]]
    [found] = cohorts_of(scores, {"level": [10, 10, 9, 9], "same": ["x"] * 4})
    assert found == {
        "name": "level",
        "rows": [
            {"value": "9", "scenarios": 1, "interval": list(wilson(0.0, 1))},
            {"value": "10", "scenarios": 2, "interval": list(wilson(0.75, 2))},
        ],
    }


def test_a_comparison_lists_settings_that_differ_and_refuses_other_scenarios(tmp_path):
    a, b = evaluation(tmp_path / "a", 12, 0.2), evaluation(tmp_path / "b", 12, 0.9)
    record = json.loads((b / "evaluation.json").read_text())
    (b / "evaluation.json").write_text(json.dumps(record | {"law": {"temperature": 0.7}}))
    found = comparison(a, b)
    assert found["differing"] == ["temperature"]
    assert [row["cohort"] for row in found["rows"]] == [None, ["level", "1"], ["level", "2"], ["level", "3"]]
    (b / "evaluation.json").write_text(json.dumps(record | {"scenario_checksum": "sha256:two"}))
    assert "played other scenarios" in comparison(a, b)["error"]


def test_a_benchmark_brings_tables_and_learning_curves(tmp_path, bench):
    source = read_source(bench(tmp_path / "bench"))
    [side] = overview(source)["sides"]
    assert source.kind == "bench"
    assert [row["arm"] for row in side["tables"][0]["rows"]] == ["untrained", "team"]
    assert trainings(tmp_path / "bench") == side["trainings"]
    assert side["trainings"][0]["success"] == [0.1, 0.4]
    assert side["trainings"][0]["tokens"] == [0, 10]  # generated before the episodes of each update


@pytest.fixture
def bench():
    """Return a function that writes a folder of a benchmark with two arms."""

    def write(path):
        for arm, score, seed in (("untrained", 0.0, None), ("team", 1.0, 0)):
            record = {"schema": "marft.bench.cell/1", "plan": "p", "plan_checksum": "c", "task": "copy", "team": "duo"}
            record |= {"arm": arm, "algorithm": "marft-a" if seed == 0 else "", "cell": arm, "training_seed": seed}
            record |= {"evaluation_seeds": [0], "command": "marft bench p", "commit": "abc", "failure": None}
            rules = dict.fromkeys(("env", "data", "model", "feedback"), "x") | {"horizon": 1, "temperature": 1.0}
            record |= {"rules": rules, "scenarios": {"count": 4, "checksum": "sha256:0"}, "cohorts": {}}
            record |= {"scores": [[score], [0.0], [score], [1.0]], "answers": 4, "output_tokens_per_answer": 5.0}
            record |= {"cap_hit_share": 0.0, "failed_episodes": 0, "training_tokens": None, "training_seconds": None}
            ledger = {"team": {"ideal_cache_tokens": 10}, "critical_path_tokens": 5}
            record |= {"ledger": {"evaluation": ledger}, "seconds": 1.0}
            (path / "cells").mkdir(parents=True, exist_ok=True)
            (path / "cells" / f"{arm}.json").write_text(json.dumps(record))
        (path / "trainings").mkdir()
        training = {"task": "copy", "team": "duo", "algorithm": "marft-a", "seed": 0}
        training |= {"success": [0.1, 0.4], "tokens_by_update": [10, 20]}
        (path / "trainings" / "copy--duo--seed-0.json").write_text(json.dumps(training))
        return path

    return write


def test_a_path_without_records_is_refused_with_what_was_wanted(tmp_path):
    (tmp_path / "notes.json").write_text("{}")
    for path in (tmp_path, tmp_path / "notes.json", tmp_path / "nowhere"):
        assert kind_of(path) is None
        with pytest.raises(SourceError, match="wanted a run of `marft train`"):
            read_source(path)


def test_an_unreadable_file_is_named(tmp_path):
    path = run(tmp_path / "duo")
    (path / "metrics.jsonl").write_text('{"update": 0}\nno json\n')
    with pytest.raises(SourceError, match=r"metrics\.jsonl:2 is not JSON"):
        read_source(path)
    (path / "metrics.jsonl").write_text('{"update": 0}\n{"upda')  # being written
    assert len(read_source(path).metrics) == 1
    (path / "config.json").write_text("[]")
    with pytest.raises(SourceError, match="found list, wanted an object"):
        read_source(path)


def test_changes_by_agent_are_those_of_training_with_the_kl_of_a_comparison_in_the_run(tmp_path):
    path = run(tmp_path / "duo")
    [side] = overview(read_source(path))["sides"]
    [pair] = side["changes"]
    assert (pair["before"], pair["after"], pair["kl"]) == ("before", "after", {})
    assert list(pair["agents"]) == [*AGENTS, "team"]
    assert pair["terms"]["task"]["b"] > pair["terms"]["task"]["a"]
    sides = {name: [str(path / label / "evaluation.json")] for name, label in (("a", "before"), ("b", "after"))}
    kl = {"kl": {AGENTS[0]: {"mean": 0.2, "low": 0.1, "high": 0.3}, AGENTS[1]: "it is no local model on side A"}}
    compared = {"schema": "marft.compare/1", **sides, "by_agent": kl}
    (path / "by_agent.json").write_text(json.dumps(compared))
    [side] = overview(read_source(path))["sides"]
    assert side["changes"][0]["kl"] == kl["kl"]
    (path / "by_agent.json").write_text(json.dumps(compared | {"by_agent": {"kl": 3}}))
    with pytest.raises(SourceError, match=r"by_agent.kl: found number 3"):
        read_source(path)
    for label in ("before", "after"):
        (path / label / "episodes.jsonl").unlink()
    (path / "by_agent.json").unlink()
    [side] = overview(read_source(path))["sides"]
    assert side["changes"] == []
