"""Forecasts of plans: units, tokens and core hours, and the time that is left as units end."""

import dataclasses
import json

import pytest

from baselines.bench.forecast import Costs, answer_tokens, expected, forecast, time_left, time_unknown, works_of
from baselines.bench.plan_file import plan_of
from baselines.bench.timed_update import LARGEST, TimedUpdate, UntimedError, refuse_large
from baselines.bench.units import Cell, Training, units_of
from tests.baselines.bench.test_plan import SHARDS
from tests.baselines.bench.test_tune import TASK, TUNE

ARMS = ["team", "shuffled", "solo@tokens"]


def plan(task=None, arms=ARMS, **top):
    return plan_of({"name": "p", "arms": arms, "tasks": [{**TASK, **(task or {})}], **top})


def cell_record(found, arm, *, seconds, answers=2, cores=2.0, checksum=None, **further):
    return {
        "plan_checksum": checksum or found.checksum,
        "task": "stories",
        "arm": arm,
        "rules": {"model": "tiny"},
        "answers": answers,
        "seconds": seconds,
        "cpu_seconds": cores * seconds,
        "training": f"of {arm}",
        "training_tokens": None,
        "failure": None,
        **further,
    }


def training_record(found, *, seconds, tokens=20, solo=False):
    return {
        "name": f"{solo}",
        "plan_checksum": found.checksum,
        "task": "stories",
        "arm": "",
        "solo": solo,
        "sharing": "separate",
        "tokens": tokens,
        "seconds": seconds,
        "cpu_seconds": 2 * seconds,
        "failure": None,
    }


def by_kind(found):
    units = list(units_of(found).values())
    cells = {unit.arm: unit for unit in units if isinstance(unit, Cell)}
    return units, cells, [unit for unit in units if isinstance(unit, Training)]


def test_work_is_tokens_of_trainings_and_answers_of_cells():
    found = plan({"tune": TUNE}, evaluation_seeds=[0, 1])
    units, works = units_of(found), works_of(found, units_of(found).values())
    assert {name: works[name] for name, unit in units.items() if "--tune-" in name} == {
        name: TUNE["tokens"] if isinstance(unit, Training) else TUNE["problems"]
        for name, unit in units.items()
        if "--tune-" in name
    }
    arms = {unit.arm: works[name] for name, unit in units.items() if isinstance(unit, Cell) and unit.trial is None}
    assert arms == {"team": 4, "shuffled": 8, "solo@tokens": 4}  # two problems, two seeds; shuffled is played twice
    assert {works[unit.name] for unit in units.values() if isinstance(unit, Training) and unit.trial is None} == {20}
    assert (
        works_of(plan({"problems": 0}), by_kind(plan({"problems": 0}))[0])["stories--laptop_duo--team--marft-a--seed-0"]
        == 400
    )


def test_without_a_budget_the_tokens_are_the_most_that_the_updates_can_generate():
    found = plan({"training_tokens": 0, "settings": {"groups": 1, "group_size": 2, "updates": 5}})
    units, _, trainings = by_kind(found)
    assert {works_of(found, units)[unit.name] for unit in trainings} == {5 * 1 * 2 * 4}  # two turns of two tokens


def test_an_agent_with_the_updates_of_the_team_spends_more_tokens_where_its_episodes_are_longer():
    two_rounds = {**SHARDS, "keywords": {"lines": 2}}
    found = plan_of({"name": "p", "arms": ["team", "solo@window", "solo@window@updates"], "tasks": [two_rounds]})
    task = found.tasks[0]
    longer = dataclasses.replace(task.controls["solo@window"], horizon=5)
    found = dataclasses.replace(found, tasks=(dataclasses.replace(task, controls={"solo@window": longer}),))
    trainings = [unit for unit in units_of(found).values() if isinstance(unit, Training)]
    assert [answer_tokens(found.tasks[0], arm, "readers2") for arm in ("team", "solo@window")] == [9, 15]
    assert list(works_of(found, trainings).values()) == [8, 8, 14]  # 8 * 15 / 9


