"""Learning curves of a benchmark's arms, and the budget at which two meet, against numbers worked out otherwise."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from baselines.cli.bench_table import main
from baselines.results import table_text
from baselines.results.bench_records import RecordsError, export, read_records
from baselines.results.curve_picture import HeldOut, spread, styles_of
from baselines.results.learning_curves import stays_above
from baselines.results.table_text import markdown, save_curves
from baselines.results.tables import tables_of
from tests.baselines.cli.test_bench_table import SOLO, TEAM, record

# Three seeds: tokens and success of the team and of the one agent.
TEAM_CURVES = [([0, 100, 200, 300], [0.0, 0.4, 0.5, 0.9]), ([0, 110, 220, 330], [0.1, 0.2, 0.7, 0.8])]
TEAM_CURVES.append(([0, 90, 200, 310], [0.0, 0.1, 0.3, 0.5]))
SOLO_CURVES = [([0, 60, 120, 280], [0.3, 0.4, 0.4, 0.5]), ([0, 80, 160, 320], [0.2, 0.4, 0.5, 0.4])]
SOLO_CURVES.append(([0, 70, 150, 300], [0.3, 0.3, 0.5, 0.6]))


def trained(arm, seed, points, source="training", **changes):
    tokens, success = points
    curve = {"training": {"tokens": [0], "success": [0.0]}, source: {"tokens": tokens, "success": success}}
    scores = TEAM[seed % 2] if arm == "team" else SOLO[seed % 2]
    return record(arm, seed, scores, **{"training": f"{arm}-{seed}", "curve": curve} | changes)


def both(**changes):
    team = [trained("team", seed, points, **changes) for seed, points in enumerate(TEAM_CURVES)]
    return team + [trained("solo@tokens", seed, points, **changes) for seed, points in enumerate(SOLO_CURVES)]


def difference_at(tokens, seeds):
    """Mean difference of some seeds, one may be there several times."""
    total = 0.0
    for seed in seeds:
        total += np.interp(tokens, *TEAM_CURVES[seed]) - np.interp(tokens, *SOLO_CURVES[seed])
    return total / len(seeds)


def scanned(seeds, end=280):
    """The meeting, looked for token by token from the end."""
    last = None
    for tokens in range(end, -1, -1):
        if difference_at(tokens, seeds) <= 0:
            break
        last = tokens
    return math.inf if last is None else last


def test_a_curve_is_the_mean_and_the_range_over_seeds_where_all_are_known():
    [table] = tables_of(both())
    team, solo = table.curve.arms
    assert (table.curve.source, team.arm, solo.arm) == ("training", "team", "solo@tokens")
    assert team.seeds == (0, 1, 2)
    assert team.tokens == (0, 90, 100, 110, 200, 220, 300)  # every count that was measured, up to the shortest curve
    place = team.tokens.index(200)
    at_200 = [0.5, 0.2 + (0.7 - 0.2) * 90 / 110, 0.3]
    assert team.mean[place] == pytest.approx(sum(at_200) / 3)
    assert (team.low[place], team.high[place]) == pytest.approx((0.3, max(at_200)))


def test_two_arms_meet_where_the_mean_of_the_common_seeds_stays_above():
    [table] = tables_of(both())
    [meeting] = table.curve.meetings
    assert (meeting.arm, meeting.seeds, meeting.within) == ("team", (0, 1, 2), 280)
    assert meeting.tokens == pytest.approx(scanned((0, 1, 2)), abs=1)
    # All 27 draws of three seeds are equally likely. One alone has more than 2.5 %, so the interval is the range.
    every = [scanned(seeds) for seeds in itertools.product(range(3), repeat=3)]
    assert max(every) == math.inf
    assert meeting.low == pytest.approx(min(every), abs=1)
    assert meeting.high is None
    assert meeting.share == pytest.approx(np.isfinite(every).mean(), abs=0.02)
    told = f"team {meeting.tokens:,.0f} [{meeting.low:,.0f}, not within 280]"
    assert f"above that of solo@tokens [95 % bootstrap over common seeds]: {told}." in markdown([table])


def test_an_arm_that_ends_below_does_not_meet():
    [table] = tables_of(both(), "team")
    [meeting] = table.curve.meetings
    assert (meeting.arm, meeting.tokens, meeting.within) == ("solo@tokens", None, 280)
    assert "solo@tokens not within 280 [" in markdown([table])
    lower = [trained("team", seed, (tokens, [0.0] * 4)) for seed, (tokens, _) in enumerate(TEAM_CURVES)]
    [table] = tables_of([*lower, *both()[3:]])
    assert table.curve.meetings[0].share == 0
    assert "team not within 280 [nor in 100% of resamples]." in markdown([table])


def test_one_common_seed_gives_no_interval():
    [table] = tables_of([*both()[:3], both()[4]])
    [meeting] = table.curve.meetings
    assert meeting.seeds == (1,)
    assert (meeting.low, meeting.high, meeting.share) == (None, None, None)
    assert meeting.tokens == pytest.approx(scanned([1], 320), abs=1)
    assert f"team {meeting.tokens:,.0f} (one seed, no interval)" in markdown([table])


def test_a_crossing_is_interpolated_and_equal_curves_do_not_meet():
    tokens = [0, 10, 20]
    found = stays_above(tokens, [[-1, -1, 3], [1, 2, 3], [1, 1, 0], [1, 1, -1], [0, 0, 2], [0.1 + 0.2 - 0.3, 0, 5e-17]])
    assert found.tolist() == [12.5, 0, math.inf, math.inf, 10, math.inf]


def test_validation_is_used_where_every_trained_arm_has_it():
    [table] = tables_of(both(source="validation"))
    assert table.curve.source == "validation"
    assert "success on held-out validation tasks" in markdown([table])
    [mixed] = tables_of([*both(source="validation")[:3], *both()[3:]])
    assert mixed.curve.source == "training"
    assert "success of the episodes that are trained on" in markdown([mixed])


@pytest.mark.parametrize("seeds", [3, 2])
def test_arms_that_play_one_training_share_its_curve(seeds):
    muted = [one | {"arm": "muted", "cell": f"muted-{one['cell']}"} for one in both()[:seeds]]
    [table] = tables_of([*muted, *both()])
    assert [curve.arm for curve in table.curve.arms] == ["team", "solo@tokens"]


def test_tasks_of_one_name_with_other_problems_are_told_apart_by_their_plan():
    other = [one | {"plan": "other", "plan_checksum": "2"} for one in both()]
    assert [table.task for table in tables_of([*both(), *other])] == ["t"]  # the same problems: one table
    moved = [one | {"scenarios": one["scenarios"] | {"checksum": "sha256:other"}} for one in other]
    assert [table.task for table in tables_of([*both(), *moved])] == [f"{both()[0]['plan']} t", "other t"]


@pytest.mark.parametrize("seeds", [3, 2])
def test_a_picture_has_a_point_for_each_training(monkeypatch, tmp_path, seeds):
    drawn = {}
    monkeypatch.setattr(table_text, "draw_curves", lambda panels, path: drawn.update(panels))
    muted = [one | {"arm": "muted", "cell": f"muted-{one['cell']}"} for one in both()[:seeds]]
    tables = tables_of([*muted, *both()])
    save_curves(tables, tmp_path / "x.png")
    [(curves, points)] = drawn.values()
    assert curves == tables[0].curve
    rows = {row.key: row for row in tables[0].rows}
    assert [point.key[0] for point in points] == ["solo@tokens", "team"]
    assert [point.success for point in points] == [rows[point.key].success for point in points]
    assert [point.tokens for point in points] == [rows[point.key].training_tokens for point in points]


def test_an_arm_has_one_colour_in_all_panels_and_no_other_arm_of_a_panel_has_it():
    def points(*keys):
        return None, [HeldOut(key, 1, 0.0, (0.5, 0.4, 0.6)) for key in keys]

    one = [("team", "duo", "ppo"), ("team", "trio", "ppo"), ("solo", "duo", "ppo"), ("untrained", "duo", "")]
    two = [("solo", "readers", "grpo"), ("team", "readers", "grpo")]
    found = styles_of({"one": points(*one), "two": points(*two)})
    assert found["one"][one[0]] == found["two"][two[1]]
    assert found["one"][one[2]] == found["two"][two[0]]
    assert len({style["color"] for style in found["one"].values()}) == 4


def test_records_without_curves_have_none():
    [table] = tables_of([record("team", 0, TEAM[0], curve=None), record("solo@tokens", 0, SOLO[0])])
    assert table.curve is None
    assert "Learning curves" not in markdown([table])
    with pytest.raises(RecordsError, match="hold no learning curves"):
        save_curves([table], Path("x.png"))


def test_exports_keep_curves_and_the_command_draws_them(tmp_path, capsys):
    export(both(), tmp_path / "records.json")
    assert read_records([tmp_path / "records.json"]) == both()
    picture = tmp_path / "pictures" / "curve.png"
    assert main([str(tmp_path / "records.json"), "--curve", str(picture), "--json"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    [drawn] = json.loads(picture.with_suffix(".json").read_text())
    [table] = json.loads(capsys.readouterr().out)
    assert drawn == {"task": "t", "reference": "solo@tokens"} | table["curve"]
    with pytest.raises(RecordsError, match=r"wanted a name that ends in \.png"):
        main([str(tmp_path / "records.json"), "--curve", str(tmp_path / "curve.svg")])


def test_older_cells_get_the_curve_of_their_training(tmp_path):
    for name in ("cells", "trainings"):
        (tmp_path / name).mkdir()
    old = record("team", 0, TEAM[0], training="duo-0")
    (tmp_path / "cells" / "a.json").write_text(json.dumps(old))
    (tmp_path / "trainings" / "duo-0.json").write_text('{"success": [0.1, 0.4], "tokens_by_update": [10, 25]}')
    [found] = read_records([tmp_path])
    assert found["curve"] == {"training": {"tokens": [0, 10], "success": [0.1, 0.4]}}
    (tmp_path / "trainings" / "duo-0.json").write_text('{"success": [0.1, 0.4, 0.2], "tokens_by_update": [25, 10, 40]}')
    with pytest.raises(RecordsError, match=r"curve\.training\.tokens: found numbers that descend, wanted ascending"):
        read_records([tmp_path])


def test_names_at_lines_keep_their_distance_and_their_order():
    assert spread([0.1, 0.9], 0.1) == pytest.approx([0.1, 0.9])
    assert spread([0.0, 0.0], 0.1) == pytest.approx([0.1, 0.0])  # not below the axis
    found = spread([0.5, 0.65, 0.66, 0.67, 0.68], 0.1)
    assert found == pytest.approx([0.632 - 0.2 + 0.1 * place for place in range(5)])  # all together, around their mean
