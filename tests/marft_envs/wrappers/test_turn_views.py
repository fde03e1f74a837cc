"""The parallel view and the shared policy: masks, the team reward, and how games end."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from marft_envs import FlexMG, make_vec
from marft_envs.dependency import matrix
from marft_envs.wrappers import (
    ActionMask,
    CandidateAction,
    EmbeddingObservation,
    RenamedAgents,
    SharedPolicyEnv,
    TokenAction,
    TokenSequenceAction,
    TurnParallel,
)
from tests.helpers.fakes import CopyDigit, Market
from tests.helpers.toy_games import play_out, toy_game, toy_tasks, toy_team
from tests.marft_envs.wrappers.views import BOXES, GAMES, MASKED, SPEECH, VIEWS, choose, one_box, over, turns


@pytest.mark.parametrize("view", MASKED)
@pytest.mark.parametrize("game", GAMES)
def test_masks_at_every_step(game, view):
    """Idle agents can do nothing else than nothing, the active one just what the AEC game lets it do."""
    aec = VIEWS[view](GAMES[game]())
    in_obs = TurnParallel(VIEWS[view](GAMES[game]()), noop=True, mask="obs", obs_key="observations")
    in_info = TurnParallel(VIEWS[view](GAMES[game]()), noop=True, mask="info")
    shared = SharedPolicyEnv(VIEWS[view](GAMES[game]()), mask="obs", obs_key="obs", mask_key="mask")
    rng = np.random.default_rng(0)
    for seed in range(3):
        aec.reset(seed=seed)
        observations, _ = in_obs.reset(seed=seed)
        _, infos = in_info.reset(seed=seed)
        observation, _ = shared.reset(seed=seed)
        for active in turns(aec):
            legal = aec.action_mask(active).tolist()
            masks = {agent: seen["action_mask"].tolist() for agent, seen in observations.items()}
            nothing = [0] * len(legal) + [1]
            assert masks == {agent: [*legal, 0] if agent == active else nothing for agent in aec.possible_agents}
            assert {agent: info["action_mask"].tolist() for agent, info in infos.items()} == masks
            assert {agent for agent, info in infos.items() if info["active"]} == {active}
            assert observation["mask"].tolist() == legal
            assert shared.action_masks().tolist() == [bool(entry) for entry in legal]
            assert shared.action_masks().dtype == bool
            action = int(rng.choice(np.flatnonzero(legal)))
            actions = {agent: action if agent == active else len(legal) for agent in aec.possible_agents}
            observations, _, ended, cut, _ = in_obs.step(actions)
            infos = in_info.step(actions)[-1]
            observation, *_ = shared.step(action)
            aec.step(action)
            assert (any(ended.values()) or any(cut.values())) == over(aec)
        assert all(seen["action_mask"].tolist() == nothing for seen in observations.values())
        assert observation["mask"].any()


def test_a_no_op_of_the_active_agent_says_nothing():
    env = TurnParallel(CandidateAction(toy_game(), BOXES), noop=True)
    assert env.action_space("a_0") == Discrete(5)
    env.reset(seed=0)
    *_, infos = env.step({"a_0": 4})
    assert infos["b_0"]["invalid"] == 1
    assert env.env.unwrapped.episode().turns[0].action == ""


@pytest.mark.parametrize("noop", [True, False])
def test_the_delayed_team_reward_reaches_everybody(noop):
    """The first speaker is paid in the step of the last one, in both rounds' length of game."""
    for horizon, paid_at in ((1, 2), (2, 4)):
        env = TurnParallel(RenamedAgents(CandidateAction(toy_game(horizon=horizon), BOXES)), noop=noop, mask="info")
        env.reset(options={"index": 2})
        rewards, flags = [], []
        for action in (0, 0, 0, 3) if horizon == 2 else (0, 3):
            _, reward, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, action))
            rewards.append(reward)
            flags.append((set(terminated.values()), set(truncated.values())))
        assert len(rewards) == paid_at
        assert rewards[-1] == {"agent_0": 1.0, "agent_1": 1.0}
        assert all(set(reward.values()) == {0.0} for reward in rewards[:-1])
        assert flags == [({False}, {False})] * (paid_at - 1) + [({True}, {False})]
        assert env.agents == env.unwrapped.agents == env.env.agents == []


