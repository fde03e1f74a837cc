from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest

from marft_envs import FlexMG, Outcome, Task, Team, UnknownTaskError
from marft_envs.dependency import DependencyError, chain, full, independent, matrix, schedule
from marft_envs.game import INFO_KEYS
from marft_envs.tasks.math import MathTasks
from tests.helpers.toy_games import play, play_out, toy_game, toy_tasks, toy_team


def reset(game: FlexMG, seed: int = 0, **options) -> FlexMG:
    game.reset(seed=seed, options=options)
    return game


RIGHT, WRONG = "\\boxed{4}", "\\boxed{5}"


@pytest.mark.parametrize(
    ("horizon", "answers", "ended", "rewards"),
    [
        (1, [RIGHT], "terminated", [1.0]),
        (1, [WRONG], "terminated", [0.0]),  # the one answer is final
        (1, ["no box"], "terminated", [0.0]),
        (3, [RIGHT], "terminated", [1.0]),
        (3, [WRONG, RIGHT], "terminated", [0.0, 1.0]),
        (3, [WRONG, WRONG, RIGHT], "terminated", [0.0, 0.0, 1.0]),
        (3, [WRONG, WRONG, "no box"], "truncated", [0.0, 0.0, 0.0]),
    ],
)  # fmt: skip
def test_end_and_team_reward(horizon, answers, ended, rewards):
    game = reset(toy_game("a_0", "b_0", "c_0", horizon=horizon), task_id="add-3")
    said, given = iter(answers), []
    for agent in play(game, lambda agent: next(said) if agent == "c_0" else RIGHT):
        if agent == "a_0" and game.infos[agent]["turn"]:
            given.append(dict(game.rewards))
        elif agent != "a_0":
            assert set(game.rewards.values()) == {0.0}
    given.append(dict(game.rewards))
    assert [set(round.values()) for round in given] == [{reward} for reward in rewards]
    assert set(game.terminations.values()) == {ended == "terminated"}
    assert set(game.truncations.values()) == {ended == "truncated"}
    assert {info["success"] for info in game.infos.values()} == {int(answers[-1] == RIGHT)}
    assert game.infos["a_0"]["invalid"] == answers.count("no box")
    returns = {}
    for agent in game.agent_iter():
        returns[agent] = game.last()[1]
        game.step(None)
    assert set(returns.values()) == {sum(rewards)}
    assert game.agents == []


def test_cumulative_rewards_reach_the_early_speakers():
    """Reward of round 1 is due to a_0 although b_0 acted last."""
    game = toy_game("a_0", "b_0", horizon=3, reward=lambda outcome: 0.5)
    reset(game, task_id="add-3")
    due = {}
    for agent in play(game, lambda agent: WRONG):
        due.setdefault(agent, []).append(game.last()[1])
    assert due == {"a_0": [0.0, 0.5, 0.5], "b_0": [0.0, 0.5, 0.5]}


def test_reward_is_a_function_of_the_outcome():
    partial = toy_game("a_0", reward=lambda outcome: 1.0 if outcome.success else -0.1 * outcome.invalid)
    assert play_out(reset(partial), lambda agent: "?").rewards == {"a_0": -0.1}
    assert play_out(reset(toy_game("a_0", reward="outcome"), task_id="add-3"), lambda agent: RIGHT).rewards["a_0"] == 1
    broken = reset(toy_game("a_0", reward=lambda outcome: float("nan")), task_id="add-3")
    with pytest.raises(ValueError, match="the reward of task 'add-3' is nan"):
        broken.step(RIGHT)


def test_the_last_answering_agent_of_the_round_counts():
    team = toy_team("a_0", "b_0", "c_0", answering=("a_0", "b_0"), dependency=independent())
    game = FlexMG(toy_tasks(), team)
    reset(game, task_id="add-3")
    for action in (WRONG, RIGHT, WRONG):
        game.step(action)
    assert game.infos["a_0"]["success"] == 1


