"""Plans of `marft bench`: what they come to, and everything that is refused before it runs."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

import marft_envs
from baselines.bench.arms import ARMS, CONTROLS, FOR_ANY_TEAM
from baselines.bench.longest_prompts import check_prompts
from baselines.bench.plan_checks import _check_window
from baselines.bench.plan_errors import PlanError
from baselines.bench.plan_file import plan_of, read_plan
from baselines.bench.run import open_folder
from baselines.bench.run_unit import Folder, training_experiment
from baselines.bench.units import Cell, Training, cells_of, units_of
from baselines.cli.bench import PLANS, bundled_plans
from baselines.cli.main import main
from marft_agents.models.chat_template import encode
from marft_agents.models.context_window import ContextOverflowError
from marft_agents.models.pretrained import load_tokenizer
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.run_folder import write_json
from marft_envs import register_task
from marft_envs.game.task import Outcome, Task, TaskList
from marft_envs.registration.registry import _REGISTRY
from tests.helpers.bench_plan import STORIES

TASK = {
    **STORIES,
    "problems": 4,
    "max_new_tokens": 3,
    "training_tokens": 8,
    "settings": {"groups": 1, "group_size": 2},
}
SHARDS = {
    "name": "shards",
    "env": "marft/shards_readers2-v0",
    "model": "tiny",
    "problems": 4,
    "max_new_tokens": 3,
    "context_window": 2000,
    "training_tokens": 8,
    "settings": {"groups": 1, "group_size": 2},
}
WITH_CONTROLS = ["team", "shared", *CONTROLS, "solo@window@updates"]
RESULTS = Path(__file__).parents[3] / "docs" / "benchmarks" / "results"


def plan(task=None, **top):
    return plan_of({"name": "tiny", "tasks": [{**TASK, **(task or {})}], **top})


def refusal(task=None, **top):
    with pytest.raises(PlanError) as refused:
        plan(task, **top)
    return str(refused.value)


@pytest.mark.slow  # reads the tokenizer of SmolLM2
@pytest.mark.parametrize("name", bundled_plans())
def test_the_plans_that_come_with_marft_can_be_run(name):
    found = read_plan(Path(str(PLANS.joinpath(f"{name.removeprefix('bench/')}.toml"))))
    assert name == f"bench/{found.name}"
    assert cells_of(found)


@pytest.mark.slow  # reads the tokenizer of SmolLM2
@pytest.mark.parametrize("name", ["main", "tools", "routing", "probes", "routing_probe", "memory", "compaction"])
def test_plans_keep_the_checksum_of_their_committed_cells(name):
    cells = json.loads((RESULTS / f"{name}.json").read_text())["cells"]
    found = read_plan(Path(str(PLANS.joinpath(f"{name}.toml"))))
    assert found.checksum in {cell["plan_checksum"] for cell in cells}


def test_a_plan_may_name_a_probe_game_by_its_former_module():
    game = {"env": "baselines.bench.probe_games:probe/sum_quartet-v0", "data": "", "test_on_trained": True}
    [task] = plan({**game, "teams": [], "solo": ""}, arms=["team"]).tasks
    assert task.plan.env == "baselines.probes.digit_games:probe/sum_quartet-v0"


def test_some_tasks_of_a_plan_can_run_alone():
    found = plan_of({"name": "two", "arms": ["team"], "tasks": [TASK, {**TASK, "name": "more"}]})
    assert {unit.task for unit in units_of(found).values()} == {"stories", "more"}
    assert {unit.task for unit in units_of(found, ["more"]).values()} == {"more"}
    with pytest.raises(PlanError, match="found no task 'other', wanted some of stories, more"):
        units_of(found, ["more", "other"])


def test_every_arm_becomes_cells_after_what_they_need():
    units = units_of(plan(training_seeds=[0, 1]))
    seen = set()
    for name, unit in units.items():
        assert set(unit.needs) <= seen
        seen.add(name)
    arms = [unit.arm for unit in units.values() if isinstance(unit, Cell)]
    left_out = dict.fromkeys(ARMS.keys() - set(FOR_ANY_TEAM), 0)  # they have to be named
    assert {arm: arms.count(arm) for arm in ARMS} == dict.fromkeys(ARMS, 2) | {"untrained": 1} | left_out
    trainings = [unit for unit in units.values() if isinstance(unit, Training)]
    assert [(t.solo, t.sharing, t.seed, t.max_new_tokens) for t in trainings] == [
        (False, "separate", 0, 3),
        (False, "shared", 0, 3),
        (True, "separate", 0, 6),  # two turns of three tokens
        (False, "separate", 1, 3),
        (False, "shared", 1, 3),
        (True, "separate", 1, 6),
    ]


def test_without_training_tokens_the_one_agent_waits_for_the_tokens_of_its_team():
    units = units_of(plan({"training_tokens": 0}, arms=["solo@tokens"]))
    team, solo = (unit for unit in units.values() if isinstance(unit, Training))
    assert (team.solo, solo.solo, solo.needs) == (False, True, (team.name,))


@pytest.mark.parametrize("length", [{"updates": 3}, {"epochs": 1}])
def test_what_ends_the_training_of_a_team_does_not_cut_the_tokens_of_its_one_agent(length, tmp_path):
    found = plan({"training_tokens": 0, "settings": length}, arms=["team", "solo@tokens", "shared"])
    trainings = [unit for unit in units_of(found).values() if isinstance(unit, Training)]
    team = next(unit for unit in trainings if not unit.solo)
    write_json(Folder(tmp_path).record(team), {"tokens": 337, "updates": 3})
    for unit in trainings:
        schedule = training_experiment(found, unit, Folder(tmp_path)).schedule
        ends = (337, None, 0) if unit.solo else (0, length.get("updates"), length.get("epochs", 0))
        assert (schedule.budget_tokens, schedule.updates, schedule.epochs) == ends


def test_teams_of_equal_tokens_share_the_training_of_the_one_agent():
    teams = {"teams": ["laptop_duo", "duo", "trio"]}
    units = units_of(plan(teams, arms=["solo@tokens"]))
    solos = [unit.max_new_tokens for unit in units.values() if isinstance(unit, Training)]
    assert solos == [6, 9]
    assert len(cells_of(plan(teams, arms=["solo@tokens"]))) == 3


def test_all_arms_have_the_rounds_and_the_feedback_of_the_task():
    code = {
        "env": "marft/codeforces_trio-v1",
        "data": "",
        "teams": ["duo", "trio"],
        "solo": "solo",
        "problems": 2,
        "max_new_tokens": 32,
        "keywords": {"judge": "landlock"},
    }
    found = plan(code, arms=["team", "solo@tokens"]).tasks[0]
    assert found.horizon == 3  # of the trio; a duo or solo of its own id would play one round
    assert {name: found.keywords("test", team)["horizon"] for name, team in found.teams.items()} == {
        "duo": 3,
        "trio": 3,
    }
    assert found.solo_tokens == {"duo": 64, "trio": 96}
    assert plan({**code, "horizon": 2}, arms=["team"]).tasks[0].horizon == 2


def test_without_names_the_environments_own_team_plays_against_its_own_solo():
    probe = {"env": "baselines.probes.digit_games:probe/sum_quartet-v0", "data": "", "test_on_trained": True}
    found = plan({**probe, "teams": [], "solo": ""}, arms=["team", "solo@tokens"]).tasks[0]
    assert {name: len(team["profiles"]) for name, team in found.teams.items()} == {"quartet": 4}
    assert [profile["name"] for profile in found.solo["profiles"]] == ["agent_0"]
    assert found.solo_tokens == {"quartet": 12}
    own = plan({"teams": [], "solo": ""}, arms=["team", "solo@tokens"]).tasks[0]
    assert (list(own.teams), own.solo["name"]) == (["duo"], "solo")


def test_tasks_may_share_their_keys():
    own = {"name": "stories", "temperature": 0.5, "settings": {"group_size": 4}}
    found = plan_of({"name": "tiny", "defaults": {**TASK, "name": "other"}, "tasks": [own]}).tasks[0].plan
    assert (found.name, found.env, found.temperature) == ("stories", TASK["env"], 0.5)
    assert found.settings == {"groups": 1, "group_size": 4}
    with pytest.raises(PlanError, match=r"tasks\[0\]: unknown key 'tempreature'"):
        plan_of({"name": "tiny", "defaults": {"tempreature": 1}, "tasks": [TASK]})


def test_where_control_passes_one_agent_acts_in_a_round():
    tools = {"env": "marft/tools_duo-v0", "data": "embedded:lookup", "teams": ["duo"], "solo": "solo"}
    assert plan(tools, arms=["solo@tokens", "muted", "vote@tokens", "team"]).tasks[0].solo_tokens == {"duo": 3}


def test_the_checksum_is_of_what_is_run():
    first = plan()
    assert plan().checksum == first.checksum
    assert plan({"temperature": 0.9}).checksum != first.checksum
    assert plan({"teams": ["duo"]}).checksum != first.checksum
    assert json.loads(json.dumps(first.to_dict()))["tasks"][0]["teams"]["laptop_duo"]["profiles"]


def shards(task=None, arms=WITH_CONTROLS, **top):
    return plan_of({"name": "tiny", "arms": arms, "tasks": [{**SHARDS, **(task or {})}], **top})


def test_one_agents_of_a_world_have_their_own_rounds_and_the_teams_window_and_turns():
    found = shards(training_seeds=[0, 1], arm_seeds={"solo@whole": [1]})
    [task] = found.tasks
    rounds = {arm: (control.env, control.horizon) for arm, control in task.controls.items()}
    assert rounds == {
        "solo@window": ("marft/shards_solo2-v0", 3),
        "solo@notes": ("marft/shards_notes2-v0", 3),
        "solo@whole": ("marft/shards_whole2-v0", 1),
    }
    assert task.horizon == 1
    assert {arm: task.most_tokens(arm, "readers2") for arm in ("team", *CONTROLS)} == {
        "team": 3,
        "solo@window": 3,
        "solo@notes": 3,
        "solo@whole": 9,  # the tokens of all turns of the team
    }
    assert [task.window(arm) for arm in ("team", *CONTROLS)] == [2000, 2000, 2000, 0]
    kept = task.experiment(task.controls["solo@notes"].team, "marft-a", 0, max_new_tokens=3, arm="solo@notes")
    assert (kept.context.context_window, kept.context.overflow) == (2000, "error")
    assert (kept.env, kept.keywords["horizon"]) == ("marft/shards_notes2-v0", 3)
    assert found.reference == "solo@window"
    assert plan().reference == "solo@tokens"
    seeds = {arm: [cell.seed for cell in cells_of(found) if cell.arm == arm] for arm in WITH_CONTROLS}
    assert seeds == {arm: [0, 1] for arm in WITH_CONTROLS} | {"solo@whole": [1]}


def test_a_training_of_equal_updates_goes_on_from_that_of_equal_tokens_and_counts_the_teams():
    units = units_of(shards())
    more = next(unit for unit in units.values() if isinstance(unit, Training) and unit.equal_updates)
    team, equal_tokens = (units[name] for name in more.needs)
    assert (team.solo, equal_tokens.arm, more.arm) == (False, "solo@window", "solo@window")
    without = units_of(shards({"training_tokens": 0}, arms=["team", "solo@notes"]))
    waits = next(unit for unit in without.values() if isinstance(unit, Training) and unit.arm)
    assert [without[name].solo for name in waits.needs] == [False]


def test_a_plan_without_such_arms_has_no_trace_of_them():
    told = plan().to_dict()
    assert "arm_seeds" not in told
    assert not {"controls"} & told["tasks"][0].keys()
    assert "context_window" not in told["tasks"][0]["plan"]


@pytest.mark.parametrize(
    ("task", "top", "told"),
    [
        ({"env": "marft/gsm8k_duo-v0", "data": "embedded:stories"}, {}, "solo@window: marft/gsm8k_duo-v0 has no such"),
        ({"context_window": 0}, {}, "solo@window: context_window is missing"),
        ({"context_window": 30}, {}, "wanted at most 27 (context_window = 30 less max_new_tokens = 3)"),
        ({"settings": {"context_window": 9}}, {}, "context_window is a key of the task, and is the same for all arms"),
        ({}, {"arms": ["team", "solo@window@updates"]}, "goes on from solo@window to the updates of team"),
        ({}, {"arm_seeds": {"solo@whole": [7]}}, "arm_seeds: solo@whole: found [7], wanted some of [0]"),
        ({}, {"arm_seeds": {"solo@whole": [[0]]}}, "arm_seeds: solo@whole: found [[0]], wanted some of [0]"),
        ({}, {"arm_seeds": {"solo@whole": [False]}}, "arm_seeds: solo@whole: found [False], wanted some of [0]"),
        ({}, {"arm_seeds": {"vote@tokens": [0]}}, "found 'vote@tokens', wanted one of the arms"),
        ({}, {"arm_seeds": {"team": [0]}}, "arm_seeds: team is needed for every seed"),
        ({"keywords": {"parts": 4}}, {}, "readers for 4 parts"),
    ],
)
def test_controls_that_cannot_be_held_to_one_window_are_refused(task, top, told):
    with pytest.raises(PlanError) as refused:
        shards(task, **top)
    assert told in str(refused.value)


def test_the_window_holds_an_agent_without_roles_and_the_one_agent_too(tmp_path):
    solo = json.loads(json.dumps(plan().tasks[0].solo))
    solo["profiles"][0]["system_prompt"] += " Read each word of the problem twice." * 3
    (tmp_path / "solo.json").write_text(json.dumps(solo))
    held = {"solo": str(tmp_path / "solo.json"), "context_window": 480}
    task = plan(held, arms=["team"]).tasks[0]
    told = refusal(held, arms=["team", "anonymous"])
    assert "anonymous, laptop_duo: context_window = 480: a prompt of agent_0 has" in told
    with pytest.raises(
        PlanError, match=r"solo@tokens, laptop_solo: context_window = 480: a prompt of actor_0 has \d+ "
    ):
        _check_window(task, task.solo, "solo@tokens", 100)


def test_an_agent_without_roles_is_named_in_the_keywords_of_its_task():
    routed = {"keywords": {"dependency": {"kind": "routed", "by": "reasoner_0"}}}
    assert plan(routed, arms=["team", "anonymous"]).tasks[0].is_routed("laptop_duo")


def test_a_prompt_of_a_later_round_that_leaves_the_window_is_refused():
    task = shards().tasks[0]
    experiment = task.experiment(task.controls["solo@notes"].team, "marft-a", 0, max_new_tokens=3, arm="solo@notes")
    env = marft_envs.make(experiment.env, **experiment.keywords)
    env.reset(seed=0, options={"index": 0})
    first = len(encode(load_tokenizer("tiny"), env.observe("solo_0")).ids) + 3
    check_prompts(experiment, env, [{"index": 0}])
    held = dataclasses.replace(experiment, context=dataclasses.replace(experiment.context, context_window=first))
    with pytest.raises(ContextOverflowError, match=rf"context_window = {first}: a prompt of solo_0 has \d+ tokens"):
        check_prompts(held, env, [{"index": 0}])


@pytest.mark.parametrize(
    ("task", "top", "told"),
    [
        (
            {},
            {"arms": ["team", "solo"]},
            "unknown arm 'solo'; did you mean solo@tokens or solo@window or solo@notes or solo@whole?",
        ),
        ({}, {"algorithms": ["marft-b"]}, "unknown algorithm 'marft-b'"),
        ({}, {"solo_algorithms": ["ppo"]}, "unknown algorithm 'ppo'"),
        ({"teams": ["nonet"]}, {}, "found 'nonet', wanted a Team"),
        ({"solo": "duo"}, {}, "duo has 2 agents, wanted 1"),
        ({}, {"seeds": [1]}, "unknown key 'seeds'"),
        ({"tempreature": 1}, {}, "tasks[0]: unknown key 'tempreature'; did you mean temperature?"),
        ({"settings": {"policy_rate": 1}}, {}, "unknown setting 'policy_rate'"),
        ({"settings": {"seed": 1}}, {}, "seed is set by the bench"),
        ({"settings": {"updates": 3}}, {}, "updates: training_tokens = 8 ends all trainings: wanted one of both"),
        ({"settings": {"policy_lr": -1.0}}, {}, "policy_lr = -1.0, wanted > 0"),
        ({"settings": {"level": "token"}}, {}, "level = 'token' contradicts marft-a"),
        ({"keywords": {"horizon": 2}}, {}, "horizon is a key of the task's own table"),
        ({"keywords": {"colour": 2}}, {}, "unknown keyword 'colour'"),
        ({"env": "marft/gsm9k_duo-v0"}, {}, "no environment has the id 'marft/gsm9k_duo-v0'"),
        ({"data": "/nowhere/at/all.jsonl"}, {}, "/nowhere/at/all.jsonl"),
        ({"model": "no-such-model"}, {}, "no-such-model"),
        ({"problems": 9999}, {}, "problems = 9999, but the split 'test' has"),
        ({"test_split": "train"}, {}, "4 of the test problems are also trained on"),
        ({"temperature": 0}, {}, "vote@tokens: temperature = 0"),
        ({"temperature": "hot"}, {}, "temperature = 'hot', wanted >= 0"),
        ({"max_new_tokens": 0}, {}, "max_new_tokens = 0, wanted >= 1"),
        ({"max_new_tokens": True}, {}, "max_new_tokens = True, wanted >= 1"),
        ({"feedback": "all"}, {}, "feedback = 'all', wanted none or verdict"),
        ({"preset": "desktop"}, {}, "preset = 'desktop', wanted one of"),
        ({"name": ""}, {}, "name is missing"),
        ({"name": "a/b"}, {}, "name = 'a/b', wanted letters"),
        ({"teams": ["duo", "duo"]}, {}, "two are called 'duo', which makes two cells of one name"),
        ({"problems": 1}, {}, "shuffled: wanted at least 2 test problems"),
        ({"keywords": {"communication": "none"}}, {}, "muted: the task has communication = 'none' already"),
        (
            {"teams": ["duo"], "keywords": {"dependency": {"kind": "routed", "by": "reasoner_0"}}},
            {},
            "cannot be matched",
        ),
        ({}, {"training_seeds": [0, 0]}, "training_seeds: 0 is given twice"),
        ({}, {"evaluation_seeds": [3, 3]}, "evaluation_seeds: 3 is given twice"),
        ({}, {"training_seeds": [-1]}, "training_seeds = (-1,), wanted a list of whole numbers >= 0"),
        ({}, {"arms": ["team", "team"]}, "arms: 'team' is given twice, which makes two cells of one name"),
        ({}, {"arms": ["vote@tokens"]}, "wanted both among the arms"),
        ({}, {"algorithms": ["ppo-a"]}, "ppo-a trains one agent, the team has 2"),
        ({}, {"algorithms": ["happo"]}, "with one shared adapter"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(task, top, told):
    assert told in refusal(task, **top)


@pytest.mark.parametrize(
    ("task", "top", "told"),
    [
        ({"problems": [1]}, {}, "tasks[0]: problems = [1], wanted a whole number"),
        ({"problems": 10**30}, {}, f"problems = {10**30}, wanted >= 0"),
        ({"horizon": 10**30}, {}, f"horizon = {10**30}, wanted 0 to 10,000"),
        ({"training_tokens": 1.5}, {}, "training_tokens = 1.5, wanted a whole number"),
        ({"temperature": math.inf}, {}, "temperature = inf, wanted >= 0"),
        ({"temperature": [0.8]}, {}, "temperature = [0.8], wanted >= 0"),
        ({"teams": "laptop_duo"}, {}, "teams = 'laptop_duo', wanted a list of presets or files"),
        ({"solo": "a\0b"}, {}, "solo = 'a\\x00b', wanted a preset or file"),
        ({"preset": ["laptop"]}, {}, "preset = ['laptop'], wanted one of"),
        ({"env": {"id": 1}}, {}, "env = {'id': 1}, wanted the id of an environment"),
        ({"settings": [1]}, {}, "settings = [1], wanted a table"),
        ({"settings": {"policy_lr": [1e-5]}}, {}, "settings: policy_lr = [1e-05], wanted a finite number"),
        ({"settings": {"policy_lr": math.nan}}, {}, "settings: policy_lr = nan, wanted a finite number"),
        ({"settings": {"policy_lr": True}}, {}, "settings: policy_lr = True, wanted a finite number"),
        ({"settings": {"groups": {"a": 1}}}, {}, "settings: groups = {'a': 1}, wanted a whole number"),
        ({"settings": {"groups": 10**30}}, {}, f"settings: groups = {10**30}, wanted a whole number"),
        ({"settings": {"level": ["action"]}}, {}, "settings: level = ['action'], wanted one of action, token"),
        ({"settings": {"targets": [1]}}, {}, "settings: targets = [1], wanted a list, each a text"),
        ({"settings": {"value_clip": "0.2"}}, {}, "settings: value_clip = '0.2', wanted a finite number"),
        ({"keywords": {"level": 9}}, {}, "found level '9', wanted one of 1, 2, 3"),
        ({"keywords": {"level": math.nan}}, {}, "found level 'nan', wanted one of 1, 2, 3"),
        ({"keywords": {"grader": 1}}, {}, "keywords: found grader = 1, which marft/gsm8k_duo-v0 cannot use"),
        ({"keywords": {"context_rounds": [1]}}, {}, "context_rounds: found [1], wanted a whole number of at least 1"),
        ({"models": {"reasoner_0": 1}}, {}, "models = {'reasoner_0': 1}, wanted a table of agents and models"),
        ({}, {"training_seeds": 1}, "plan: training_seeds = 1, wanted a list of whole numbers >= 0"),
        ({}, {"training_seeds": [[0]]}, "training_seeds = ([0],), wanted a list of whole numbers >= 0"),
        ({}, {"arms": "team"}, "arms = 'team', wanted a list of"),
        ({}, {"defaults": [1]}, "defaults = [1], wanted a table"),
        ({}, {"arm_seeds": {"team": 1}}, "arm_seeds: team is needed for every seed"),
    ],
)
def test_values_of_another_type_are_refused_with_place_value_and_what_is_wanted(task, top, told):
    assert told in refusal(task, **top)


def test_two_tasks_of_one_name_and_a_plan_without_tasks_are_refused():
    with pytest.raises(PlanError, match="names of tasks: 'stories' is given twice"):
        plan_of({"name": "two", "tasks": [TASK, TASK]})
    with pytest.raises(PlanError, match="wanted tables"):
        plan_of({"name": "none"})


class Silent(TaskList):
    """Tasks whose outcomes say nothing that votes could be counted on."""

    def judge(self, task, answer, *, round, last_round):
        return Outcome(0.0, last_round, False, False)


def test_a_task_without_a_vote_is_refused():
    def load(data, split):
        return Silent("silent", [Task(f"{split}-{i}", f"{split} {i}", "", split) for i in range(4)])

    register_task("silent", load, teams=["duo"], namespace="test", force=True)
    try:
        assert (
            "vote@tokens: test/silent_duo-v0 has no vote: wanted a set of tasks with a method vote(outcomes)"
            in refusal({"env": "test/silent_duo-v0", "data": ""})
        )
        assert plan({"env": "test/silent_duo-v0", "data": ""}, arms=["team", "solo@tokens"])
    finally:
        del _REGISTRY["test/silent_duo-v0"]


def test_files_that_are_no_plan_are_refused(tmp_path):
    with pytest.raises(PlanError, match="there is no such file"):
        read_plan(tmp_path / "plan.toml")
    (tmp_path / "plan.toml").write_text("name = ")
    with pytest.raises(PlanError, match="is no plan in TOML"):
        read_plan(tmp_path / "plan.toml")


def test_a_misspelt_plan_is_answered_with_those_that_are_close(capsys):
    assert main(["bench", "bench/mian", "--check"]) == 1
    assert (
        "bench/mian: there is no such file; wanted a plan in TOML; did you mean bench/main" in capsys.readouterr().err
    )


def test_a_folder_of_another_plan_is_refused(tmp_path):
    first = plan()
    open_folder(first, tmp_path / "out", resume=False)
    with pytest.raises(RunFolderError, match="already holds results of this plan; --resume"):
        open_folder(first, tmp_path / "out", resume=False)
    open_folder(first, tmp_path / "out", resume=True)
    with pytest.raises(RunFolderError, match="holds results of another plan"):
        open_folder(plan({"temperature": 0.9}), tmp_path / "out", resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="holds no benchmark"):
        open_folder(first, tmp_path / "other", resume=True)


def test_two_units_of_one_name_are_refused():
    found = plan()
    twin = dataclasses.replace(found.tasks[0], solo_tokens={"laptop_duo": 7})
    with pytest.raises(PlanError, match="two cells are called"):
        units_of(dataclasses.replace(found, tasks=(found.tasks[0], twin)))
