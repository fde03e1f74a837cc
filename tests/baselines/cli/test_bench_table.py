"""The table of `marft bench`, from records made by hand."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from baselines.cli.bench_table import main
from baselines.results.bench_records import RecordsError, export, read_records
from baselines.results.statistics import holm, paired_difference
from baselines.results.table_text import END, START, fill_page, markdown, to_json
from baselines.results.tables import tables_of, tasks_as_arms


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


# Two seeds of 32 problems, so that claims may rest on a row.
TEAM = [[[1, 1], [1, 0], [0, 0], [1, 1]] * 8, [[1, 1], [1, 1], [0, 1], [1, 1]] * 8]
SOLO = [[[0, 1], [1, 0], [0, 0], [1, 1]] * 8, [[0, 0], [1, 0], [0, 0], [1, 0]] * 8]


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
    [table] = tables_of([*hand(), record("untrained", None, [[0, 0]] * 32)])
    row = next(row for row in table.rows if row.arm == "untrained")
    wanted = paired_difference(np.mean(SOLO, axis=2), np.zeros((1, 32)))
    assert row.difference[0] == pytest.approx(wanted.mean)
    assert row.seeds == 0
    assert 0.1 < row.success[2] < 0.12  # Wilson's upper end of 0 in 32: z^2 / (32 + z^2)


def test_seeds_that_one_arm_lacks_are_left_out_of_the_difference():
    [table] = tables_of([*hand(), record("team", 2, [[0, 0]] * 32)])
    row = next(row for row in table.rows if row.arm == "team")
    assert row.seeds == 3
    assert row.difference[0] == pytest.approx(np.mean(TEAM) - np.mean(SOLO))


# ------------------------------------------------------------------ rows that no claim can rest on


def row_of(table, arm):
    [found] = [row for row in table.rows if row.arm == arm]
    return found


def first_of(share, count=125):
    """Scores of which a share is 1, in one sample."""
    return [[float(place < round(share * count))] for place in range(count)]


def test_a_row_of_one_seed_has_no_p_and_says_what_its_interval_holds_for():
    [table] = tables_of([record("team", 0, TEAM[1]), record("solo@tokens", 0, SOLO[1])])
    team = row_of(table, "team")
    assert (team.p_value, team.detectable) == (None, None)
    gains = np.mean(TEAM[1], axis=1) - np.mean(SOLO[1], axis=1)
    assert team.difference == pytest.approx((gains.mean(), *stats.ttest_1samp(gains, 0).confidence_interval()))
    assert [row.limits for row in table.rows] == [
        ("one training seed: the interval holds for these teams, not for their training",)
    ] * 2
    shown = markdown([table])
    assert "| team † | duo | marft-a | 1 |" in shown
    assert "† all rows: one training seed: the interval holds for these teams, not for their training." in shown
    assert "† No claim can rest on this row: no p, no MDE" in shown
    assert not any("<0.001" in line or "MDE, the smallest" in line for line in shown.splitlines())


def test_a_row_of_one_seed_does_not_count_for_holm():
    extra = record("muted", 0, SOLO[1])
    [alone], [beside] = tables_of(hand()), tables_of([*hand(), extra])
    assert row_of(beside, "team").p_value == row_of(alone, "team").p_value
    assert row_of(beside, "muted").limits[0].startswith("one training seed")
    assert row_of(beside, "team").limits == ()
    assert "† muted: one training seed: " in markdown([beside])


def test_an_untrained_team_beside_one_training_carries_no_claim_either():
    [table] = tables_of([record("untrained", None, TEAM[0]), record("solo@tokens", 0, SOLO[0])])
    [limit] = row_of(table, "untrained").limits
    assert limit.startswith("one training seed of the difference")
    [table] = tables_of([record("untrained", None, TEAM[0]), *hand()])
    assert row_of(table, "untrained").limits == ()


@pytest.mark.parametrize(("arm", "other"), [("team", "solo@tokens"), ("solo@tokens", "team")])
def test_a_difference_over_fewer_seeds_than_the_success_says_so(arm, other):
    both, one = [first_of(0.8), first_of(0.864)], first_of(0.8)
    records = [record(arm, seed, scores) for seed, scores in enumerate(both)]
    [table] = tables_of([*records, record(other, 0, one)])
    team = row_of(table, "team")
    assert row_of(table, arm).success[0] == pytest.approx(0.832)
    assert asdict(team.unequal) == {
        "seeds": (0,),
        "success": pytest.approx(0.8),
        "reference": pytest.approx(0.8),
    }
    assert (team.p_value, team.detectable) == (None, None)
    shown = markdown([table])
    [line] = [line for line in shown.splitlines() if line.startswith("| team")]
    assert " | +0.000 [-0.029, +0.029] over seed 0 | - | - |" in line
    assert "the difference of team is over seed 0, which both arms have. There the means are 0.800 and 0.800." in shown


def test_the_means_of_the_common_seeds_differ_by_the_difference():
    extra = [record("team", 2, first_of(0.1, 32)), record("team", 3, first_of(0.2, 32))]
    [table] = tables_of([*hand(), *(one | {"scores": [row * 2 for row in one["scores"]]} for one in extra)])
    team = row_of(table, "team")
    assert team.unequal.seeds == (0, 1)
    assert team.unequal.success == pytest.approx(np.mean(TEAM))
    assert team.unequal.reference == pytest.approx(np.mean(SOLO))
    assert team.difference[0] == pytest.approx(np.mean(TEAM) - np.mean(SOLO))
    assert "over seeds 0, 1 |" in markdown([table])
    assert team.limits == ()


def test_arms_without_a_common_seed_are_not_compared():
    [table] = tables_of([record("team", 5, TEAM[0]), record("team", 6, TEAM[1]), *hand()[2:]])
    team = row_of(table, "team")
    assert (team.difference, team.p_value) == (None, None)
    assert team.limits == ("no training seed and problem was scored both here and in solo@tokens",)


def test_a_vote_of_one_sample_is_no_arm_that_is_tested():
    votes = [record("vote@tokens", seed, scores, vote={"samples": 1}) for seed, scores in enumerate(TEAM)]
    [alone], [beside] = tables_of(hand()), tables_of([*hand(), *votes])
    vote = row_of(beside, "vote@tokens")
    assert (vote.difference, vote.p_value, vote.detectable) == (None, None, None)
    assert vote.success[0] == pytest.approx(np.mean(TEAM))
    assert row_of(beside, "team").p_value == row_of(alone, "team").p_value
    assert "† vote@tokens: a vote of one sample is one more answer of the one agent" in markdown([beside])
    of_three = [one | {"vote": {"samples": 3}} for one in votes]
    [table] = tables_of([*hand(), *of_three])
    assert row_of(table, "vote@tokens").limits == ()
    assert row_of(table, "vote@tokens").p_value is not None


def test_few_problems_and_many_failed_episodes_carry_no_claim():
    short = [one | {"scores": one["scores"][:29], "scenarios": {"count": 29, "checksum": "f00d"}} for one in hand()]
    [table] = tables_of(short)
    assert row_of(table, "team").p_value is None
    assert row_of(table, "team").limits == ("scored on fewer than 30 problems, where intervals of shares are rough",)
    lost = hand()
    lost[2] = lost[2] | {"scores": [[None, None]] * 3 + lost[2]["scores"][3:]}  # 6 of 128 answers of the one agent
    assert row_of(tables_of(lost)[0], "team").limits == ()
    lost[2] = lost[2] | {"scores": [[None, None]] * 4 + lost[2]["scores"][4:]}  # 8 of 128
    [limit] = row_of(tables_of(lost)[0], "team").limits
    assert limit == "more than 5% of the answers failed, here or in the arm that it is compared with"


def test_no_difference_of_shares_is_said_to_be_larger_than_one():
    even = [record("solo@tokens", seed, [[0]] * 32) for seed in (0, 1)]
    odd = [record("team", seed, [[seed]] * 31 + [[0]]) for seed in (0, 1)]
    [table] = tables_of([*even, *odd])
    assert max(row.detectable or 0 for row in table.rows) > 1
    assert "| > 1 |" in markdown([table])
    assert "with 80 % power: > 1 to > 1." in markdown([table])


def test_settings_of_an_arm_and_the_grid_they_come_from_stand_under_the_table():
    assert "Settings" not in markdown(tables_of(hand()))
    trials = [
        {"settings": {"policy_lr": lr}, "success": score, "tokens": 900} for lr, score in ((0.001, 0.25), (3e-4, 0.5))
    ]
    own = {"settings": {"policy_lr": 3e-4}, "tuned": {"grid": trials, "chosen": {"policy_lr": 3e-4}}}
    [table] = tables_of([one | own if one["arm"] == "team" else one for one in hand()])
    shown = markdown([table])
    assert "Settings of team: policy_lr = 0.0003.\n" in shown
    told = "policy_lr = 0.001: 0.250 after 900 tokens; policy_lr = 0.0003: 0.500 after 900 tokens"
    assert (
        f"Settings of team were chosen on validation tasks. Success by trial: {told}. Chosen: policy_lr = 0.0003."
        in shown
    )
    assert json.loads(to_json([table]))[0]["rows"][1]["tuned"] == [own["tuned"]]


def test_failed_episodes_are_left_out_and_failed_cells_are_told():
    scores = [[1, None], [None, None], [0, 1], [1, 1]]
    failed = record("muted", 0, [[0]], failure="OSError: no space left")
    [table] = tables_of([record("team", 0, scores, failed_episodes=3), failed])
    assert table.rows[0].success[0] == pytest.approx((1 + 0.5 + 1) / 3)
    assert table.failed == ("t--duo--muted--0: OSError: no space left",)
    assert "Failed cell t--duo--muted--0: OSError: no space left" in markdown([table])
    assert "Noise floor" in markdown([table])


def test_above_several_tables_stands_an_overview_with_the_worst_task_first():
    ones, zeros = [[1.0]] * 32, [[0.0]] * 32
    easy = [record("team", seed, ones, task="easy") for seed in (0, 1)]
    easy.append(record("untrained", None, zeros, task="easy"))
    hard = [record("team", seed, zeros, task="hard") for seed in (0, 1)]
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


def test_a_reference_that_no_record_has_is_refused(tmp_path):
    export(hand(), tmp_path / "records.json")
    with pytest.raises(RecordsError, match="--reference taem: the records have no such arm; did you mean team"):
        main([str(tmp_path / "records.json"), "--reference", "taem"])


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
    other = record("muted", 0, TEAM[0], scenarios={"count": 32, "checksum": "beef"})
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


@pytest.mark.parametrize(
    "page", ["teams", "layers", "communication", "algorithms", "ladder", "profile", "shards", "slope"]
)
def test_tables_on_pages_are_those_that_their_command_writes(page, tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    place = Path(f"docs/benchmarks/{page}.md")
    text = place.read_text().replace("\\\n", " ")
    [command] = re.findall(rf"^python -m baselines\.cli\.bench_table (.*) --page +{place}$", text, re.MULTILINE)
    command = re.sub(r"(\S+)\{(.*)\}(\S+)", lambda m: " ".join(m[1] + name + m[3] for name in m[2].split(",")), command)
    copy = tmp_path / "page.md"
    copy.write_text(place.read_text())
    assert main([*command.split(), "--page", str(copy)]) == 0
    assert copy.read_text() == place.read_text()
