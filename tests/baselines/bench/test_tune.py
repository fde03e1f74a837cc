"""Settings of single arms, and grids whose best cell on validation problems is tested."""

import json
import shutil

import pytest

from baselines.bench.plan_errors import PlanError
from baselines.bench.plan_file import plan_of, read_plan
from baselines.bench.run import Bench, open_folder, run_bench
from baselines.bench.run_unit import Folder, training_experiment
from baselines.bench.units import Cell, Training, units_of
from baselines.cli.main import main
from baselines.results.bench_records import export
from marft_agents.runs.run_folder import write_json
from tests.helpers.bench_plan import PLAN, STORIES, records

TASK = {
    **STORIES,
    "test_split": "bench",
    "problems": 2,
    "max_new_tokens": 2,
    "training_tokens": 20,
    "settings": {"groups": 1, "group_size": 2, "policy_lr": 1e-5},
}
RATES = {"policy_lr": [1e-5, 1e-3]}
TUNE = {"split": "test", "problems": 3, "tokens": 8, "grid": RATES}
ARMS = ["team", "muted", "solo@tokens", "untrained"]


def plan(task=None, arms=ARMS, **top):
    return plan_of({"name": "tuned", "arms": arms, "tasks": [{**TASK, **(task or {})}], **top})


def trainings_of(found):
    return [unit for unit in units_of(found).values() if isinstance(unit, Training)]


def test_an_arm_has_its_own_settings_and_the_others_those_of_the_task(tmp_path):
    own = {"solo@tokens": {"policy_lr": 3e-5, "groups": 1}}
    found = plan({"arm_settings": own})
    team, solo = (training_experiment(found, each, Folder(tmp_path)) for each in trainings_of(found))
    assert (team.learner.policy_lr, solo.learner.policy_lr) == (1e-5, 3e-5)
    assert found.tasks[0].settings("solo@tokens") == {"policy_lr": 3e-5}  # groups = 1 is the task's, too
    assert found.tasks[0].settings("muted") == found.tasks[0].settings("untrained") == {}
    assert found.checksum != plan().checksum


def test_defaults_of_arm_settings_are_taken_one_by_one():
    shared = {
        "defaults": {"arm_settings": {"team": {"policy_lr": 1e-4, "ppo_epochs": 2}, "solo@tokens": {"top_p": 0.9}}}
    }
    found = plan({"arm_settings": {"team": {"policy_lr": 2e-4}}}, **shared)
    assert found.tasks[0].plan.arm_settings == {
        "team": {"policy_lr": 2e-4, "ppo_epochs": 2},
        "solo@tokens": {"top_p": 0.9},
    }


def test_a_plan_without_a_grid_has_no_trace_of_it():
    told = plan().to_dict()["tasks"][0]["plan"]
    assert not {"arm_settings", "tune"} & told.keys()
    assert plan({"arm_settings": {}}).checksum == plan().checksum


def test_the_cells_of_the_grid_come_before_the_trainings_whose_settings_they_choose():
    found = plan({"tune": TUNE}, training_seeds=[0, 1])
    units = units_of(found)
    tried = [unit for unit in units.values() if isinstance(unit, Cell) and unit.trial is not None]
    assert [(cell.arm, cell.trial) for cell in tried] == [
        ("team", 0),
        ("team", 1),
        ("solo@tokens", 0),
        ("solo@tokens", 1),
    ]
    seen = set()
    for name, unit in units.items():
        assert set(unit.needs) <= seen
        seen.add(name)
    for training in trainings_of(found):
        of_arm = tuple(cell.name for cell in tried if cell.arm == training.settings_of)
        assert training.trials == (() if training.trial is not None else of_arm)


def test_every_cell_of_the_grid_has_one_budget_whatever_ends_the_trainings_of_the_test(tmp_path):
    settings = {**TASK["settings"], "updates": 1}
    found = plan({"tune": {**TUNE, "seed": 7}, "training_tokens": 0, "settings": settings})
    tried = [unit for unit in trainings_of(found) if unit.trial is not None]
    assert len(tried) == 4
    for unit in tried:
        experiment = training_experiment(found, unit, Folder(tmp_path))
        assert (experiment.schedule.budget_tokens, experiment.schedule.updates) == (8, None)
        assert experiment.schedule.seed == 7
        assert experiment.learner.policy_lr == RATES["policy_lr"][unit.trial]


