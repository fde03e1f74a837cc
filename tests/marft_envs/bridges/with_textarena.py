"""Games of TextArena, with the real package: conformance, seeds, ends; and our learner on them."""

from __future__ import annotations

import random
from functools import partial

import pytest

from marft_agents.policies.scripted import ScriptedPolicy
from marft_envs.bridges import from_textarena
from marft_envs.testing import check_environment
from tests.marft_envs.bridges.one_update import one_update

GUESS = partial(from_textarena, "GuessTheNumber-v0", 1)
TACTICS = partial(from_textarena, "TicTacToe-v0", 2)
POKER = partial(from_textarena, "KuhnPoker-v0", 2)


def play(env, seed, actions):
    """Play a game to its end; return what was seen, and the last rewards and infos."""
    env.reset(seed=seed)
    seen = []
    for action in actions:
        seen.append(str(env.observe(env.agent_selection)))
        env.step(action)
        if env.terminations[env.agent_selection]:
            return seen, dict(env.rewards), dict(env.infos)
    return seen, None, None


@pytest.mark.parametrize("make", [GUESS, partial(TACTICS, team=("player_0",)), partial(POKER, team=("player_1",))])
def test_a_game_conforms(make):
    report = check_environment(make, cycles=20)
    assert report.passed, str(report)


def test_a_game_is_won():
    halves = ["[10]", "[5]", "[15]", "[3]", "[8]", "[13]", "[18]", *(f"[{n}]" for n in range(1, 21))]
    outcomes = [play(GUESS(), seed, halves) for seed in range(8)]
    won = [(rewards, infos) for _, rewards, infos in outcomes if rewards and rewards["player_0"] == 1.0]
    assert won
    assert all(infos["player_0"]["success"] == 1 for _, infos in won)


def test_a_game_that_ends_by_an_invalid_move_is_no_success():
    _, rewards, infos = play(TACTICS(), 0, ["nonsense", "nonsense"])
    assert rewards == {"player_0": -1.0, "player_1": 1.0}
    assert infos["player_1"]["success"] == 0
    assert infos["player_1"]["invalid"] == 1


def test_the_team_is_who_is_paid():
    moves = ["[0]", "[3]", "[1]", "[4]", "[2]"]
    assert play(TACTICS(), 0, moves)[1] == {"player_0": 1.0, "player_1": -1.0}
    assert set(play(TACTICS(team=("player_1",)), 0, moves)[1].values()) == {-1.0}
    with pytest.raises(ValueError, match="no player 'player_2'"):
        TACTICS(team=("player_2",))


def test_seeds_decide_and_the_global_generator_stays_as_it_was():
    before = random.getstate()
    calls = ["[check]", "[bet]", "[call]"] * 12
    first, again, other = (play(POKER(), seed, calls)[0] for seed in (1, 1, 2))
    assert first == again != other
    assert random.getstate() == before


def test_games_side_by_side_do_not_disturb_each_other():
    alone = play(POKER(), 1, ["[check]"] * 8)[0]
    left, right = POKER(), POKER()
    left.reset(seed=1)
    right.reset(seed=2)
    seen = []
    for _ in range(len(alone)):
        seen.append(str(left.observe(left.agent_selection)))
        left.step("[check]")
        right.step("[check]")
        random.random()
    assert seen == alone


def test_authors_are_told_apart():
    env = TACTICS()
    env.reset(seed=0)
    env.step("[0]")
    env.step("[4]")
    authors = [(message["role"], message["name"]) for message in env.observe("player_0").messages]
    assert ("assistant", "player_0") in authors
    assert ("user", "player_1") in authors
    assert authors[0] == ("user", "environment")


def test_a_game_trains():
    make = partial(from_textarena, "GuessTheNumber-v0", 1, min_number=0, max_number=4)
    metrics, moved = one_update(make, ["player_0"])
    assert metrics["team/failed"] == 0
    assert metrics["team/informative_groups"] > 0
    assert moved == {"player_0"}


def test_one_side_of_a_zero_sum_game_trains_against_a_script():
    partner = ScriptedPolicy(lambda agent, seen: "[8]")
    metrics, moved = one_update(partial(TACTICS, team=("player_0",)), ["player_0"], {"player_1": partner})
    assert metrics["team/failed"] == 0
    assert moved == {"player_0"}
