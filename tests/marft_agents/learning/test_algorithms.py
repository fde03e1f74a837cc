"""Every algorithm by name: its ratio, its gradient against formulas written out, its refusals, and that it learns."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import ALGORITHMS, learner_settings, settings_for
from marft_agents.learning.batch import build_batch
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import CopyDigit, Market, word_team
from tests.helpers.naive import adapters, assert_stepped_along, moved
from tests.helpers.restated import naive_gradient

MARKET = ("buyer_0", "seller_0")
SAMPLING = SamplingParams(temperature=0.8, top_p=0.95, max_new_tokens=5)
# Adam with a huge epsilon is plain gradient descent with step lr / epsilon: what moved is the gradient
DESCENT = {"policy_lr": 1e6, "adam_epsilon": 1e6, "max_grad_norm": 1e9}
CAST = {name: MARKET[:1] if a.single_agent else MARKET for name, a in ALGORITHMS.items()}


class Solo(Market):
    """A market with a buyer only."""

    def __init__(self, cut=False):
        super().__init__(cut=cut)
        self.possible_agents = ["buyer_0"]

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.plan = ["buyer_0"] * 4


def table(name, **knobs):
    """Return an algorithm's settings for a few updates."""
    chosen = ALGORITHMS[name]
    early = {"value_warmup": 0, "value_epochs": 1, "value_mini_batches": 1} if chosen.critic else {}
    return settings_for(name, learner_settings(name, **(early | knobs)), len(CAST[name]))


def episodes(team, name, *, groups=2, size=3, cut=False, seed=0):
    """Return ragged episodes of a market; of an algorithm that compares branches, alternatives of single turns."""
    make = (lambda: Solo(cut)) if len(CAST[name]) == 1 else (lambda: Market(cut=cut))
    played = collect(make, team, training_episodes(seed, 0, groups, size), seed=seed, encode=team.encode)
    if not ALGORITHMS[name].min_branches:
        return played
    # the turns before need only look shared here: what is compared is one of the buyer's and one of the seller's turns
    return [dataclasses.replace(t, branch=(1, 5)[t.group % 2]) for t in played]


def ragged_team(name, **changes):
    return word_team(CAST[name], sampling=SAMPLING, stir=0.3, **changes)


PLAYED = {}


def ragged_episodes(name, *, cut=False):
    """Return episodes of a fresh `ragged_team`; algorithms with the same cast learn from the same ones."""
    key = str(CAST[name]), ALGORITHMS[name].min_branches, cut
    if key not in PLAYED:
        PLAYED[key] = episodes(ragged_team(name), name, cut=cut)
    return list(PLAYED[key])


# ------------------------------------------------------------------ exactness


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_ratio_of_the_first_pass_is_one_and_the_step_is_the_plain_gradient(name):
    team = ragged_team(name)
    critic = {"critic_lr": 1e-9} if ALGORITHMS[name].critic else {}
    per_token = {"token_discount": 0.9, "token_trace_decay": 0.7}
    wide = {"length_adaptive": 0.5}  # else lambda is 0 between so few tokens
    special = {"marft-t": per_token, "ppo-t": per_token, "vapo": wide}.get(name, {})
    settings = table(name, **DESCENT, **critic, **special)
    if settings.compounding != "none":  # what is carried has a test of its own; here each agent starts from 1
        settings = dataclasses.replace(settings, compounding="none")
    trajectories = ragged_episodes(name, cut=ALGORITHMS[name].critic)
    wanted = {policy: naive_gradient(name, team, trajectories, policy, settings) for policy in team.policies}
    before = adapters(team)
    learner = Learner(team, settings)
    metrics = learner.update(trajectories)
    # without a critic nothing is computed for it
    assert (learner.critic is None) == (not ALGORITHMS[name].critic) == ("critic/loss" not in metrics)
    for policy, gradient in wanted.items():
        assert metrics[f"{policy}/first_pass_log_ratio_max"] < 1e-4
        assert metrics[f"{policy}/clip_share"] == 0
        assert_stepped_along(before[policy], adapters(team)[policy], gradient)