def test_equal_updates_go_on_with_the_settings_of_their_arm():
    task = {
        "env": "marft/shards_readers2-v0",
        "data": "",
        "teams": [],
        "solo": "",
        "max_new_tokens": 3,
        "context_window": 2000,
        "tune": TUNE,
    }
    found = plan(task, arms=["team", "solo@window", "solo@window@updates"])
    window, more = (unit for unit in trainings_of(found) if unit.arm and unit.trial is None)
    assert more.equal_updates
    assert window.trials == more.trials


@pytest.mark.parametrize(("scores", "chosen"), [((0.2, 0.6), 1e-3), ((0.6, 0.2), 1e-5), ((0.4, 0.4), 1e-5)])
def test_the_best_cell_is_chosen_and_of_equal_ones_the_first(tmp_path, scores, chosen):
    found, folder = plan({"tune": TUNE}), Folder(tmp_path)
    team = next(unit for unit in trainings_of(found) if unit.trials)
    for name, score in zip(team.trials, scores, strict=True):
        cell = units_of(found)[name]
        write_json(folder.record(cell), {"scores": [[score], [None]], "training_tokens": 8})
    assert training_experiment(found, team, folder).learner.policy_lr == chosen


def test_a_grid_may_be_a_list_of_cells_and_an_arm_may_have_its_own():
    cells = [{"policy_lr": 1e-5, "ppo_epochs": 2}, {"policy_lr": 1e-4}]
    found = plan({"tune": {**TUNE, "grids": {"solo@tokens": cells}}}).tasks[0]
    assert found.grid("solo@tokens") == cells
    assert found.grid("team") == found.grid("muted") == [{"policy_lr": 1e-5}, {"policy_lr": 1e-3}]
    both = {"policy_lr": [1, 2], "ppo_epochs": [3, 4]}
    assert len(plan({"tune": {**TUNE, "grid": both}}).tasks[0].grid("team")) == 4


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"arm_settings": {"solo": {}}}, "arm_settings.solo: found 'solo'; wanted one of the trained arms team"),
        ({"arm_settings": {"shared": {}}}, "arm_settings.shared: found 'shared'; wanted one of the trained arms"),
        ({"arm_settings": {"untrained": {}}}, "found 'untrained': it is not trained; wanted one of the trained arms"),
        ({"arm_settings": {"muted": {}}}, "found 'muted': it plays the training of 'team'; wanted one of"),
        ({"arm_settings": {"team": {"policy_rl": 1}}}, "arm_settings.team: unknown setting 'policy_rl'; did you mean"),
        ({"arm_settings": {"team": {"seed": 1}}}, "arm_settings.team: seed is set by the bench"),
        ({"arm_settings": {"team": {"updates": 1}}}, "arm_settings.team: updates: all arms are trained for as long"),
        ({"arm_settings": {"team": {"context_window": 9}}}, "context_window is a key of the task, and is the same for"),
        ({"arm_settings": {"team": {"policy_lr": [1]}}}, "arm_settings.team: policy_lr = [1], wanted a finite number"),
        ({"arm_settings": {"team": {"policy_lr": -1}}}, "policy_lr = -1, wanted > 0"),
        ({"arm_settings": {"team": 1}}, "arm_settings = {'team': 1}, wanted a table of arms and tables of settings"),
        ({"tune": 1}, "tasks[0]: tune = 1, wanted a table"),
        ({"tune": {**TUNE, "token": 3}}, "tasks[0]: tune: unknown key 'token'; did you mean tokens?"),
        ({"tune": {**TUNE, "tokens": 0}}, "tasks[0]: tune: tokens = 0, wanted >= 1"),
        ({"tune": {"tokens": 8, "grid": RATES}}, "tune: embedded:stories: found split 'validation', wanted one of"),
        (
            {"tune": {**TUNE, "split": "bench"}},
            "tune: split = 'bench' is that of the test problems",
        ),
        (
            {"tune": {**TUNE, "split": "train"}, "train_split": "bench", "test_split": "train"},
            "split = 'train' is that of the test problems",
        ),
        ({"tune": {**TUNE, "split": "train"}}, "3 of the 3 validation problems are also trained on"),
        ({"tune": {**TUNE, "problems": 9999}}, "tune: problems = 9999, but the split 'test' has 200"),
        ({"tune": {**TUNE, "grid": {}}}, "tune: grid = {}, wanted a table of settings and lists of values"),
        ({"tune": {**TUNE, "grid": {"policy_lr": 1}}}, "tune: grid = {'policy_lr': 1}, wanted a table of settings"),
        ({"tune": {**TUNE, "grid": {"policy_lr": [1]}}}, "tune: the grid of team has 1 cells, wanted at least 2"),
        ({"tune": {**TUNE, "grid": {"policy_lr": [1, "2"]}}}, "grid of team: policy_lr = '2', wanted a finite number"),
        ({"tune": {**TUNE, "grid": {"policy_lr": [1, -1]}}}, "policy_lr = -1, wanted > 0"),
        ({"tune": {**TUNE, "grid": {"seed": [1, 2]}}}, "tune: grid of team: seed is set by the bench"),
        ({"tune": {**TUNE, "grid": {"epochs": [1, 2]}}}, "grid of team: epochs: all arms are trained for as long"),
        ({"tune": {**TUNE, "grid": {"lr": [1, 2]}}}, "tune: grid of team: unknown setting 'lr'"),
        ({"tune": {**TUNE, "grids": {"team": {"policy_lr": [1, 2, 3]}}}}, "found grids of 3 of team, 2 of solo@tokens"),
        ({"tune": {**TUNE, "grids": {"muted": RATES}}}, "tune.grids.muted: found 'muted': it plays the training of"),
    ],
)
def test_settings_and_grids_that_compare_nothing_are_refused(task, told):
    with pytest.raises(PlanError) as refused:
        plan(task)
    assert told in str(refused.value)


