from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium.spaces import Discrete, Text

from marft_envs import FlexMG
from marft_envs.tasks.math import MathTasks
from marft_envs.wrappers import ActionMask, CandidateAction, EmbeddingObservation
from tests.helpers.fakes import CopyDigit, Market
from tests.helpers.toy_games import toy_game, toy_tasks, toy_team
from tests.marft_envs.wrappers.views import BOXES, choose


def said(env):
    return [turn.action for turn in env.unwrapped.episode().turns]


def test_candidates_reach_the_game_as_exactly_these_texts():
    texts = ["", " leading and trailing \n", "中🙂", "\\boxed{1}", "x" * 16384]
    env = CandidateAction(toy_game(horizon=3), texts)
    assert env.action_space("a_0") == Discrete(5)
    env.reset(seed=0, options={"index": 6})
    for action in (4, 3, np.int64(2), np.array(1), np.array([0])):
        env.step(action)
    assert said(env) == [texts[place] for place in (4, 3, 2, 1, 0)]
    assert env.infos["a_0"]["invalid"] == 0 + 1  # the game's own: the first round's answer was none
    env.step(0)
    assert env.truncations == {"a_0": True, "b_0": True}


def test_texts_by_agent_and_by_function():
    env = CandidateAction(toy_game(), {"a_0": ["x"], "b_0": ["y", "z"]})
    env.reset(seed=0)
    assert env.candidates == ("x",)
    assert env.action_mask("a_0").tolist() == [1, 0]
    assert env.action_mask("b_0").tolist() == [1, 1]  # not its turn: no promise
    env.step(0)
    env.step(1)
    assert said(env) == ["x", "z"]

    env = CandidateAction(toy_game(), lambda inner, agent: [f"{agent} of {len(inner.agents)}"], 1)
    env.reset(seed=0)
    env.step(0)
    assert said(env) == ["a_0 of 2"]


class ProposingTasks(MathTasks):
    def candidates(self, task, agent):
        return [f"\\boxed{{{task.answer}}}", f"{agent} passes"]


class ProposingGame(CopyDigit):
    def candidates(self, agent):
        return ["0", "1"] if agent == "actor_0" else [self.answer]


def test_texts_of_the_task_and_of_the_game():
    tasks = ProposingTasks("toy", [toy_tasks()[place] for place in range(3)], grader=toy_tasks()._grader)
    env = CandidateAction(FlexMG(tasks, toy_team("a_0", "b_0")), k=3)
    env.reset(options={"index": 2})
    assert env.candidates == ("\\boxed{3}", "a_0 passes")
    assert env.action_mask("a_0").tolist() == [1, 1, 0]
    env.step(1)
    env.step(0)
    assert said(env) == ["a_0 passes", "\\boxed{3}"]
    assert env.rewards == {"a_0": 1.0, "b_0": 1.0}

    env = CandidateAction(ProposingGame(), k=2)
    env.reset(seed=0)
    assert env.candidates == (env.unwrapped.answer,)
    env.step(0)
    assert env.candidates == ("0", "1")


class Answer:
    def __init__(self, text):
        self.text = text


class Dice:
    """A policy that says one of four words at random."""

    def act(self, requests):
        return [Answer(f"{request.agent} {request.generator.integers(4)}") for request in requests]


def test_a_policy_is_asked_k_times_and_repetitions_are_left_out():
    env = CandidateAction(toy_game(horizon=2), Dice(), 6)
    shown = []
    for seed in (0, 0, 1):
        env.reset(seed=seed)
        turns = []
        for agent in ("a_0", "b_0", "a_0"):
            assert len(set(env.candidates)) == len(env.candidates) <= 4
            assert all(text.startswith(agent) for text in env.candidates)
            assert env.action_mask(agent).tolist() == [1] * len(env.candidates) + [0] * (6 - len(env.candidates))
            turns.append(env.candidates)
            env.step(0)
        shown.append(turns)
    assert shown[0] == shown[1]
    assert shown[0] != shown[2]
    assert shown[0][0] != shown[0][2]  # asked anew each turn
    before = env.candidates
    for _ in range(3):
        env.observe("a_0")
        env.action_mask("a_0")
    assert env.candidates == before


def test_shown_candidates_are_seen_by_whoever_acts():
    env = CandidateAction(toy_game(), ["yes", "no"], show=True)
    env.reset(seed=0)
    plain = env.env.observe("a_0")
    assert env.observe("a_0") == f"{plain}\n\n[candidates]\n0: yes\n1: no"
    assert env.observe("a_0").messages[:-1] == plain.messages
    assert env.observe("b_0") == env.env.observe("b_0")
    assert env.observation_space("a_0").contains(env.observe("a_0"))
    env.step(0)
    assert "[candidates]" not in env.observe("a_0")
    env.step(0)
    assert "[candidates]" not in env.observe("b_0")