def test_the_most_special_measurement_counts():
    found, foreign = plan(), "another plan"
    units, cells, [team, solo] = by_kind(found)
    works, costs = works_of(found, units), Costs(found)
    assert costs.of(team, 20) is None
    costs.add_timed(TimedUpdate("tiny", "stories", 10, 2, 10.0, 20.0, 0.5))
    assert costs.of(team, 20) == (20, 20.0, 40.0)
    assert costs.of(cells["team"], 2) == (2, 5.0, 10.0)
    assert costs.add_records([], [cell_record(found, "team", seconds=8.0, checksum=foreign)]) == 1
    assert costs.of(cells["solo@tokens"], 2) == (2, 8.0, 16.0)
    costs.add_records([training_record(found, seconds=6.0)], [cell_record(found, "shuffled", seconds=3.0)])
    assert costs.of(team, 20).seconds == costs.of(solo, 20).seconds == 6.0  # of the task
    assert costs.of(cells["shuffled"], 4).seconds == 3.0
    assert costs.of(cells["team"], 2).seconds == 1.5
    costs.add_training(training_record(found, seconds=2.0, solo=True))
    assert (costs.of(team, 20).seconds, costs.of(solo, 20).seconds) == (6.0, 2.0)
    assert expected(costs, [team, solo, cells["team"]], works) == ((42, 9.5, 19.0), 0)


def test_cells_of_an_export_tell_the_time_of_their_trainings_once():
    found = plan()
    _, cells, [team, _] = by_kind(found)
    told = {"training": "one", "training_tokens": 20, "training_seconds": 5.0}
    costs = Costs(found)
    records = [
        cell_record(found, "team", seconds=1.0, cores=1.5, **told),
        cell_record(found, "shuffled", seconds=1.0, **told),
    ]
    failed = {**records[0], "failure": "OSError: no space left"}
    assert costs.add_records([], [failed, *records]) == 2
    assert costs.of(team, 20) == (20, 5.0, 7.5)
    assert costs.of(cells["team"], 2).seconds == 1.0


def test_the_forecast_says_how_much_and_how_it_knows():
    found = plan({"tune": TUNE})
    units, _, _ = by_kind(found)
    works, costs = works_of(found, units), Costs(found)
    start = (
        "forecast: 6 trainings (4 of them of a grid), 7 evaluations (4 of them of a grid); "
        "72 generated training tokens, at most 80 tokens of answers; "
    )
    assert forecast(found, units, costs, works) == f"{start}core hours unknown until the first unit is done"
    costs.add_training(training_record(found, seconds=3600))
    costs.sources.append("measured: 1 units of this plan")
    assert forecast(found, units, costs, works) == (
        f"{start}7.2 core hours and 7 units of unknown time (measured: 1 units of this plan)"
    )
    assert forecast(found, [], costs, works) == "forecast: all units are done"
    assert time_left(costs, units, works, 1) == ""  # an estimate without the evaluations would be none
    costs.add_cell(cell_record(found, "team", seconds=60))
    assert time_left(costs, units, works, 1) == "3 h 46 min left"
    assert time_left(costs, units, works, 2) == "1 h 53 min left"
    assert time_left(costs, [], works, 1) == ""


def test_a_model_that_cannot_be_timed_is_no_error(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(UntimedError, match="too large to be loaded for a forecast"):
        refuse_large(str(tmp_path))
    with pytest.raises(UntimedError, match="no-such-owner/no-such-model are not on this machine"):
        refuse_large("no-such-owner/no-such-model")
    found = plan({"settings": {"groups": 1, "group_size": 2, "ray": "local"}})
    units, _, _ = by_kind(found)
    costs = Costs(found)
    time_unknown(costs, units, works_of(found, units))
    assert costs.sources == ["tiny not timed: its trainings need more than one process"]
    assert not costs.sums


def test_an_update_of_the_model_is_timed_where_nothing_was_measured():
    found = plan()
    units, _, _ = by_kind(found)
    works, costs = works_of(found, units), Costs(found)
    time_unknown(costs, units, works)
    assert costs.sources[0].startswith("timed: an update of tiny with ")
    cost, unknown = expected(costs, units, works)
    assert unknown == 0
    assert cost.seconds > 0
    before = json.dumps([*map(str, costs.sums)])
    time_unknown(costs, units, works)  # what is measured is not timed again
    assert json.dumps([*map(str, costs.sums)]) == before
    assert len(costs.sources) == 1