def test_a_grid_of_a_plan_that_trains_nothing_is_refused():
    with pytest.raises(PlanError, match="tune: no arm of the plan is trained"):
        plan({"tune": TUNE}, arms=["untrained"])


TUNED = """test_split = "bench"
[tasks.arm_settings.team]
ppo_epochs = 2
[tasks.tune]
split = "test"
problems = 3
tokens = 8
grid = { policy_lr = [1e-5, 1e-3] }
[tasks.settings]
"""


@pytest.mark.long
def test_only_the_best_cell_is_tested_and_a_stopped_grid_goes_on(tmp_path, capsys):
    text = PLAN.format(arms='"team", "muted", "solo@tokens"', tokens=20).replace("[tasks.settings]", TUNED)
    (tmp_path / "plan.toml").write_text(text)
    assert main(["bench", str(tmp_path / "plan.toml"), "--check"]) == 0
    assert "stories--laptop_duo--team--marft-a--tune-1" in capsys.readouterr().out
    assert main(["bench", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out")]) == 0
    cells = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "out" / "cells").iterdir()}
    assert len(cells) == 3
    for name, cell in cells.items():
        [chosen] = {tuple(cell["tuned"]["chosen"].items())}
        best = max(cell["tuned"]["grid"], key=lambda tried: tried["success"])
        assert chosen == tuple(best["settings"].items())
        assert [tried["tokens"] for tried in cell["tuned"]["grid"]] == [8, 8]
        assert cell["settings"] == dict(chosen) | ({} if "solo" in name else {"ppo_epochs": 2})
        assert "trial" not in cell
    tried = json.loads((tmp_path / "out" / "tune" / "stories--laptop_duo--team--marft-a--tune-1.json").read_text())
    assert (tried["trial"], len(tried["scores"]), tried["evaluation_seeds"]) == (1, 3, [0])

    whole, found = records(tmp_path / "out"), read_plan(tmp_path / "plan.toml")
    shutil.rmtree(tmp_path / "out" / "cells")  # as if stopped in the grid: one cell and all that needs it are missing
    shutil.rmtree(tmp_path / "out" / "trainings")
    (tmp_path / "out" / "tune" / f"{tried['cell']}.json").unlink()
    bench = Bench(found, open_folder(found, tmp_path / "out", resume=True), "marft bench")
    run_bench(bench, 1)
    assert not bench.failed
    again = records(tmp_path / "out")
    assert all(whole[path] == record for path, record in again.items())
    assert {path for path in whole if path.parts[0] == "cells"} <= again.keys()

    export(list(cells.values()), tmp_path / "records.json")  # cells of the test alone: the grid does not run again
    assert (
        main(
            [
                "bench",
                str(tmp_path / "plan.toml"),
                "--out",
                str(tmp_path / "new"),
                "--records",
                str(tmp_path / "records.json"),
            ]
        )
        == 0
    )
    assert not (tmp_path / "new" / "tune").exists()