def test_the_likelihood_term_is_a_mean_over_the_tokens_of_successes_alone():
    team = ragged_team("vapo")
    settings = table("vapo", **DESCENT, critic_lr=1e-9, length_adaptive=0.5)
    played = ragged_episodes("vapo")
    lost = [tuple(dataclasses.replace(turn, reward=0.0) for turn in t.turns) for t in played[::2]]
    played[::2] = [dataclasses.replace(t, turns=turns) for t, turns in zip(played[::2], lost, strict=True)]
    assert {t.team_return > 0 for t in played} == {False, True}
    wanted = naive_gradient("vapo", team, played, "buyer_0", settings)
    before = adapters(team)
    Learner(team, settings).update(played)
    assert_stepped_along(before["buyer_0"], adapters(team)["buyer_0"], wanted)


def test_dr_grpo_divides_by_the_token_limit_whatever_the_longest_action():
    played = ragged_episodes("dr-grpo")
    team = word_team(MARKET, sampling=dataclasses.replace(SAMPLING, max_new_tokens=12), stir=0.3)
    assert max(len(turn.action.token_ids) for t in played for turn in t.turns) == 5
    settings = table("dr-grpo", **DESCENT)
    wanted = naive_gradient("dr-grpo", team, played, "buyer_0", settings)
    before = adapters(team)
    Learner(team, settings).update(played)
    assert_stepped_along(before["buyer_0"], adapters(team)["buyer_0"], wanted)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("ppo-a", "ppo-t", "mappo")])
def test_the_step_depends_neither_on_the_micro_batch_nor_on_the_order_of_episodes(name):
    """Those left out add up as marft-a, marft-t and ippo do, of other agents or with other credit."""
    steps = []
    for size, seed in ((64, None), (3, 5)):
        team = ragged_team(name)
        trajectories = ragged_episodes(name)
        if seed is not None:
            trajectories = [trajectories[i] for i in np.random.default_rng(seed).permutation(len(trajectories))]
        before = adapters(team)
        Learner(team, table(name, micro_batch=size, agent_order="fixed", **DESCENT)).update(trajectories)
        after = adapters(team)
        steps.append({(p, k): before[p][k] - after[p][k] for p in before for k in before[p]})
    largest = max(step.abs().max() for step in steps[0].values())
    assert largest > 1e-4
    for place, step in steps[0].items():
        assert (step - steps[1][place]).abs().max() < 2e-4 * largest


# ------------------------------------------------------------------ actions of another engine


def foreign(trajectories, *, noise=0.6):
    """Say that another engine, whose log-probs are off, sampled every second action."""
    generator = np.random.default_rng(0)

    def other(action):
        off = generator.normal(0, noise, len(action.logprobs)).astype(np.float32)
        return dataclasses.replace(action, logprobs=action.logprobs + off, exact=False)

    return [
        dataclasses.replace(
            t,
            turns=tuple(dataclasses.replace(u, action=other(u.action)) if k % 2 else u for k, u in enumerate(t.turns)),
        )
        for t in trajectories
    ]


def test_actions_of_another_engine_start_from_a_ratio_of_one_with_mini_batches_too():
    team = ragged_team("marft-a")
    metrics = Learner(team, table("marft-a", mini_batches=2)).update(foreign(ragged_episodes("marft-a")))
    for agent in MARKET:
        assert metrics[f"{agent}/first_pass_log_ratio_max"] < 1e-4


@pytest.mark.parametrize("name", ["marft-a", "marft-t", "gspo", "dr-grpo", "grpo"])
def test_actions_of_another_engine_are_weighted_by_truncated_importance(name):
    team = ragged_team(name)
    settings = table(name, importance_cap=1.5, **DESCENT)
    trajectories = foreign(ragged_episodes(name))
    wanted = naive_gradient(name, team, trajectories, "buyer_0", settings)
    unweighted = naive_gradient(name, team, ragged_episodes(name), "buyer_0", settings)
    before = adapters(team)
    metrics = Learner(team, settings).update(trajectories)
    assert metrics["buyer_0/first_pass_log_ratio_max"] < 1e-4
    assert 0 < metrics["buyer_0/importance_capped"] < 0.5
    assert 0.7 < metrics["buyer_0/importance"] < 1.5
    assert_stepped_along(before["buyer_0"], adapters(team)["buyer_0"], wanted)
    with pytest.raises(AssertionError, match="off by"):
        assert_stepped_along(before["buyer_0"], adapters(team)["buyer_0"], unweighted)


# ------------------------------------------------------------------ shaping


