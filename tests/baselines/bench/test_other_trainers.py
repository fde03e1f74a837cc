"""Arms whose one agent is trained by rejection sampling or by TRL: their units, records and refusals."""

import importlib.util

import pytest

from baselines.bench.arms import FOR_ANY_TEAM, OTHER_TRAINERS
from baselines.bench.plan_errors import PlanError
from baselines.bench.plan_file import plan_of, read_plan
from baselines.bench.run import Bench, open_folder, run_bench
from baselines.bench.run_unit import Folder, training_experiment
from baselines.bench.trl_training import TRL_DEFAULTS
from baselines.bench.units import Cell, Training, units_of
from tests.helpers.bench_plan import PLAN

TASK = {
    "name": "stories",
    "env": "marft/gsm8k_duo-v0",
    "data": "embedded:stories",
    "model": "tiny-words",
    "teams": ["laptop_duo"],
    "solo": "laptop_solo",
    "test_split": "bench",
    "problems": 2,
    "max_new_tokens": 3,
    "training_tokens": 20,
    "settings": {"groups": 1, "group_size": 2},
}
ARMS = ["team", "solo@tokens", "rft@tokens", "trl@tokens"]


def plan(task=None, arms=ARMS, **top):
    return plan_of({"name": "trainers", "arms": arms, "tasks": [{**TASK, **(task or {})}], **top})


def units(found, kind):
    return [unit for unit in units_of(found).values() if isinstance(unit, kind)]


def test_they_train_the_one_agent_as_solo_at_tokens_does_and_play_it_once_per_seed(tmp_path):
    found = plan(algorithms=["marft-a", "grpo"], training_seeds=[0, 1])
    cells = [(cell.arm, cell.algorithm, cell.seed) for cell in units(found, Cell) if cell.arm in OTHER_TRAINERS]
    assert cells == [(arm, name, seed) for seed in (0, 1) for arm, name in OTHER_TRAINERS.items()]
    trained = [unit for unit in units(found, Training) if unit.solo and unit.seed == 0]
    solo, *others = [unit for unit in trained if unit.algorithm != "grpo"]
    told = [training_experiment(found, unit, Folder(tmp_path)) for unit in (solo, *others)]
    assert [unit.arm for unit in (solo, *others)] == ["", "rft@tokens", "trl@tokens"]
    assert told[0] == told[1] == told[2]  # environment, prompts, adapters, tokens per answer and budget
    assert told[0].sampling.max_new_tokens == 2 * 3


def test_without_training_tokens_they_wait_for_the_tokens_of_the_team():
    found = plan({"training_tokens": 0}, arms=ARMS[2:])
    team, *others = units(found, Training)
    assert [unit.needs for unit in others] == [(team.name,), (team.name,)]
    assert not team.solo


def test_a_grid_holds_the_defaults_of_trl_beside_rates(tmp_path):
    cells = [{"policy_lr": 1e-3}, dict(TRL_DEFAULTS)]
    found = plan({"tune": {"split": "test", "problems": 2, "tokens": 8, "grid": cells}})
    tried = [unit for unit in units(found, Training) if unit.arm == "trl@tokens" and unit.trial is not None]
    rates = [training_experiment(found, unit, Folder(tmp_path)) for unit in tried]
    assert [(one.learner.policy_lr, one.schedule.groups, one.schedule.group_size) for one in rates] == [
        (1e-3, 1, 2),
        (1e-6, 1, 8),
    ]


def test_plans_that_name_no_arms_do_not_have_them():
    assert not {"rft@tokens", "trl@tokens"} & set(FOR_ANY_TEAM)
    assert plan_of({"name": "all", "tasks": [TASK]}).arms == FOR_ANY_TEAM


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"horizon": 2}, "is played for 2 rounds, and a completion of TRL is one turn"),
        ({"arm_settings": {"trl@tokens": {"group_size": 1, "centring": "batch"}}}, "group_size = 1: TRL compares"),
        ({"keywords": {"dependency": {"kind": "routed", "by": "reasoner_0"}}}, "cannot be matched in tokens"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(task, told):
    with pytest.raises(PlanError, match=told):
        plan(task, arms=ARMS[2:] if "keywords" in task else ARMS)


def test_without_trl_its_arm_is_refused_with_the_extra_to_install(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "trl" else real(name, *rest))
    with pytest.raises(PlanError, match=r"the package trl is missing: pip install .*\[trl\]"):
        plan()
    assert plan(arms=ARMS[:3]).arms == tuple(ARMS[:3])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")  # of TRL
def test_their_records_have_what_those_of_other_arms_have(tmp_path):
    file = tmp_path / "plan.toml"
    arms = ", ".join(f'"{arm}"' for arm in ARMS[1:])
    file.write_text(PLAN.format(arms=arms, tokens=20).replace('"tiny"\nteams', '"tiny-words"\nteams'))
    found = read_plan(file)
    folder = open_folder(found, tmp_path / "out", resume=False)
    bench = Bench(found, folder, "marft bench")
    run_bench(bench, 1)
    assert not bench.failed
    cells = {cell.arm: folder.read(cell.name) for cell in units(found, Cell)}
    solo = cells["solo@tokens"]
    for arm in ARMS[2:]:
        cell = cells[arm]
        assert cell.keys() == solo.keys()
        assert (cell["rules"], cell["scenarios"]) == (solo["rules"], solo["scenarios"])
        assert 20 <= cell["training_tokens"] < 20 + 2 * 4  # the last update reaches the budget
        training = folder.read(cell["training"])
        assert training["tokens_by_update"][-1] == training["tokens"] == cell["training_tokens"]
        assert len(training["success"]) == training["updates"] == cell["training_updates"]
        assert training["ledger"]["team/output_tokens_sum"] == training["tokens"]
        assert training["experiment"]["algorithm"] == cell["algorithm"]
