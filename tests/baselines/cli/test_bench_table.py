"""The table of `marft bench`, from records made by hand."""

import json

import numpy as np
import pytest

from baselines.cli.bench_table import main
from baselines.results.statistics import holm, paired_difference
from baselines.results.tables import (
    END,
    START,
    RecordsError,
    export,
    fill_page,
    markdown,
    read_records,
    tables_of,
    tasks_as_arms,
)


def ledger(tokens):
    return {"team": {"ideal_cache_tokens": 10 * tokens}, "critical_path_tokens": tokens, "agents": {}}


def record(arm, seed, scores, **changes):
    count, sampled = len(scores), len(scores[0])
    return {
        "schema": "marft.bench.cell/1",
        "plan": "hand",
        "plan_checksum": "c0ffee",
        "cell": f"t--duo--{arm}--{seed}",
        "task": "t",
        "team": "duo",
        "arm": arm,
        "algorithm": "" if seed is None else "marft-a",
        "training_seed": seed,
        "evaluation_seeds": list(range(sampled)),
        "command": "marft bench hand.toml --out out",
        "commit": "abc",
        "failure": None,
        "rules": {"env": "e", "data": "", "model": "m", "horizon": 1, "feedback": "none", "temperature": 1.0},
        "scenarios": {"count": count, "checksum": "f00d"},
        "cohorts": {"level": [1] * count},
        "scores": scores,
        "answers": count * sampled,
        "output_tokens_per_answer": 6.0,
        "cap_hit_share": 0.25,
        "failed_episodes": 0,
        "training_tokens": None if seed is None else 100 + seed,
        "training_seconds": None if seed is None else 7.0,
        "seconds": 3.0,
        "ledger": {"training": None, "evaluation": ledger(2 * count * sampled)},
    } | changes


TEAM = [[[1, 1], [1, 0], [0, 0], [1, 1]], [[1, 1], [1, 1], [0, 1], [1, 1]]]
SOLO = [[[0, 1], [1, 0], [0, 0], [1, 1]], [[0, 0], [1, 0], [0, 0], [1, 0]]]


def hand():
    solo = [record("solo@tokens", seed, scores) for seed, scores in enumerate(SOLO)]
    return [*(record("team", seed, scores) for seed, scores in enumerate(TEAM)), *solo]


def test_the_numbers_are_those_of_the_statistics_module():
    [table] = tables_of(hand())
    worst, best = table.rows
    assert (worst.arm, best.arm) == ("solo@tokens", "team")  # worst row first
    means = {"team": np.mean(TEAM, axis=2), "solo": np.mean(SOLO, axis=2)}
    assert best.success[0] == pytest.approx(means["team"].mean())
    wanted = paired_difference(means["solo"], means["team"])
    assert best.difference == pytest.approx((wanted.mean, wanted.low, wanted.high))
    assert best.p_value == pytest.approx(holm([wanted.p_value])[0])
    assert best.detectable == pytest.approx(wanted.detectable)
    assert worst.difference is None
    assert worst.p_value is None
    assert (best.seeds, best.training_tokens, best.seconds, best.failures) == (2, 100.5, 20.0, 0)
    assert (best.output_tokens, best.ideal_cache_tokens, best.critical_path_tokens) == (6.0, 20.0, 2.0)


def test_the_coordination_gap_is_what_one_agent_with_all_tools_does_better():
    assert all(row.coordination_gap is None for row in tables_of(hand())[0].rows)
    divided = [{**one, "rules": {**one["rules"], "divided_tools": True}} for one in hand()]
    [table] = tables_of(divided)
    mean, low, high = paired_difference(np.mean(TEAM, axis=2), np.mean(SOLO, axis=2))[:3]
    found = {row.arm: row.coordination_gap for row in table.rows}
    assert found == {"team": pytest.approx((mean, low, high)), "solo@tokens": None}
    told = f"Coordination gap of duo, marft-a (one agent with all tools - team): {mean:+.3f} [{low:+.3f}, {high:+.3f}]."
    assert told in markdown([table])
    assert all(row.coordination_gap is None for row in tables_of(divided, "team")[0].rows)


def test_p_values_are_adjusted_over_the_rows():
    records = [*hand(), *(record("muted", seed, TEAM[1 - seed]) for seed in (0, 1))]
    [table] = tables_of(records)
    raw = {"team": TEAM, "muted": TEAM[::-1]}
    solo = np.mean(SOLO, axis=2)
    wanted = holm([paired_difference(solo, np.mean(raw[arm], axis=2)).p_value for arm in ("team", "muted")])
    found = {row.arm: row.p_value for row in table.rows}
    assert [found["team"], found["muted"]] == pytest.approx(wanted)


def test_an_untrained_team_is_compared_with_every_seed():
    [table] = tables_of([*hand(), record("untrained", None, [[0, 0]] * 4)])
    row = next(row for row in table.rows if row.arm == "untrained")
    wanted = paired_difference(np.mean(SOLO, axis=2), np.zeros((1, 4)))
    assert row.difference[0] == pytest.approx(wanted.mean)
    assert row.seeds == 0
    assert row.success[2] > 0.3  # four problems without a success say little


def test_seeds_that_one_arm_lacks_are_left_out_of_the_difference():
    [table] = tables_of([*hand(), record("team", 2, [[0, 0]] * 4)])
    row = next(row for row in table.rows if row.arm == "team")
    assert row.seeds == 3
    assert row.difference[0] == pytest.approx(np.mean(TEAM) - np.mean(SOLO))