def test_masks_of_a_small_game_enumerated_wholly():
    """Two agents, two rounds, four numbers each: every sequence of actions, legal and not."""
    kinds = set()
    for actions in itertools.product(range(4), repeat=4):
        env = CandidateAction(toy_game(horizon=2), choose, 4)
        env.reset(seed=0, options={"index": 2})
        wanted, own = [], 0
        for action in actions:
            if any(env.terminations.values()):
                break
            agent = env.agent_selection
            proposed = choose(env.env, agent)
            legal = action < len(proposed)
            kinds.add((len(proposed), legal))
            assert env.action_mask(agent).tolist() == [1] * len(proposed) + [0] * (4 - len(proposed))
            wanted.append(proposed[action] if legal else "")
            before = env.infos[agent]["invalid"] - env.env.infos[agent]["invalid"]
            env.step(action)
            own = env.infos[agent]["invalid"] - env.env.infos[agent]["invalid"]
            assert own - before == (not legal)
        assert said(env) == wanted
        solved = BOXES[3] in (wanted[1], *wanted[3:])
        assert env.rewards == dict.fromkeys(env.agents, float(solved))
    assert {legal for _, legal in kinds} == {True, False}
    assert len({count for count, _ in kinds}) > 1


@pytest.mark.parametrize(
    "action", [-1, 2, 10**9, 1.5, float("nan"), "0", b"", [0], (), np.array([0, 1]), np.zeros(0), {}]
)
@pytest.mark.parametrize("game", [toy_game, Market])
def test_an_illegal_action_says_nothing_and_counts(action, game):
    env = CandidateAction(game(), ["a", "b"])
    env.reset(seed=0)
    agent = env.agent_selection
    env.step(action)
    assert env.infos[agent]["invalid"] == 1
    heard = said(env) if isinstance(env.unwrapped, FlexMG) else env.unwrapped.log
    assert heard == ([""] if isinstance(env.unwrapped, FlexMG) else ["?"])
    env.reset(seed=0)
    assert env.infos[agent]["invalid"] == 0


def test_none_is_for_agents_that_have_ended():
    env = CandidateAction(toy_game(), ["a"])
    env.reset(seed=0)
    with pytest.raises(TypeError, match="the action of a_0 is None"):
        env.step(None)


def test_texts_that_do_not_fit_the_game_are_made_to_fit_and_counted():
    env = CandidateAction(Market(), ["a" * 500, "中", "a"])
    env.reset(seed=0)
    env.step(0)
    assert env.infos["buyer_0"]["invalid"] == 1
    env.step(1)  # not in the game's alphabet: nothing is said
    assert env.infos["buyer_0"]["invalid"] == 2
    env.step(2)
    assert env.infos["buyer_0"]["invalid"] == 2
    assert env.unwrapped.log == ["?", "?", "a"]

    env = Market()
    env.action_space = lambda agent: Text(5, charset="xyz")  # gymnasium's default: empty text is not in it
    env = CandidateAction(env, ["xy", "a"])
    env.reset(seed=0)
    for action in (1, 9, 0):
        env.step(action)
    assert env.infos["seller_0"]["invalid"] == 2


def test_where_nothing_is_proposed_saying_nothing_is_the_only_choice():
    env = CandidateAction(toy_game(), lambda env, agent: [], 3)
    env.reset(seed=0)
    assert env.action_mask("a_0").tolist() == [1, 0, 0]
    env.step(0)
    assert said(env) == [""]
    assert env.infos["a_0"]["invalid"] == 0


def test_what_cannot_be_wrapped_is_refused():
    with pytest.raises(ValueError, match="proposes no candidates: give `candidates`"):
        CandidateAction(toy_game())
    with pytest.raises(ValueError, match="k: found 2, wanted at least 3"):
        CandidateAction(toy_game(), ["a", "b", "c"], 2)
    with pytest.raises(ValueError, match="k: found 0, wanted at least 1"):
        CandidateAction(toy_game(), choose)
    with pytest.raises(ValueError, match=r"the actions of a_0 are Discrete\(1\), wanted text"):
        CandidateAction(CandidateAction(toy_game(), ["a"]), ["a"])
    env = CandidateAction(toy_game(), choose, 1)
    with pytest.raises(ValueError, match="candidates for a_0, wanted at most k = 1"):
        env.reset(seed=0)


def test_masks_in_observations_and_infos_of_the_aec_game():
    env = ActionMask(EmbeddingObservation(CandidateAction(toy_game(), choose, 4)), "obs", obs_key="observations")
    env.reset(seed=0)
    assert set(env.observe("a_0")) == {"observations", "action_mask"}
    assert env.observation_space("a_0").contains(env.observe("a_0"))
    assert env.observe("a_0")["action_mask"].tolist() == env.action_mask("a_0").tolist()
    env = ActionMask(CandidateAction(toy_game(), choose, 4), "info", mask_key="legal")
    env.reset(seed=0)
    first = env.infos["a_0"]["legal"]
    assert first.tolist() == env.action_mask("a_0").tolist()
    env.step(0)
    assert env.infos["b_0"]["legal"].tolist() == env.action_mask("b_0").tolist()
    with pytest.raises(ValueError, match="mask: found 'infos', wanted 'obs', 'info' or None"):
        ActionMask(CandidateAction(toy_game(), ["a"]), "infos")
    with pytest.raises(ValueError, match="only Discrete ones have a mask; use mask=None"):
        ActionMask(toy_game(), "obs")