@pytest.mark.parametrize("cut", [True, False])
def test_who_leaves_early_waits_for_the_others(cut):
    env = TurnParallel(CandidateAction(Market(rounds=4, buyer_rounds=1, cut=cut), ["a", "b"]), noop=True, mask="info")
    env.reset(seed=0)
    steps = []
    while env.agents:
        active = env.env.agent_selection
        observations, rewards, terminated, truncated, infos = env.step(dict.fromkeys(env.agents, 0))
        steps.append((active, rewards, set(terminated.values()), set(truncated.values())))
        assert set(observations) == set(infos) == {"buyer_0", "seller_0"}
    assert [active for active, *_ in steps] == ["buyer_0"] * 2 + ["seller_0"] * 4
    assert [rewards for _, rewards, *_ in steps[-2:]] == [{"buyer_0": 0.0, "seller_0": 1.0}] * 2
    assert all(flags == [{False}, {False}] for *_, one, other in steps[:-1] for flags in [[one, other]])
    assert steps[-1][2:] == ({not cut}, {cut})


def joint_steps(env, say):
    """Play a parallel view to its end; return the agents of each step."""
    _, infos = env.reset(seed=0, options={"index": 0})
    steps = []
    while env.agents:
        steps.append([agent for agent in env.agents if infos[agent]["active"]])
        *_, infos = env.step({agent: say(agent) for agent in env.agents})
    return steps


@pytest.mark.parametrize(
    ("dependency", "steps"),
    [
        ("independent", ["abcd"]),
        ("chain", ["a", "b", "c", "d"]),
        ({"kind": "matrix", "rows": [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]}, ["abc", "d"]),
        ({"kind": "matrix", "rows": [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]}, ["ac", "bd"]),
        ({"kind": "routed", "by": "a_0", "answer_by": "d_0"}, ["a", "bc", "d"]),
    ],
)
def test_the_agents_of_a_layer_act_in_one_step(dependency, steps):
    team = toy_team("a_0", "b_0", "c_0", "d_0", answering=("b_0", "d_0"))
    games = [FlexMG(toy_tasks(), team, dependency=dependency, horizon=2) for _ in range(2)]
    played = joint_steps(TurnParallel(OrderEnforcingWrapper(games[0])), lambda agent: f"I am {agent}")
    assert ["".join(agent[0] for agent in step) for step in played] == steps * 2
    games[1].reset(seed=0, options={"index": 0})
    assert play_out(games[1], lambda agent: f"I am {agent}").episode() == games[0].episode()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.booleans(), min_size=15, max_size=15), st.permutations(range(6)), st.sampled_from([None, "all"]))
def test_steps_are_layers_and_the_episode_is_that_of_the_turn_order(edges, order, delayed):
    """For any D the parallel view has one step per layer, and the record says nothing of the order of stepping."""
    rows, flags = np.zeros((6, 6), int), iter(edges)
    for i in range(6):
        for j in range(i):
            rows[order[j], order[i]] = next(flags)
    agents = [f"agent_{place}" for place in range(6)]
    team = toy_team(*agents, answering=tuple(agents), dependency=matrix(rows, delayed=delayed))
    games = [FlexMG(toy_tasks(), team, horizon=2) for _ in range(2)]
    steps = joint_steps(TurnParallel(games[0]), lambda agent: f"I am {agent}")
    assert steps == [sorted(layer) for layer in team.dependency.plan(team.roster).layers] * 2
    games[1].reset(seed=0, options={"index": 0})
    assert play_out(games[1], lambda agent: f"I am {agent}").episode() == games[0].episode()
    for agent in agents:
        assert games[0].observe(agent) == games[1].observe(agent)


