from __future__ import annotations

import copy
import itertools
import json
import pickle

import numpy as np
import pytest
from pettingzoo.test import api_test, seed_test

from marft_envs import replay
from marft_envs.records.files import read_episodes
from marft_envs.wrappers import (
    CandidateAction,
    EmbeddingObservation,
    RecordTranscript,
    SharedPolicyEnv,
    TokenAction,
    TokenObservation,
    TurnParallel,
)
from tests.helpers.fakes import CopyDigit, Market
from tests.helpers.toy_games import toy_game
from tests.marft_envs.wrappers.views import BOXES, GAMES, LETTERS, SPEECH, VIEWS, over, turns


def rest(env, actions):
    """Play on; return all that can be seen of it."""
    seen = []
    for agent, action in zip(turns(env), actions, strict=False):
        seen.append((agent, copy.deepcopy(env.observe(agent)), env.state() if "state_space" in dir(env) else None))
        env.step(action)
        seen.append(
            (dict(env.rewards), dict(env.terminations), copy.deepcopy(env.infos), env._cumulative_rewards.copy())
        )
    return seen


def same(one, other):
    np.testing.assert_equal(one, other)
    return len(one)


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize(("game", "view"), list(itertools.product(GAMES, VIEWS)))
def test_copies_in_mid_episode_go_on_alike(game, view, how):
    env = VIEWS[view](GAMES[game]())
    env.reset(seed=0)
    space = env.action_space(env.agent_selection)
    env.step([0, 3, 1] if view.startswith(("token seq", "seq")) else 0)
    clone = how(env)
    actions = [space.sample() for _ in range(50)]
    assert same(rest(clone, actions), rest(env, actions)) or over(env)
    env.reset(seed=1)
    clone.reset(seed=1)
    agent = env.agent_selection
    np.testing.assert_equal(env.observe(agent), clone.observe(agent))
    assert over(env) is over(clone) is False


@pytest.mark.parametrize("view", [TurnParallel, SharedPolicyEnv])
def test_copies_of_the_outer_views(view):
    env = view(EmbeddingObservation(TokenAction(toy_game(horizon=2), SPEECH, 3)))
    env.reset(seed=0)
    act = (lambda env, token: env.step(dict.fromkeys(env.agents, token))) if view is TurnParallel else view.step
    act(env, 2)
    clones = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    for token in (3, 6, 3, 6, 4, 6):
        wanted = act(env, token)
        for clone in clones:
            np.testing.assert_equal(act(clone, token), wanted)


def test_deep_copies_share_tokenizers_and_models():
    class Heavy:
        def __call__(self, text):
            return [1.0]

        def __deepcopy__(self, memo):
            raise AssertionError("copied")

    env = EmbeddingObservation(CandidateAction(CopyDigit(), BOXES), Heavy())
    clone = copy.deepcopy(env)
    assert clone.embed is env.embed
    env = TokenObservation(TokenAction(toy_game(), SPEECH, 2), LETTERS, 4)
    clone = copy.deepcopy(env)
    assert clone.tokenizer is LETTERS
    assert clone.env.tokenizer is SPEECH
    assert clone.env is not env.env


def test_episodes_of_our_games_are_recorded_and_replay(tmp_path):
    path = tmp_path / "runs" / "episodes.jsonl"
    env = TurnParallel(EmbeddingObservation(CandidateAction(RecordTranscript(toy_game(horizon=2), path), BOXES)))
    for seed in (3, 4):
        env.reset(seed=seed, options={"index": 2})
        while env.agents:
            env.step(dict.fromkeys(env.agents, 3 if seed == 3 else 0))
    env.reset(seed=5)
    env.step(dict.fromkeys(env.agents, 0))  # never finished: not recorded
    env.reset()
    records = read_episodes(path)
    assert [record.seed for record in records] == [3, 4]
    assert [record.success for record in records] == [True, False]
    assert [turn.action for turn in records[0].turns] == ["\\boxed{3}"] * 2
    for record in records:
        assert replay(toy_game(horizon=2), record) == []
    copy.deepcopy(env)


def test_episodes_of_third_party_games_are_recorded(tmp_path):
    path = tmp_path / "market.jsonl"
    env = RecordTranscript(Market(rounds=1, buyer_rounds=1, cut=True), path)
    env.reset(seed=7)
    for agent in env.agent_iter():
        env.step(None if env.terminations[agent] or env.truncations[agent] else "a b")
    (record,) = read_episodes(path)
    assert (record.env_id, record.seed, record.team) == ("market_v0", 7, "buyer_0,seller_0")
    assert [(turn.agent, turn.action) for turn in record.turns] == [
        (a, "a b") for a in ("buyer_0", "buyer_0", "seller_0")
    ]
    assert record.turns[1].observation.endswith("heard a")
    assert record.rewards == (1.5,)
    assert (record.terminated, record.truncated) == (False, True)
    assert len(path.read_text().splitlines()) == 1
    assert json.loads(path.read_text())["turns"][0]["round"] == 0


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_a_recorded_game_is_the_game(tmp_path):
    api_test(RecordTranscript(toy_game(horizon=2), tmp_path / "api.jsonl"), num_cycles=20)
    seed_test(lambda: RecordTranscript(toy_game(), tmp_path / "seed.jsonl"), num_cycles=20)
    assert read_episodes(tmp_path / "api.jsonl")


def test_transcripts_are_jsonl(tmp_path):
    with pytest.raises(ValueError, match=r"found the ending '.json', wanted .jsonl"):
        RecordTranscript(toy_game(), tmp_path / "x.json")
