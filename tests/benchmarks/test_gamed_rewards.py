"""The page about gamed rewards shows the record, and the table is worked by hand."""

import json
from pathlib import Path

from baselines.probes.claimed_chores import REWARDS
from benchmarks.gamed_rewards import MEASURES, RECORD, draw, table


def test_the_page_has_the_table_of_the_record():
    record = json.loads(RECORD.read_text("utf-8"))
    trainings = {name: list(record["trainings"][name].values()) for name in REWARDS}
    assert [len(seeds) for seeds in trainings.values()] == [3] * len(REWARDS)
    page = Path(__file__).parents[2] / "docs" / "gamed_rewards.md"
    assert table(trainings) in page.read_text("utf-8")
    assert RECORD.with_suffix(".png").is_file()


def test_a_cell_is_the_mean_of_the_last_updates_over_seeds(tmp_path):
    flat = {measure: [0.0] * 4 for measure in MEASURES}
    seeds = [flat | {"claimed": [9.0, 0.2, 0.2, 0.4, 0.4]}, flat | {"claimed": [9.0, 0.5, 0.5, 0.5, 0.5]}]
    assert "| x | 2 | 0.00 [0.00, 0.00] | 0.40 [0.30, 0.50] |" in table({"x": seeds})
    draw({"x": [{**flat, "claimed": [0.5] * 4}] * 2}, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
