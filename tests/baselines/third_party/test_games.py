"""The games of the third-party scripts, and the figures read from them; none of the libraries is needed here."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from pettingzoo.test import api_test, seed_test

from baselines.third_party.cheap_talk import SECRETS, CheapTalk
from baselines.third_party.credit_check import Credit
from baselines.third_party.games import GAMES, Scores, find_game, make_game
from marft_envs.wrappers import BlockObservation, EmbeddingObservation


def play(env, choose):
    """Play a game to its end; `choose` gives an action for (agent, mask)."""
    env.reset()
    while env.agents:
        agent = env.agent_selection
        over = env.terminations[agent] or env.truncations[agent]
        env.step(None if over else choose(agent, env.env.action_mask(agent)))


MUTED = [name for name in GAMES if "muted" in name]


@pytest.fixture(params=sorted({*GAMES} - {*MUTED}))
def game(request):
    return make_game(request.param)


def test_cheap_talk_passes_pettingzoos_own_tests():
    seed_test(CheapTalk, 50)
    with pytest.raises(AttributeError, match="no attribute 'dtype'"):
        api_test(CheapTalk(), 50)  # a third-party game's plain strings: that is what the views are for


def test_a_team_that_tells_and_listens_wins_and_others_are_paid_by_chance():
    won = {"told": [], "silent": [], "deaf": []}
    for team, wins in won.items():
        env = CheapTalk()
        env.reset(seed=0)
        for _ in range(600):
            env.step("2" if team == "silent" else env.observe("speaker_0")[-1])
            env.step("2" if team == "deaf" else env.observe("listener_0")[-1])
            wins.append(env.infos["speaker_0"]["success"])
            assert env.rewards == {"speaker_0": wins[-1], "listener_0": wins[-1]}
            env.reset()
    assert np.mean(won["told"]) == 1
    assert np.mean(won["silent"]) == pytest.approx(1 / len(SECRETS), abs=0.06)
    assert np.mean(won["deaf"]) == pytest.approx(1 / len(SECRETS), abs=0.06)


def test_exactly_one_candidate_wins_each_game_so_that_chance_is_what_is_claimed(game):
    env = game.choosing()
    seen = set()
    for seed in range(40):
        for answer in range(game.num_actions):
            env.reset(seed=seed)
            seen.add(env.observe(env.agent_selection).tobytes())
            env.step(answer)
            env.step(answer)
        assert sum(game.scores.won[-game.num_actions :]) == 1
    assert game.chance == 1 / game.num_actions
    assert len(seen) == game.num_actions  # each task looks different to the first speaker


def test_the_first_speaker_is_not_paid_before_the_last_one_has_spoken(game):
    env = game.choosing()
    for answer in range(game.num_actions):
        env.reset(seed=3)
        first = env.agent_selection
        env.step(answer)
        assert set(env.rewards.values()) == {0}
        env.step(answer)
        assert env.rewards[first] == game.scores.won[-1]
    assert sum(game.scores.won) == 1


@pytest.mark.parametrize("name", ["cheap_talk-v0", "gsm8k-v1"])
def test_the_grammar_allows_the_candidates_and_nothing_else(name):
    game = make_game(name)
    env = game.writing()
    said = set()

    def spell(choices):
        """Write what the choices lead to; return how many tokens were legal at each step of the first agent."""
        env.reset(seed=0)
        first, counts, token_action = env.agent_selection, [], env.env
        while env.agent_selection == first:
            legal = np.flatnonzero(token_action.action_mask(first))
            counts.append(len(legal))
            place = choices[len(counts) - 1] if len(counts) <= len(choices) else 0
            written = (*token_action.written, int(legal[place]))
            env.step(legal[place])
        said.add(token_action.tokenizer.decode(list(written)))
        return counts

    open_choices = [[]]
    while open_choices:
        choices = open_choices.pop()
        counts = spell(choices)
        for place in range(len(choices), len(counts)):
            open_choices += [[*choices, *[0] * (place - len(choices)), other] for other in range(1, counts[place])]
    assert said == set(game.candidates)


def test_a_game_whose_agents_have_texts_of_their_own_is_not_written():
    with pytest.raises(ValueError, match=r"tools-v1: each agent has texts of its own"):
        make_game("tools-v1").writing()


@pytest.mark.parametrize("name", ["cheap_talk-v1", "tools-v0", "tools-v1"])
def test_the_message_decides_and_a_muted_hearer_sees_none(name):
    """The hearer's observation tells the candidates apart that were said, not the problems; muted, nothing."""
    seen = {"heard": {}, "muted": {}}
    for kind, game in (("heard", make_game(name)), ("muted", make_game(name.replace("-", "_muted-")))):
        env = game.choosing()
        for seed in range(12):
            for said in range(game.num_actions):
                env.reset(seed=seed)
                env.step(said)
                seen[kind].setdefault(said, set()).add(env.observe(env.agent_selection).tobytes())
    assert all(len(views) == 1 for views in seen["heard"].values())
    assert len(set.union(*seen["heard"].values())) == len(seen["heard"])
    assert len(set.union(*seen["muted"].values())) == 1


def test_the_version_of_a_game_is_that_of_its_view():
    assert type(make_game("gsm8k-v0").choosing()) is EmbeddingObservation
    assert type(make_game("gsm8k-v1").choosing()) is BlockObservation
    assert {name.rpartition("-")[0] for name in GAMES} == {name[:-3] for name in GAMES}
    assert len(GAMES) == 10


def test_each_game_is_counted_once_also_by_copies(game):
    env = game.choosing()
    generator = np.random.default_rng(0)
    for played, env_or_copy in enumerate([env, env, copy.deepcopy(env)], start=1):
        play(env_or_copy, lambda agent, mask: generator.choice(np.flatnonzero(mask)))
        assert len(game.scores.won) == played


def test_a_game_found_again_has_the_same_scores_also_after_pickling():
    again = pickle.loads(pickle.dumps(find_game))
    assert again("cheap_talk-v1").scores is find_game("cheap_talk-v1").scores


def test_scores_are_of_the_last_games_only():
    assert Scores([True] * 5 + [False, True]).last(2) == 0.5
    with pytest.raises(ValueError, match="no game has ended"):
        Scores().last()


# -------------------------------------------------------------------- credit


def test_credit_is_the_gap_between_first_returns_of_games_won_and_lost():
    credit = Credit()
    credit.add([0.9, 1.0, 0.1, 0.0, 0.7, 1.0], [0, 1, 0, 0, 0, 1], [False, True, False, True, False, True])
    assert credit.gap() == pytest.approx((0.9 + 0.7) / 2 - 0.1)


def test_credit_is_zero_where_the_reward_is_lost_on_the_way():
    credit = Credit()
    credit.add(np.array([[0.3], [1.0], [0.3], [0.0]]), np.array([[0], [1], [0], [0]]), np.array([0, 1, 0, 1]))
    assert credit.gap() == 0


def test_credit_leaves_out_a_game_that_is_cut_off_and_needs_both_endings():
    credit = Credit()
    credit.add([0.5, 1.0, 9.9], [0, 1, 5], [False, True, False])
    assert math.isnan(credit.gap())
    credit.add([0.25, 0.0], [0, 0], [False, True])
    assert credit.gap() == 0.25