def test_failed_episodes_are_left_out_and_failed_cells_are_told():
    scores = [[1, None], [None, None], [0, 1], [1, 1]]
    failed = record("muted", 0, [[0]], failure="OSError: no space left")
    [table] = tables_of([record("team", 0, scores, failed_episodes=3), failed])
    assert table.rows[0].success[0] == pytest.approx((1 + 0.5 + 1) / 3)
    assert table.failed == ("t--duo--muted--0: OSError: no space left",)
    assert "Failed cell t--duo--muted--0: OSError: no space left" in markdown([table])
    assert "Noise floor" in markdown([table])


def test_above_several_tables_stands_an_overview_with_the_worst_task_first():
    ones, zeros = [[1.0]] * 4, [[0.0]] * 4
    easy = [record("team", 0, ones, task="easy"), record("untrained", None, zeros, task="easy")]
    hard = [record("team", 0, zeros, task="hard", cell="hard")]
    shown = markdown(tables_of([*easy, *hard])).splitlines()
    assert shown[2] == "| task | team | algorithm | team | untrained | team - solo@tokens | MDE |"
    assert [line.split(" | ")[0] for line in shown[4:6]] == ["| hard", "| easy"]
    assert shown[4].endswith("| - | - | - |")  # no untrained team, and no agent to compare with
    assert markdown(tables_of(easy)).startswith("### easy")


def test_updates_and_episodes_stand_beside_tokens_where_records_tell_them():
    told = {"training_updates": 4, "training_episodes": 256}
    [older], [newer] = tables_of(hand()), tables_of([{**each, **told} for each in hand()])
    assert "| updates | episodes |" in markdown([newer])
    assert "| 4.0 | 256 |" in markdown([newer])
    assert "updates" not in markdown([older])


def test_arms_of_other_windows_are_refused_but_for_the_one_that_sees_everything():
    rules = record("team", 0, SOLO[0])["rules"]
    cells = [record("team", 0, TEAM[0], rules={**rules, "context_window": 288})]
    whole = record("solo@whole", 0, SOLO[0], rules={**rules, "context_window": 0})
    assert "at most 288 tokens, but of solo@whole" in markdown(tables_of([*cells, whole]))
    with pytest.raises(RecordsError, match=r"cells differ in context_window \(.* 288, .* none\)"):
        tables_of([*cells, record("solo@window", 0, SOLO[0])])


def test_another_reference_can_be_chosen():
    [table] = tables_of(hand(), "team")
    assert [row.difference is None for row in table.rows] == [False, True]
    assert table.rows[0].difference[0] == pytest.approx(np.mean(SOLO) - np.mean(TEAM))


def test_tasks_that_differ_in_one_setting_can_be_the_rows_of_one_table():
    loud, mute = [[1], [1], [0], [1]], [[0], [1], [0], [0]]
    records = [record("team", seed, loud, task="full", cell=f"full-{seed}") for seed in (0, 1)]
    records += [record("team", seed, mute, task="none", cell=f"none-{seed}") for seed in (0, 1)]
    [table] = tables_of(tasks_as_arms(records), "full")
    assert [(row.arm, row.success[0]) for row in table.rows] == [("none", 0.25), ("full", 0.75)]
    assert table.rows[0].difference[0] == pytest.approx(-0.5)
    with pytest.raises(RecordsError, match="found the arms muted, team; wanted one"):
        tasks_as_arms([*records, record("muted", 0, mute)])


def test_other_scenarios_and_the_same_cell_twice_are_refused(tmp_path):
    other = record("muted", 0, TEAM[0], scenarios={"count": 4, "checksum": "beef"})
    with pytest.raises(RecordsError, match="cells play different scenarios"):
        tables_of([*hand(), other])
    first, *others = hand()
    half = first | {"rules": first["rules"] | {"dtype": "bfloat16"}}
    with pytest.raises(RecordsError, match=r"cells differ in dtype \(auto, bfloat16\)"):
        tables_of([half, *others])
    for name in ("a", "b"):
        (tmp_path / name / "cells").mkdir(parents=True)
        (tmp_path / name / "cells" / "x.json").write_text(json.dumps(hand()[0]))
    with pytest.raises(RecordsError, match="is there twice"):
        read_records([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(RecordsError, match="holds no records"):
        read_records([tmp_path / "c"])
    (tmp_path / "a" / "cells" / "x.json").write_text('{"schema": "other/1"}')
    with pytest.raises(RecordsError, match="found the schema 'other/1'"):
        read_records([tmp_path / "a"])


def test_an_export_gives_the_same_table_and_a_page_gets_it(tmp_path, capsys):
    records = hand()
    export(records, tmp_path / "records.json")
    again = read_records([tmp_path / "records.json"])
    assert again == records
    page = tmp_path / "teams.md"
    page.write_text(f"# Teams\n\n{START}\nold\n{END}\nafter\n")
    assert main([str(tmp_path / "records.json"), "--page", str(page), "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert page.read_text() == f"# Teams\n\n{START}\n\n{printed}\n{END}\nafter\n"
    assert "marft bench hand.toml --out out" in printed
    assert "Commit abc." in printed
    with pytest.raises(RecordsError, match="no place for tables"):
        fill_page("# Teams", printed)


def test_json_holds_no_nan(tmp_path, capsys):
    export([record("team", 0, [[None]])], tmp_path / "records.json")
    assert main([str(tmp_path / "records.json"), "--json"]) == 0
    [table] = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert table["rows"][0]["success"][0] is None