def test_what_shapes_the_reward_is_reported_apart_from_it():
    team = ragged_team("dapo")
    trajectories = ragged_episodes("dapo")
    returns = [t.team_return for t in trajectories]
    metrics = Learner(team, table("dapo")).update(trajectories)
    lengths = [len(u.action.token_ids) for t in trajectories for u in t.turns if u.agent == "buyer_0"]
    assert metrics["buyer_0/shaping"] == pytest.approx(np.mean([-float(length == 5) for length in lengths]))
    assert [t.team_return for t in trajectories] == returns
    assert "buyer_0/shaping" not in Learner(team, table("dr-grpo")).update(trajectories)


def test_a_kl_in_the_reward_pulls_the_policy_to_the_base():
    team = ragged_team("rloo")
    trajectories = ragged_episodes("rloo")
    before = adapters(team)
    metrics = Learner(team, table("rloo", kl_weight=10.0, policy_lr=0.05)).update(trajectories)
    assert metrics["buyer_0/shaping"] < 0  # the policy was stirred away from the base
    pulled = adapters(team)

    def kl_now():
        found = []
        batch = build_batch(trajectories, team.policies, table("rloo"))
        for agent, action in zip(batch.agent, batch.actions, strict=True):
            base = team.local_agent("buyer_0").base
            own = Learner(team, table("rloo")).scorer
            (new,), (reference,) = (own.logprobs(base, a, [action]) for a in (batch.agents[agent], None))
            found.append((np.exp(new) * (new - reference)).mean())
        return np.mean(found)

    after = kl_now()
    for policy, tensors in before.items():
        for name, tensor in team.local_agent(policy).base.parameters(policy).items():
            tensor.data.copy_(tensors[name])
    assert moved(before, pulled) == set(MARKET)
    assert after < kl_now()


# ------------------------------------------------------------------ what is not finite


class Poisoned:
    """A scorer under which one action's gradient is not a number, while its log-probs are fine."""

    def __init__(self, scorer, culprit):
        self.scorer, self.culprit, self.sampling, self.micro_batches = (
            scorer,
            culprit,
            scorer.sampling,
            scorer.micro_batches,
        )
        self.logprobs, self.ranks = scorer.logprobs, scorer.ranks

    def score(self, base, adapter, actions, **how):
        scores = self.scorer.score(base, adapter, actions, **how)
        if any(a is self.culprit for a in actions):
            nothing = sum((p * 0).sum() for p in base.parameters(adapter).values())
            scores = dataclasses.replace(scores, logprobs=scores.logprobs + nothing.sqrt())
        return scores


def test_a_gradient_that_is_not_finite_names_the_action_it_comes_from():
    team = ragged_team("marft-t")
    trajectories, before = ragged_episodes("marft-t"), adapters(team)
    culprit = trajectories[3].turns[1].action
    learner = Learner(team, table("marft-t"))
    learner.scorer = Poisoned(learner.scorer, culprit)
    with pytest.raises(DivergenceError, match=r"'buyer_0': the gradient is nan.* of episode 3") as raised:
        learner.update(trajectories)
    assert [action is culprit for action in raised.value.rows.actions] == [True]
    assert moved(before, adapters(team)) == set()
    assert all(p.grad is None for p in team.local_agent("buyer_0").base.parameters("buyer_0").values())


@pytest.mark.parametrize("name", ["marft-a", "grpo"])
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_loss_that_is_not_finite_names_the_action_it_comes_from(name, value):
    team = ragged_team(name)
    trajectories = episodes(team, name)
    action = trajectories[2].turns[0].action
    action.logprobs[-1] = value
    with pytest.raises(DivergenceError, match="the loss is") as raised:
        Learner(team, table(name, micro_batch=64)).update(trajectories)
    assert [found is action for found in raised.value.rows.actions] == [True]


def test_rewards_and_values_that_are_not_finite_stop_the_update():
    team = ragged_team("marft-a")
    trajectories = ragged_episodes("marft-a")
    learner = Learner(team, table("marft-a"))
    learner.critic.heads[0].layers[-1].bias.data[:] = math.nan
    with pytest.raises(DivergenceError, match=r"the critic: .* values"):
        learner.update(trajectories)
    turns = trajectories[1].turns
    broken = dataclasses.replace(trajectories[1], turns=(dataclasses.replace(turns[0], reward=math.inf), *turns[1:]))
    with pytest.raises(DivergenceError, match="reward of agent 'buyer_0' in round 0 of episode 1 is inf") as raised:
        Learner(team, table("marft-a")).update([trajectories[0], broken])
    assert [action is turns[0].action for action in raised.value.rows.actions] == [True]