def test_rounds_without_an_answer_are_not_judged():
    talk = schedule([chain(active=("a_0",), delayed="all"), chain(active=("b_0",))])
    game = reset(toy_game("a_0", "b_0", dependency=talk, horizon=2), task_id="add-3")
    assert game.infos["b_0"]["layer"] == -1
    game.step(RIGHT)
    assert game.agent_selection == "b_0"
    assert RIGHT in game.observe("b_0")
    game.step(RIGHT)
    record = game.episode()
    assert record.outcomes[0] is None
    assert record.outcomes[1].success
    assert record.terminated
    unanswered = schedule([chain(), chain(active=("a_0",))])
    silent = reset(toy_game("a_0", "b_0", dependency=unanswered, horizon=2))
    play_out(silent, lambda agent: "?")
    assert silent.truncations["a_0"]
    assert silent.infos["a_0"]["invalid"] == 2


def test_infos_are_one_object_until_the_next_step_and_a_held_one_never_changes():
    env = toy_game("a_0", "b_0", "c_0")
    env.reset(seed=1)
    held = [(env.last()[4], dict(env.last()[4]))]
    while env.agents:
        agent, told = env.agent_selection, env.last()[4]
        assert told is env.infos[agent]
        assert list(env.infos) == env.agents
        held.append((told, dict(told)))
        before = env.infos
        env.step(None if env.terminations[agent] or env.truncations[agent] else "1")
        if env.agents == env.possible_agents:
            assert env.infos is not before

    assert env.infos == {}
    assert all(info == copied for info, copied in held)


def test_turn_order_follows_the_dependency():
    order = matrix([[0, 0, 1], [1, 0, 0], [0, 0, 0]])
    game = reset(toy_game("a_0", "b_0", "c_0", dependency=order))
    assert list(play(game, lambda agent: agent)) == ["b_0", "a_0", "c_0"]


def test_infos_are_numbers_with_the_same_keys():
    game = reset(toy_game("a_0", "b_0", dependency=full(), horizon=2))
    seen = []
    for _ in play(game, lambda agent: WRONG):
        seen.append(game.infos)
    for infos in [*seen, game.infos]:
        for info in infos.values():
            assert set(info) == set(INFO_KEYS)
            assert all(type(value) is int for value in info.values())
    assert [info["b_0"]["turn"] for info in seen] == [0, 1, 2, 3]  # and old infos are not changed
    assert [info["b_0"]["round"] for info in seen] == [0, 0, 1, 1]
    assert [info["b_0"]["visible"] for info in seen] == [0, 1, 1, 2]
    assert seen[0]["b_0"]["agent_index"] == 1
    assert seen[0]["b_0"]["layer"] == 1


@pytest.mark.parametrize("text", ["", "\x00", "\ud800 lone", "²≤中🙂", "y" * 50, "\\boxed{", "{" * 20])
def test_any_text_is_an_action(text: str):
    game = reset(toy_game("a_0", "b_0", horizon=2, max_action_chars=20))
    play_out(game, lambda agent: text)
    record = game.episode()
    cut = len(text) > 20 or "\ud800" in text
    assert all(len(turn.action) <= 20 and bool(turn.fault) == cut for turn in record.turns)
    assert game.infos["a_0"]["invalid"] == (4 if cut else 0) + sum(outcome.invalid for outcome in record.outcomes)
    for agent in game.possible_agents:
        assert game.observe(agent) in game.observation_space(agent)
    assert game.state() in game.state_space


@pytest.mark.parametrize("action", [None, 3, b"bytes", ["list"]])
def test_another_type_is_a_clear_error(action):
    game = reset(toy_game("a_0", "b_0"))
    with pytest.raises(TypeError, match=f"the action of a_0 is {type(action).__name__}, wanted str"):
        game.step(action)
    assert game.infos["a_0"]["turn"] == 0


