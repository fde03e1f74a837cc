"""The scripted team wins in every registered task, each agent in its role."""

from __future__ import annotations

from functools import cache

import pytest

import marft_envs
from baselines.cli.main import main
from baselines.experiment.gold_answers import NoOracleError, oracle_of
from marft_envs.game import FlexMG
from marft_envs.game.task import Outcome, Task, TaskList
from marft_envs.registration.plugins import UNLISTED
from marft_envs.sandbox.shared_judges import close_shared_judges
from marft_envs.teams.team import PRESETS

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date")  # codeforces v0
OURS = [
    name for name in marft_envs.envs() if name.startswith("marft/") and marft_envs.spec(name).plugin not in UNLISTED
]
CODE = [name for name in OURS if "codeforces" in name]


@pytest.fixture(autouse=True, scope="module")
def _end_judges():
    yield
    close_shared_judges()


@cache
def tasks_of(task: str, **keywords):
    return marft_envs.make(f"marft/{task}_solo", **keywords).unwrapped.tasks


def play(env, index: int):
    """Play the scripted team on a task; return the record."""
    game, oracle = env.unwrapped, oracle_of(env)
    env.reset(seed=0, options={"index": index})
    for agent in env.agent_iter():
        observation, _, terminated, truncated, _ = env.last()
        env.step(None if terminated or truncated else oracle(game, agent, observation))
    return game.episode()


def assert_won(record):
    assert record.success, (record.task_id, [turn.action for turn in record.turns])
    assert not any(turn.fault for turn in record.turns)


@pytest.mark.parametrize("name", [name for name in OURS if name not in CODE])
def test_the_scripted_team_wins(name):
    spec = marft_envs.spec(name)
    # presets share the tasks of a set; teams of a task's own have tasks of their size
    env = marft_envs.make(name, **({"data": tasks_of(spec.task)} if spec.team in PRESETS else {"split": "test"}))
    for index in range(0, len(env.unwrapped.tasks), max(1, len(env.unwrapped.tasks) // 8)):
        assert_won(play(env, index))


@pytest.mark.parametrize("name", CODE)
def test_the_scripted_team_passes_the_hidden_tests(name):
    assert_won(play(marft_envs.make(name, judge="landlock"), 2))


@pytest.mark.docker
@pytest.mark.parametrize("name", ["marft/codeforces_solo-v1", "marft/codeforces_octet-v1"])
def test_the_scripted_team_passes_the_hidden_tests_in_docker(name):
    assert_won(play(marft_envs.make(name, judge="docker"), 0))


@pytest.mark.parametrize("team", ["solo", "octet"])
def test_the_scripted_team_meets_every_request_of_a_conversation(team):
    env = marft_envs.make(f"marft/bfcl_{team}", data=tasks_of("bfcl", data="multi_turn_base"))
    for index in range(0, 200, 20):
        assert_won(play(env, index))


def test_each_agent_of_a_tool_world_makes_the_calls_of_its_own_tools(capsys):
    assert main(["play", "marft/tools_duo-v0", "--data", "embedded:lookup", "--index", "0"]) == 0
    out = capsys.readouterr().out
    assert "--- reader_0 says\nread_price(" in out
    assert "--- writer_0 says\nwrite_label(" in out
    assert "team reward 1;" in out


@pytest.mark.parametrize("dependency", ["chain", {"kind": "routed", "by": "finder_0"}])
def test_without_hand_offs_the_owner_of_the_next_tool_acts(dependency):
    env = marft_envs.make("marft/tools_quartet-v0", data=tasks_of("tools"), dependency=dependency)
    for index in range(0, len(env.unwrapped.tasks), 100):
        assert_won(play(env, index))


def test_an_orchestrator_routes_to_an_agent_that_answers():
    env = marft_envs.make(
        "marft/math_quartet-v0", data=tasks_of("math"), dependency={"kind": "routed", "by": "planner_0"}
    )
    record = play(env, 0)
    assert_won(record)
    assert [turn.agent for turn in record.turns] == ["planner_0", "actor_0"]


def test_a_team_of_ones_own_plays(capsys):
    assert main(["play", "marft/math_duo-v0", "--team", "paper_duo", "--index", "0"]) == 0
    assert "team reward 1;" in capsys.readouterr().out


class Backwards(TaskList):
    """A set of one's own that takes bare answers only."""

    def judge(self, task, answer, *, round, last_round):
        return Outcome(reward=0.0, terminated=True, success=answer == task.answer, invalid=False)


def test_the_gold_answer_is_bare_where_no_box_is_accepted():
    env = FlexMG(Backwards("words", [Task("a", "lamp", "pmal", "test")]), marft_envs.Team.preset("duo"))
    assert_won(play(env, 0))


def test_tasks_without_gold_answers_have_no_script():
    class Open(marft_envs.TaskList):
        def judge(self, task, answer, *, round, last_round):
            raise AssertionError

    tasks = Open("open", [marft_envs.Task("t", "Say something nice.", "", "train")])
    with pytest.raises(NoOracleError, match="tasks of open have no gold answers"):
        oracle_of(marft_envs.make("marft/math_solo-v0", data=tasks))