@pytest.mark.parametrize(
    ("knobs", "what"), [({"policy_lr": math.inf}, "its adapter"), ({"critic_lr": math.inf}, "its head")]
)
def test_a_step_beyond_all_numbers_stops_the_update(knobs, what):
    team = ragged_team("marft-a")
    with pytest.raises(DivergenceError, match=f"{what} to numbers that are not finite"):
        Learner(team, table("marft-a", **knobs)).update(ragged_episodes("marft-a"))


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("name", "knobs", "reason"),
    [
        ("marft-t", {"normalisation": "token"}, "no meaning at token level"),
        ("marft-t", {"level": "action"}, "level = 'action' contradicts marft-t, which is defined by 'token'"),
        ("grpo", {"critic_lr": 1e-3}, "critic_lr = 0.001 means nothing to grpo, which trains no critic"),
        ("dapo", {"averaging": "sequence"}, "averaging = 'sequence' contradicts dapo"),
        ("grpo", {"branches": 4}, "branches = 4 contradicts grpo"),
        ("gspo", {"averaging": "constant"}, "averaging = 'constant' contradicts gspo"),
        ("happo", {"agent_interval": 1}, "agent_interval = 1 contradicts happo"),
        ("mappo", {"scaling": "group"}, "wanted baseline = 'group'"),
        ("mappo", {"level": "token", "length_adaptive": 0.1}, "wanted a critic of every token"),
        ("marft-a", {"token_discount": 0.99}, "token_discount = 0.99.*here tokens have no values: wanted 1 for both"),
        ("marft-a", {"token_trace_decay": 0.95}, "token_trace_decay = 0.95.*level = 'token' with baseline = 'critic'"),
        ("mappo", {"level": "token", "token_discount": 0.99}, "credit = 'chain' or 'own'"),
        ("grpo", {"token_discount": 0.99}, "token_discount = 0.99 means nothing to grpo, which trains no critic"),
        (
            "vapo",
            {"token_trace_decay": 0.95},
            "length_adaptive = 0.05 and token_trace_decay = 0.95 are both the lambda",
        ),
        ("grpo", {"value_clip": 0.2}, "value_clip = 0.2 means nothing to grpo"),
        ("rloo", {"value_width": 64}, "value_width = 64 means nothing to rloo"),
        ("marft-a", {"scaling": "batch-nonzero"}, "wanted centring = 'none', found 'batch'"),
        ("mappo", {"branches": 2}, "branches = 2 are alternatives of one turn"),
        ("grpo", {"value_norm": True}, "value_norm = True means nothing to grpo"),
        ("marft-a", {"compare": "turn"}, "compare = 'turn' is about the groups of turns"),
        ("marft-a", {"dynamic_sampling": 2}, "wanted baseline = 'group' or 'leave_one_out', or centring = 'group'"),
        ("reinforce++", {"dynamic_sampling": 2}, "dynamic_sampling draws again for groups"),
        ("ippo", {"agent_order": "semi-greedy", "agent_interval": 2}, "about the agents of one update"),
        ("ippo", {"clip_start": 0.5, "agent_interval": 2}, "about the agents of one update"),
        ("marft-a", {"baseline": "best"}, "baseline = 'best' contradicts marft-a"),
        ("ippo", {"level": "word"}, "level = 'word', wanted action or token"),
        ("pppo", {}, "unknown algorithm 'pppo'; there are marft-a, .*a2po"),
    ],
)
def test_settings_that_contradict_an_algorithm_are_refused(name, knobs, reason):
    with pytest.raises(SettingsError, match=reason):
        learner_settings(name, **knobs)


@pytest.mark.parametrize(
    ("name", "knobs", "run", "reason"),
    [
        ("ppo-t", {}, {"num_agents": 2}, "ppo-t trains one agent, the team has 2: use marft-t or a solo"),
        ("grpo", {}, {"group_size": 1}, "grpo compares episodes of one task draw: wanted group_size >= 2"),
        (
            "marft-a",
            {"centring": "group"},
            {"group_size": 1},
            "^centring = 'group' compares episodes of one task draw: wanted group_size >= 2 or centring = 'batch'",
        ),
        ("c3", {"branches": 0}, {}, "wanted branches >= 2, found 0"),
        ("vapo", {}, {"updates": 50}, "value_warmup = 50 leaves the policies none of 50 updates"),
        ("happo", {}, {"shared": True}, "with one shared adapter"),
        ("marft-a", {"baseline": "group"}, {}, "baseline = 'group' contradicts marft-a"),
    ],
)
def test_runs_that_an_algorithm_can_not_do_are_refused(name, knobs, run, reason):
    settings = dataclasses.replace(LearnerSettings(), **(dict(ALGORITHMS[name].defaults) | knobs)) if knobs else None
    with pytest.raises(SettingsError, match=reason):
        settings_for(name, settings or learner_settings(name), **({"num_agents": 2} | run))