def test_a_dead_agent_takes_none_and_an_ended_game_nothing():
    game = play_out(reset(toy_game("a_0", "b_0")))
    with pytest.raises(ValueError, match="None"):
        game.step("more")
    game.step(None)
    game.step(None)
    assert game.agents == []
    game.step("more")
    assert "says nothing" in game.observe("b_0")
    assert "says nothing" in game.state()


def test_tasks_are_chosen_by_seed_id_or_index():
    game = toy_game()
    drawn = [reset(game, seed).task.id for seed in range(30)]
    assert len(set(drawn)) == 7
    assert drawn == [reset(toy_game(), seed).task.id for seed in range(30)]
    reset(game, 3)
    first = [game.task.id for _ in range(5) if game.reset() is None]
    reset(game, 3)
    assert first == [game.task.id for _ in range(5) if game.reset() is None]
    assert len(set(first)) > 1
    assert reset(game, task_id="add-2").task.id == "add-2"
    assert reset(game, index=6, nonsense=1).task.id == "add-6"
    game.reset()  # a task stays pinned for one game only
    game.reset(options=None)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"task_id": "ad-3"}, UnknownTaskError, "no task has the id 'ad-3'; did you mean add-3"),
        ({"task_id": 3}, UnknownTaskError, "no task has the id 3"),
        ({"task_id": ["x"]}, KeyError, "ids look like"),
        ({"index": 7}, IndexError, "no task at index 7; there are 0 to 6"),
        ({"index": -1}, IndexError, "index -1"),
        ({"index": "3"}, TypeError, "the index '3' is no whole number"),
    ],
)
def test_a_task_that_is_not_there(options, error, message):
    with pytest.raises(error, match=message):
        toy_game().reset(options=options)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"horizon": 0}, "horizon: found 0"),
        ({"horizon": 1.5}, "horizon: found 1.5"),
        ({"max_action_chars": 0}, "max_action_chars"),
        ({"reward": "sucess"}, "reward: found 'sucess', wanted one of 'success', 'outcome'"),
        ({"feedback": "all"}, "feedback: found 'all'"),
        ({"render_mode": "rgb_array"}, "render_mode: found 'rgb_array'"),
        ({"communication": "half"}, "communication"),
        ({"communication": {"a_0->x_0": "full"}}, "a_0->x_0"),
        ({"dependency": "ring"}, "ring"),
        ({"dependency": matrix([[0, 1], [1, 0]])}, "cycle: a_0 -> b_0 -> a_0"),
    ],
)
def test_a_game_that_cannot_be_played_is_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        toy_game(**kwargs)


def test_other_refusals():
    with pytest.raises(ValueError, match="task set 'none' is empty"):
        FlexMG(MathTasks("none", []), Team.preset("duo"))
    twins = [Task("x", "1?", "1", "train"), Task("y", "1?", "1", "train"), Task("x", "2?", "2", "train")]
    with pytest.raises(ValueError, match="two tasks have the id 'x'"):
        MathTasks("twins", twins)
    with pytest.raises(DependencyError, match="no agent that answers"):
        FlexMG(toy_tasks(), toy_team("a_0", answering=("b_0",)))


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda game: pickle.loads(pickle.dumps(game))])
def test_a_copy_in_mid_game_goes_on_alike(copier):
    game = reset(toy_game("a_0", "b_0", dependency=full(delayed="all"), horizon=3), 7)
    for action in ("one", "two", "three"):
        game.step(action)
    twin = copier(game)
    twin.step("four")
    assert "four" not in game.state()
    assert "four" in twin.state()
    game.step("four")
    for one in (game, twin):
        play_out(one)
        one.reset()
    assert game.episode() == twin.episode()
    assert game.task.id == twin.task.id


def test_a_deep_copy_shares_the_tasks():
    class Heavy(MathTasks):
        def __deepcopy__(self, memo):
            raise AssertionError("tasks were copied")

    game = reset(FlexMG(Heavy("heavy", [Task("0", "1?", "1", "train")]), toy_team("a_0")))
    assert copy.deepcopy(game).tasks is game.tasks


