"""Individual rewards (`rewards = "own"`): each agent is trained on its own; those of the team stay as they were."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import ALGORITHMS, learner_settings
from marft_agents.learning.batch import build_batch
from marft_agents.learning.credit import credit_steps
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.policies.policy import text_action
from marft_agents.rollouts.prompt_groups import differing
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.runs.run_folder import episode_record
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import SampledTurn, Trajectory
from tests.helpers.fakes import CopyDigit, Market, Probe, word_team
from tests.helpers.naive import DESCENT, IDLE_CRITIC, adapters

MARKET = ("buyer_0", "seller_0")
TRAINED = ("ippo", "grpo", "dr-grpo", "dapo", "gspo", "rloo", "reinforce++", "at-grpo", "c3")
REFUSED = ("marft-a", "marft-t", "ppo-a", "ppo-t", "vapo", "mappo", "happo", "a2po")
SAMPLING = SamplingParams(max_new_tokens=2)


class Opposed(Probe):
    """Zero-sum: both say a word; the first agent wins if the sum of all letters is odd, the second if it is even."""

    speakers = ("first_0", "second_0")
    winner = 1.0

    def draw(self, rng):
        self.answer = ""

    def observe(self, agent):
        return "digit 1" if agent == "first_0" else f"heard {self.heard('first_0')}"

    def step(self, action):
        judged = self.agent_selection == "second_0" and not self.terminations["second_0"]
        super().step(action)
        if judged:
            paid = self.winner if sum(map(ord, "".join(self.said.values()))) % 2 else -self.winner
            self.rewards = {"first_0": paid, "second_0": -paid}


class Exchanged(Opposed):
    """The same game, where the second agent wins if it is odd."""

    winner = -1.0


def played(make, name, agents, *, groups=3, size=4):
    """Return episodes; of an algorithm that compares branches, alternatives of single turns."""
    team = word_team(agents, sampling=SAMPLING, stir=0.3)
    found = collect(make, team, training_episodes(0, 0, groups, size), seed=0, encode=team.encode)
    if not ALGORITHMS[name].min_branches:
        return found
    return [dataclasses.replace(t, branch=t.group % 2) for t in found]


def steps(trajectories, name, agents, rewards):
    """Return by policy, flat, the step that one update of plain gradient descent takes."""
    chosen = ALGORITHMS[name]
    settings = {
        key: value for key, value in DESCENT.items() if chosen.critic or key not in (*IDLE_CRITIC, "trace_decay")
    }
    team = word_team(agents, sampling=SAMPLING, stir=0.3)
    before = adapters(team)
    Learner(team, learner_settings(name, rewards=rewards, kl_weight=0.0, **settings)).update(trajectories)
    after = adapters(team)
    return {p: torch.cat([(after[p][key] - before[p][key]).flatten() for key in before[p]]) for p in before}


@pytest.mark.parametrize("name", TRAINED)
def test_opposite_rewards_train_in_opposite_directions(name):
    agents = Opposed.speakers
    ours, theirs = played(Opposed, name, agents), played(Exchanged, name, agents)
    for one, other in zip(ours, theirs, strict=True):
        assert [turn.action.text for turn in one.turns] == [turn.action.text for turn in other.turns]
        assert one.return_of("first_0") == -one.return_of("second_0") == -other.return_of("first_0") != 0
        assert one.team_return == 0
    own, exchanged = (steps(trajectories, name, agents, "own") for trajectories in (ours, theirs))
    team = steps(ours, name, agents, "team")
    for policy in own:
        assert own[policy].norm() > 1e-3
        assert torch.allclose(own[policy], -exchanged[policy], rtol=1e-3, atol=1e-5 * float(own[policy].norm()))
        assert team[policy].norm() < 1e-6  # the mean of opposite rewards teaches nothing


@pytest.mark.parametrize("name", TRAINED)
def test_where_all_are_paid_alike_own_rewards_are_those_of_the_team(name):
    agents = CopyDigit.speakers
    trajectories = played(CopyDigit, name, agents)
    assert all(turn.rewards is None for t in trajectories for turn in t.turns)
    team, own = (steps(trajectories, name, agents, rewards) for rewards in ("team", "own"))
    assert all(torch.equal(team[policy], own[policy]) for policy in team)


@pytest.mark.parametrize("trained", [MARKET, MARKET[1:]])
def test_an_action_gets_what_its_agent_is_paid_until_its_next(trained):
    trajectories = played(Market, "ippo", MARKET)
    settings = LearnerSettings(credit="own", rewards="own")
    batch = build_batch(trajectories, {agent: (agent,) for agent in trained}, settings)
    for row in range(len(batch.actions)):
        agent, turns = batch.agents[batch.agent[row]], trajectories[batch.episode[row]].turns
        own = [k for k, turn in enumerate(turns) if turn.agent == agent and k > batch.turn[row]]
        until = own[0] if own else len(turns)
        paid = [(t.rewards or {}).get(agent, t.reward) for t in turns[batch.turn[row] : until]]
        assert batch.reward[row] == pytest.approx(sum(paid))
        assert batch.team_return[row] == pytest.approx(sum((t.rewards or {}).get(agent, t.reward) for t in turns))
    along = credit_steps(batch, settings)
    assert along.reward.tolist() == batch.reward[along.action].tolist()


def test_the_reward_to_go_is_discounted_between_an_agents_own_turns():
    trajectories = played(Market, "grpo", MARKET, groups=1, size=1)
    settings = LearnerSettings(
        baseline="none", compare="draw", scaling="none", centring="none", rewards="own", discount=0.5
    )
    turned = dataclasses.replace(settings, baseline="group", compare="turn")
    from marft_agents.learning.credit import _outcomes

    batch = build_batch(trajectories, {agent: (agent,) for agent in MARKET}, turned)
    found = _outcomes(batch, turned)
    for agent in range(2):
        rows = [row for row in range(len(batch.actions)) if batch.agent[row] == agent]
        for place, row in enumerate(rows):
            wanted = sum(0.5**k * batch.reward[later] for k, later in enumerate(rows[place:]))
            assert found[row] == pytest.approx(wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_of_the_whole_team_is_refused(name):
    with pytest.raises(
        SettingsError, match=r"rewards = 'own': with credit = .* wanted credit = 'own' \(algorithm ippo"
    ):
        learner_settings(name, rewards="own")
    with pytest.raises(SettingsError, match=r"rewards = 'own': compounding = 'happo' .* wanted compounding = 'none'"):
        LearnerSettings(credit="own", rewards="own", compounding="happo")


def test_every_algorithm_is_trained_or_refused():
    assert sorted((*TRAINED, *REFUSED)) == sorted(ALGORITHMS)


def test_groups_differ_by_the_rewards_that_train():
    trajectories = played(Opposed, "grpo", Opposed.speakers, groups=1)
    assert len({t.return_of("first_0") for t in trajectories}) == 2
    for by_turn in (False, True):
        assert differing(trajectories, by_turn=by_turn) == [False]
        assert differing(trajectories, by_turn=by_turn, own_rewards=True) == [True]


def test_branches_differ_by_the_rewards_of_the_agent_whose_turn_is_trained():
    def branch(turn, paid):
        first = SampledTurn("first_0", text_action("x"), 0.0)
        second = SampledTurn("second_0", text_action("x"), paid / 2, rewards={"first_0": 0.0, "second_0": paid})
        return Trajectory(0, 0, (first, second), terminated=True, truncated=False, branch=turn)

    assert differing([branch(0, 1.0), branch(0, 2.0)], own_rewards=True) == [False]
    assert differing([branch(1, 1.0), branch(1, 2.0)], own_rewards=True) == [True]


def test_the_mean_of_different_rewards_is_said_and_each_is_recorded():
    trajectories = played(Opposed, "grpo", Opposed.speakers)
    record = episode_record(0, trajectories[0])["turns"]
    assert [turn.get("rewards") for turn in record] == [None, dict(trajectories[0].turns[1].rewards)]
    with pytest.warns(RuntimeWarning, match="trained on the mean: give --rewards own"):
        steps(trajectories, "grpo", Opposed.speakers, "team")
    trajectories = played(Opposed, "marft-a", Opposed.speakers)
    with pytest.warns(RuntimeWarning, match=r"takes no others \(rewards = 'own': .* wanted credit = 'own'"):
        steps(trajectories, "marft-a", Opposed.speakers, "team")