def test_what_is_given_goes_before_what_an_algorithm_sets_and_that_before_a_preset():
    found = learner_settings("dapo", {"clip_high": 0.5, "policy_lr": 1e-3, "critic_lr": 1.0, "groups": 8}, clip_low=0.1)
    assert (found.clip_low, found.clip_high, found.policy_lr) == (0.1, 0.28, 1e-3)
    assert found.critic_lr == LearnerSettings().critic_lr
    assert learner_settings("dapo", clip_high=0.3).clip_high == 0.3
    assert settings_for("dapo", found, 3, group_size=2, updates=1) == found  # a record of a run says the same again
    assert settings_for("rloo", LearnerSettings(), 2).baseline == "leave_one_out"


def test_what_a_preset_says_of_tokens_is_passed_over_where_tokens_have_no_values():
    per_token = {"token_discount": 0.99, "token_trace_decay": 0.95, "value_clip": 0.2}

    def found(name, **given):
        settings = learner_settings(name, per_token, **given)
        return settings.token_discount, settings.token_trace_decay, settings.value_clip

    assert found("marft-t") == found("ppo-t") == found("ippo", level="token") == (0.99, 0.95, 0.2)
    assert found("marft-a") == found("ippo") == found("mappo", level="token") == (1, 1, 0.2)
    assert found("grpo") == (1, 1, None)
    assert found("marft-t", length_adaptive=0.1) == (0.99, 1, 0.2)  # another lambda between tokens
    assert found("vapo") == (1, 1, 0.2)  # and another gamma
    assert found("marft-t", token_discount=0.5, token_trace_decay=1.0) == (0.5, 1, 0.2)
    with pytest.raises(SettingsError, match=r"token_discount = 0\.99"):
        learner_settings("marft-a", per_token, token_discount=0.99)  # who asks for it is told


# ------------------------------------------------------------------ learning


def learn(name, updates=15):
    """Train the copy game (a solo: say the digit) from random weights; return the greedy success."""
    # the likelihood of what succeeded, which VAPO raises, holds on to what a partner said by chance
    game = Say if ALGORITHMS[name].single_agent or name == "vapo" else CopyDigit
    gentle = {"policy_lr": 5e-3, "entropy_bonus": 0.05, "ppo_epochs": 2, "micro_batch": 256}
    if ALGORITHMS[name].critic:
        gentle |= {"critic_lr": 1e-2, "value_epochs": 2, "value_mini_batches": 1, "discount": 1.0}
    # what papers set for long actions of large models, for two words of a tiny one
    small = {
        "vapo": {"value_warmup": 1, "length_adaptive": 5.0},
        "dapo": {"overlong_share": 0.0},
        "gspo": {"clip_low": 0.2, "clip_high": 0.2},
        "grpo": {"kl_weight": 1e-3},
        "reinforce++": {"kl_weight": 1e-3},
    }
    settings = settings_for(name, learner_settings(name, **gentle, **small.get(name, {})), len(game.speakers))
    groups, size = (32, 1) if settings.branches else (8, 16)
    team = word_team(game.speakers, hidden=64)
    schedule = TrainingSchedule(updates=updates, groups=groups, group_size=size, num_envs=128)
    Trainer(game, team, Learner(team, settings), schedule).run()
    greedy = team.under(SamplingParams(temperature=0, max_new_tokens=2))
    return evaluate(game, greedy, [{"seed": 10**6 + i} for i in range(100)]).accuracy.mean


class Say(CopyDigit):
    """The speaker itself is judged."""

    speakers = ("speaker_0",)


LEARNING = {"grpo": pytest.mark.probes, "c3": pytest.mark.probes, "happo": pytest.mark.probes}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LEARNING.get(name, pytest.mark.slow)) for name in ALGORITHMS]
)
def test_every_algorithm_learns_to_cooperate(name):
    assert learn(name) >= 0.9