def test_eight_interleaved_games_agree():
    games = [reset(toy_game("a_0", "b_0", horizon=2), 11) for _ in range(8)]
    for number in range(4):
        for game in games:
            game.step(f"turn {number}")
    assert len({game.episode().to_json() for game in games}) == 1


_TRANSCRIPT = """
import hashlib, marft_envs
digest = hashlib.sha256()
for team in ("solo", "octet"):
    env = marft_envs.make(f"marft/gsm8k_{team}-v0", horizon=2, feedback="verdict", communication="tail:9")
    env.reset(seed=4)
    for agent in env.possible_agents:
        env.action_space(agent).seed(9)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        digest.update(repr((agent, str(observation), reward, info)).encode())
        env.step(None if terminated or truncated else env.action_space(agent).sample())
    digest.update(env.unwrapped.episode().to_json().encode())
print(digest.hexdigest())
"""


def test_same_seed_same_game_in_another_process():
    digests = {
        subprocess.run(
            [sys.executable, "-c", _TRANSCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(digests) == 1
    assert len(digests.pop()) == 65


def test_rendering(capsys):
    game = reset(toy_game("a_0", "b_0", horizon=2, render_mode="ansi"), task_id="add-3")
    play_out(game, lambda agent: WRONG)
    golden = """marft/custom-v0  task add-3
--- round 1 of 2 ---
What is 3 + 1?
<a_0> \\boxed{5}
<b_0> \\boxed{5}
=> not solved, team reward 0
--- round 2 of 2 ---
Round 2 of 2.
<a_0> \\boxed{5}
<b_0> \\boxed{5}
=> not solved, team reward 0
"""
    assert game.render() == golden
    shown = reset(toy_game(render_mode="human"))
    assert shown.render() is None
    assert "--- round 1 of 1 ---" in capsys.readouterr().out
    with pytest.warns(UserWarning, match="render_mode"):
        assert reset(toy_game()).render() is None


def test_an_observation_of_the_environment_is_always_shown():
    class Clock(MathTasks):
        def judge(self, task, answer, *, round, last_round):
            return Outcome(0.0, False, False, False, observation=f"It is {round + 1} o'clock.", verdict="secret")

    game = reset(FlexMG(Clock("clock", [Task("0", "Wait.", "", "train")]), toy_team("a_0"), horizon=3))
    game.step("one")
    assert "It is 1 o'clock.\nRound 2 of 3." in game.observe("a_0")
    assert "secret" not in game.observe("a_0")


def test_a_game_without_a_reset_has_no_plans_and_no_infos():
    game = toy_game("a_0", "b_0")
    assert (game.plans, game.infos, game.agents) == ((), {}, [])
    game.reset(seed=0)
    assert len(game.plans) == 1


def test_chinese_teams_are_spoken_to_in_chinese():
    game = reset(FlexMG(toy_tasks(), Team.preset("duo", "zh"), horizon=2))
    for _ in range(2):
        game.step("?")
    assert "第2轮，共2轮。" in game.observe("actor_0")


def test_the_real_grader_judges_by_language_and_gold_mode():
    both = Task("0", "Roots?", '["1", "2"]', "train", {"gold_mode": "all"})
    tasks = MathTasks("real", [both])
    assert tasks.judge(both, "\\boxed{2, 1}", round=0, last_round=True).success
    wrong = tasks.judge(both, "\\boxed{2}", round=0, last_round=False)
    assert not wrong.success
    assert not wrong.terminated
    assert wrong.detail["extracted"] == "2"
    silent = tasks.judge(both, "no idea", round=0, last_round=True)
    assert silent.invalid
    assert silent.terminated
    assert tasks.judge(both, None, round=1, last_round=True).invalid
    chinese = MathTasks("zh", [Task("0", "几个？", "5", "train")], language="zh")
    outcome = chinese.judge(chinese[0], "\\boxed{六}", round=0, last_round=False)
    assert outcome.verdict == "答案六错误。"