def test_a_joint_step_needs_the_action_of_every_active_agent():
    env = TurnParallel(toy_game("a_0", "b_0", dependency="independent"))
    env.reset(seed=0)
    with pytest.raises(KeyError, match="it is the turn of b_0, but there are only actions of"):
        env.step({"a_0": "1"})
    assert env.env.episode().turns == ()
    env.step({"a_0": "1", "b_0": "2"})
    assert not env.agents


def test_only_an_agent_that_is_ready_can_be_selected():
    rows = [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    game = FlexMG(toy_tasks(), toy_team("a_0", "b_0", "c_0", answering=("b_0", "c_0"), dependency=matrix(rows)))
    game.reset(seed=0)
    with pytest.raises(ValueError, match="b_0 cannot act now; ready are a_0, c_0"):
        game.select("b_0")
    game.select("c_0")
    game.step("first")
    assert game.agent_selection == "a_0"
    assert [game.infos[agent]["ready"] for agent in game.agents] == [1, 0, 0]


def test_candidates_of_one_turn_are_chosen_one_agent_at_a_time():
    """Joint steps need legal actions that are known for every agent of the layer."""

    def steps(candidates, **knobs):
        env = TurnParallel(CandidateAction(toy_game("a_0", "b_0", dependency="independent"), candidates, **knobs))
        return len(joint_steps(env, lambda agent: 0))

    assert steps(BOXES) == 1
    assert steps(BOXES, show=True) == steps({"a_0": BOXES, "b_0": BOXES[:2]}) == 2
    tokens = TurnParallel(TokenAction(toy_game("a_0", "b_0", dependency="independent"), SPEECH, 2))
    assert all(len(step) == 1 for step in joint_steps(tokens, lambda agent: 1))
    renamed = TurnParallel(RenamedAgents(toy_game(dependency={"kind": "independent"})))
    assert joint_steps(renamed, str) == [["agent_0", "agent_1"]]


@pytest.mark.parametrize("dependency", ["independent", {"kind": "routed", "by": "a_0", "answer_by": "c_0"}])
def test_joint_steps_pass_the_tests_of_pettingzoo(dependency):
    def make():
        return TurnParallel(OrderEnforcingWrapper(toy_game("a_0", "b_0", "c_0", dependency=dependency, horizon=2)))

    parallel_api_test(make(), num_cycles=30)
    parallel_seed_test(make, num_cycles=30)
    api_test(OrderEnforcingWrapper(toy_game("a_0", "b_0", "c_0", dependency=dependency, horizon=2)), num_cycles=30)


@pytest.mark.parametrize("cut", [True, False])
def test_one_policy_plays_a_third_party_game_to_its_end(cut):
    env = SharedPolicyEnv(CandidateAction(Market(cut=cut), ["a", "b"]))
    _, info = env.reset(seed=0)
    turns, rewards, ended = [info["agent_index"]], [], False
    while not ended:
        _, reward, terminated, truncated, info = env.step(len(turns) == 2)
        rewards.append(reward)
        ended = terminated or truncated
        turns.append(info["agent_index"])
    assert turns[:-1] == [0, 0, 1, 0, 0, 1, 1]
    assert rewards == [0.5, 0, 0.5, 0.5, 0.5, 0.5, 0.5]
    assert (terminated, truncated) == (not cut, cut)


def test_attributes_that_libraries_read():
    env = TurnParallel(EmbeddingObservation(CandidateAction(toy_game(), BOXES)), noop=True, mask="obs")
    env.reset(seed=0)
    for agent in env.possible_agents:
        assert env.observation_spaces[agent] is env.observation_space(agent)
        assert env.action_spaces[agent] is env.action_space(agent)
    assert env.state_space.contains(env.state())
    assert (env.num_agents, env.max_num_agents) == (2, 2)
    assert env.unwrapped is env


def test_names_decide_who_shares():
    env = RenamedAgents(
        CandidateAction(toy_game("planner_0", "solver_0", "critic_0"), choose, 4), {"critic_0": "solver_1"}
    )
    assert env.possible_agents == ["planner_0", "solver_0", "solver_1"]
    env.reset(seed=0)
    seen = []
    while not any(env.terminations.values()):
        seen.append(env.agent_selection)
        assert env.observe(env.agent_selection) == env.env.observe(env.env.agent_selection)
        assert env.action_mask(env.agent_selection).tolist() == env.env.action_mask(env.env.agent_selection).tolist()
        env.step(0)
    assert seen == env.agents == env.possible_agents
    assert list(env.infos) == list(env.rewards) == env.agents
    assert RenamedAgents(toy_game("x_0", "y_0")).possible_agents == ["agent_0", "agent_1"]
    for names in ({"a_0": "b_0"}, {"c_0": "d_0"}):
        with pytest.raises(ValueError, match="wanted different new names"):
            RenamedAgents(toy_game(), names)


def test_impossible_masks_are_refused():
    with pytest.raises(ValueError, match="noop: the actions are UnicodeText"):
        TurnParallel(toy_game(), noop=True)
    with pytest.raises(ValueError, match="only Discrete ones have a mask"):
        TurnParallel(TokenSequenceAction(toy_game(), SPEECH, 2), mask="obs")
    with pytest.raises(ValueError, match="only Discrete ones have a mask"):
        SharedPolicyEnv(toy_game(), mask="info")
    env = SharedPolicyEnv(toy_game())
    env.reset()
    with pytest.raises(ValueError, match="only Discrete ones have a mask"):
        env.action_masks()


def test_third_party_infos_become_numbers():
    class Chatty(CopyDigit):
        def reset(self, seed=None, options=None):
            super().reset(seed, options)
            self.infos = {
                agent: {"who": agent, "none": None, "grid": np.ones(2), "word": np.array("x")} for agent in self.agents
            }

        def step(self, action):
            super().step(action)
            self.infos = {agent: {"late": 1, "grid": np.ones(3), "none": 2} for agent in self.agents}

    env = TurnParallel(TokenAction(Chatty(), SPEECH, 4, grammar=one_box))
    _, infos = env.reset(seed=0)
    assert set(infos["actor_0"]) == {"grid", "invalid", "active"}
    for token in (0, 3, 1, SPEECH.eos_token_id):
        *_, infos = env.step({"speaker_0": token})
    assert set(infos["actor_0"]) == {"grid", "invalid", "active"}
    assert infos["actor_0"]["grid"].tolist() == [0, 0]


def test_views_side_by_side():
    """The vector form takes numeric views as it takes text games."""
    make = lambda: ActionMask(EmbeddingObservation(CandidateAction(toy_game(), BOXES)))  # noqa: E731
    with make_vec(make, 3) as games:
        waiting, ended = games.reset(seeds=0, options={"index": 2}), []
        while waiting:
            assert all(turn.observation["action_mask"].all() for turn in waiting)
            waiting = games.step({turn.index: turn.index + 1 for turn in waiting})
            ended += games.ended
    assert sorted((game.index, game.rewards["a_0"]) for game in ended) == [(0, 0.0), (1, 0.0), (2, 1.0)]
    assert [game.failure for game in ended] == [None] * 3


def test_the_example_of_the_package():
    import marft_envs

    env = marft_envs.make("marft/math_duo-v0")
    env = EmbeddingObservation(CandidateAction(env, ["\\boxed{1}", "\\boxed{2}"]))
    env = TurnParallel(RenamedAgents(env), noop=True, mask="info")
    observations, infos = env.reset(seed=0)
    assert {agent: info["action_mask"].tolist() for agent, info in infos.items()} == {
        "agent_0": [1, 1, 0],
        "agent_1": [0, 0, 1],
    }
    assert all(seen.shape == (256,) and seen.any() for seen in observations.values())
