"""TextWorldExpress: solutions win, games are their seeds and actions, possible actions are discrete actions."""

from __future__ import annotations

import copy
import dataclasses
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

import marft_envs
from baselines.experiment.gold_answers import oracle_of
from envs_data.packages import PackageError
from marft_envs.game.task import JudgeFailure, UnknownTaskError
from marft_envs.plugins.textworld import GAMES, java_games
from marft_envs.plugins.textworld.tasks import TextWorldTasks, read_action
from marft_envs.testing import check_environment
from marft_envs.wrappers import CandidateAction
from tests.helpers.toy_games import play_through

pytestmark = pytest.mark.java
COIN = "marft/textworld_coin_solo-v0"


@pytest.fixture(autouse=True, scope="module")
def _end_java():
    yield
    java_games.close()


@pytest.mark.parametrize("team", ["solo", "duo"])
def test_the_packages_own_solutions_win_side_by_side(team):
    """All games begin before the first is played: some keep state in static variables of the Java code."""
    envs = []
    for game in GAMES:
        for index in (0, 1) if team == "solo" else (0,):
            env = marft_envs.make(f"marft/textworld_{game}_{team}-v0")
            env.reset(seed=0, options={"index": index})
            envs.append(env)
    for env in envs:
        oracle = oracle_of(env)
        record = play_through(env, lambda agent, seen, env=env, oracle=oracle: oracle(env.unwrapped, agent, seen))
        assert record.success, (record.env_id, record.task_id, [turn.action for turn in record.turns])
        assert sum(record.rewards) == pytest.approx(1.0)


def test_the_duo_conforms():
    report = check_environment(partial(marft_envs.make, "marft/textworld_simonsays_duo-v0"), cycles=10)
    assert report.passed, str(report)


def test_possible_actions_are_the_discrete_actions_of_other_libraries():
    env = CandidateAction(marft_envs.make("marft/textworld_coin_duo-v0"), k=32)
    env.reset(seed=0, options={"index": 0})
    for agent in ("planner_0", "actor_0"):
        assert env.agent_selection == agent
        valid = env.unwrapped.session.state.valid
        assert env.candidates == tuple(valid)
        assert env.action_mask(agent).sum() == len(valid)
        env.step(list(valid).index("look around"))
    assert env.unwrapped.session.actions == ("look around",)


def test_a_game_is_its_seed_and_its_actions():
    env = marft_envs.make(COIN)
    env.reset(seed=0, options={"index": 3})
    env.step("look around")
    copied = copy.deepcopy(env)
    directions = [action for action in env.unwrapped.session.state.valid if action.startswith("open door")]
    env.step(directions[0])
    copied.step(directions[0])
    assert env.observe("actor_0") == copied.observe("actor_0")
    java_games.close()
    again = copy.deepcopy(env)
    env.step("look around")
    java_games.close()
    again.step("look around")
    assert env.observe("actor_0") == again.observe("actor_0")


def test_other_processes_have_the_same_games():
    program = (
        "from marft_envs.plugins.textworld import java_games\n"
        "from marft_envs.plugins.textworld.tasks import TextWorldTasks\n"
        "print(repr([TextWorldTasks(game)[7].prompt for game in ('twc', 'mapreader')]))\n"
        "java_games.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr([TextWorldTasks(game)[7].prompt for game in ("twc", "mapreader")])


def test_an_action_that_is_not_possible_is_told_and_changes_nothing():
    env = marft_envs.make(COIN)
    env.reset(seed=0, options={"index": 0})
    env.step("fly away")
    assert "That is not a possible action." in env.observe("actor_0")
    assert env.infos["actor_0"]["invalid"] == 1
    assert env.unwrapped.session.actions == ()


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("take coin\nmove north", "move north"),
        ("> Take coin.", "take coin"),
        ("take 5 ML", "take 5 mL"),
        ("I would take coin", None),
        ("", None),
    ],
)
def test_the_last_line_that_is_possible_is_the_action(text, action):
    assert read_action(text, ["move north", "take coin", "take 5 mL"]) == action


def test_only_the_planner_may_see_the_game():
    env = marft_envs.make("marft/textworld_coin_duo-v0", seen_by="planner")
    env.reset(seed=0, options={"index": 0})
    assert "You are in" in env.observe("planner_0")
    assert "You are in" not in env.observe("actor_0")
    env.step("look around")
    env.step("look around")
    assert env.observe("planner_0").count("Score:") == 2
    assert "Score:" not in env.observe("actor_0")
    alone = marft_envs.make(COIN, seen_by="planner")
    with pytest.raises(ValueError, match="seen_by='planner' needs an agent that does not answer"):
        alone.reset(seed=0)


def test_settings_and_splits():
    env = marft_envs.make(COIN, split="test", params="numLocations=3", show_actions=False)
    env.reset(seed=0, options={"task_id": "coin-20007"})
    assert env.unwrapped.task_index == 7
    assert "Possible actions" not in env.observe("actor_0")
    with pytest.raises(UnknownTaskError, match="coin-7"):
        env.unwrapped.tasks.index("coin-7")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"split": "val"}, "found the split 'val', wanted one of train, dev, test"),
        ({"seen_by": "actor"}, "found seen_by='actor', wanted one of all, planner"),
        ({"params": "rooms=3"}, r"params 'rooms=3': Unrecognized property name \(rooms\)"),
        ({"data": "x.json"}, "found data='x.json', wanted 'embedded'"),
    ],
)
def test_bad_keywords_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        marft_envs.make(COIN, **keywords)


def test_without_java_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(PackageError, match=r"needs a Java runtime, such as .*apt-get install default-jre-headless"):
        marft_envs.make(COIN)


def test_other_games_are_refused(monkeypatch):
    monkeypatch.setattr(java_games, "JAR", (java_games.JAR[0], "0" * 64))
    with pytest.raises(PackageError, match=r"textworld-express\.jar: found data with SHA-256 23da9ab0"):
        marft_envs.make(COIN)


def test_a_java_process_that_dies_fails_the_episode_and_the_next_one_works():
    env = marft_envs.make(COIN)
    env.reset(seed=0, options={"index": 0})
    env.step("look around")
    os.kill(java_games._java.gateway.java_process.pid, signal.SIGKILL)
    java_games._java.gateway.java_process.wait()
    with pytest.raises(JudgeFailure, match="the Java process of TextWorldExpress failed"):
        env.step("look around")
    env.reset(seed=0, options={"index": 0})
    env.step("look around")
    assert env.infos["actor_0"]["invalid"] == 0


def test_a_package_without_what_it_needs_is_named(monkeypatch):
    monkeypatch.setattr(java_games, "PACKAGE", dataclasses.replace(java_games.PACKAGE, needs=("no_such_module",)))
    with pytest.raises(PackageError, match=r"no_such_module is not: pip install .*\[textworld\]'"):
        marft_envs.make(COIN)
