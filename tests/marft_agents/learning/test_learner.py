"""The learner against the plain formulas: ratios, gradients, who is trained when, and what stays untouched."""

from __future__ import annotations

import dataclasses
import itertools
import math
import weakref

import numpy as np
import pytest
import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning import learner as learner_module
from marft_agents.learning.algorithms import learner_settings
from marft_agents.learning.batch import build_batch
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.learner import Learner
from marft_agents.learning.pass_size import PassSize
from marft_agents.learning.policy_update import PolicyStep
from marft_agents.learning.scoring import LogProbScorer
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.scripted import MixedPolicy, ScriptedPolicy
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import CopyDigit, Market, Probe, word_model, word_team
from tests.helpers.naive import DESCENT, adapters, assert_stepped_along, gradient, logprobs, moved, play

MARKET = ("buyer_0", "seller_0")
SHARED = dict.fromkeys(MARKET, "shared")
PLAIN = SamplingParams(max_new_tokens=4)
SHARP = SamplingParams(temperature=0.7, top_k=12, top_p=0.9, max_new_tokens=4)
KINDS = [("action", "sum"), ("action", "token"), ("action", "word"), ("token", "sum")]


def everything(team):
    """Return copies of all tensors of all bases, adapters included."""
    return [
        {k: v.detach().clone() for k, v in itertools.chain(b.peft.named_parameters(), b.peft.named_buffers())}
        for b in team.bases
    ]


# ------------------------------------------------------------------ ratio and gradient


@pytest.mark.parametrize("sampling", [PLAIN, SHARP])
@pytest.mark.parametrize(("level", "normalisation"), KINDS)
def test_the_ratio_of_the_first_pass_is_one(level, normalisation, sampling):
    team = word_team(MARKET, sampling=sampling, stir=0.3)
    settings = LearnerSettings(level=level, normalisation=normalisation, micro_batch=5, value_epochs=1)
    learner = Learner(team, settings)
    metrics = learner.update(play(team))
    for agent in MARKET:
        assert metrics[f"{agent}/first_pass_log_ratio_max"] < 1e-4
        assert metrics[f"{agent}/clip_share"] == 0
        assert abs(metrics[f"{agent}/kl"]) < 1e-6


def test_a_ratio_that_is_not_one_is_seen():
    """The check above must be able to fail: tokens recorded under another adapter have other log-probs."""
    team = word_team(MARKET, stir=0.3)
    trajectories = play(team)
    for tensor in team.local_agent("buyer_0").base.parameters("buyer_0").values():
        tensor.data *= 1.1
    metrics = Learner(team, LearnerSettings()).update(trajectories)
    assert metrics["buyer_0/first_pass_log_ratio_max"] > 1e-3
    assert metrics["seller_0/first_pass_log_ratio_max"] < 1e-4


@pytest.mark.parametrize(
    ("cast", "level", "normalisation", "sampling", "entropy_bonus"),
    [
        (MARKET, "action", "sum", PLAIN, 0.0),
        (MARKET, "action", "word", SHARP, 0.0),
        (MARKET, "action", "token", PLAIN, 0.1),
        (MARKET, "token", "sum", PLAIN, 0.0),
        (MARKET, "token", "sum", SHARP, 0.1),
        (SHARED, "action", "word", SHARP, 0.1),
        (SHARED, "token", "sum", PLAIN, 0.1),
    ],
)
def test_a_step_follows_the_plain_gradient(cast, level, normalisation, sampling, entropy_bonus):
    team = word_team(cast, sampling=sampling, stir=0.3)
    settings = LearnerSettings(level=level, normalisation=normalisation, entropy_bonus=entropy_bonus, **DESCENT)
    trajectories = play(team)
    wanted = {policy: gradient(team, trajectories, policy, settings) for policy in team.policies}
    before = adapters(team)
    Learner(team, settings).update(trajectories)
    after = adapters(team)
    for policy, gradients in wanted.items():
        assert_stepped_along(before[policy], after[policy], gradients)


class Solo(Market):
    """A market with a buyer only."""

    def __init__(self):
        super().__init__()
        self.possible_agents = ["buyer_0"]

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.plan = ["buyer_0"] * 4


@pytest.mark.parametrize("level", ["action", "token"])
def test_a_team_of_one_is_single_agent_ppo(level):
    team = word_team(["buyer_0"], stir=0.3)
    settings = LearnerSettings(level=level, **DESCENT)
    trajectories = play(team, Solo)
    assert {len(t.turns) for t in trajectories} == {4}
    wanted, before = gradient(team, trajectories, "buyer_0", settings), adapters(team)
    Learner(team, settings).update(trajectories)
    assert_stepped_along(before["buyer_0"], adapters(team)["buyer_0"], wanted)


@pytest.mark.parametrize("level", ["action", "token"])
def test_micro_batches_do_not_change_the_step(level):
    steps = {}
    for size in (1, 8):
        team = word_team(MARKET, sampling=PLAIN, stir=0.3)
        before = adapters(team)
        Learner(team, LearnerSettings(level=level, micro_batch=size, **DESCENT)).update(play(team))
        after = adapters(team)
        steps[size] = {p: {k: before[p][k] - after[p][k] for k in before[p]} for p in before}
    for policy in MARKET:
        largest = max(t.abs().max() for t in steps[1][policy].values())
        for name, step in steps[8][policy].items():
            assert (step - steps[1][policy][name]).abs().max() < 1e-4 * largest


def test_no_pass_keeps_the_graph_of_the_one_before(monkeypatch):
    """A graph holds activations, also after its gradient: two at once cost a fifth of an update's memory."""
    team = word_team(MARKET)
    graphs = []
    forward = PolicyStep.forward

    def watched(self, *args, **kwargs):
        assert [graph for graph in graphs if graph() is not None] == []
        part, scores = forward(self, *args, **kwargs)
        graphs.append(weakref.ref(scores.logprobs))
        return part, scores

    monkeypatch.setattr(PolicyStep, "forward", watched)
    Learner(team, LearnerSettings(micro_batch=4)).update(play(team))
    assert len(graphs) > len(MARKET)


def test_the_end_token_is_trained():
    team = word_team(MARKET, sampling=PLAIN, stir=0.3)
    trajectories = play(team, episodes=12)
    stopped = [t.action for e in trajectories for t in e.turns if t.action.stopped]
    assert stopped
    for action in stopped:
        assert action.token_ids[-1] == 2
        assert len(action.logprobs) == len(action.token_ids)
    # pad = eos in this tokenizer: the end tokens carry gradient all the same (the plain gradient counts them)
    assert team.local_agent("buyer_0").base.tokenizer.pad_token_id == 2


# ------------------------------------------------------------------ what stays untouched


@pytest.mark.parametrize("level", ["action", "token"])
def test_a_step_on_one_adapter_leaves_every_other_byte_alone(level):
    team = word_team(MARKET, stir=0.3)
    learner = Learner(team, LearnerSettings(level=level, policy_lr=0.1, agent_interval=1))
    trajectories = play(team)
    [before] = everything(team)
    learner.update(trajectories)
    [after] = everything(team)
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    buyer = team.local_agent("buyer_0").base.peft_name("buyer_0")
    assert changed == {name for name in before if f".{buyer}." in name} != set()


def test_agents_share_one_base_in_memory():
    def storages(team):
        [base] = team.bases
        tensors = {n: p for n, p in base.peft.named_parameters() if "lora_" not in n}
        return {p.data_ptr(): p.numel() for p in tensors.values()}

    agents = [f"agent_{i}" for i in range(5)]
    solo, team = word_team(agents[:1]), word_team(agents)
    assert sum(storages(solo).values()) == sum(storages(team).values()) == word_model().model.num_parameters()
    assert len({id(team.local_agent(agent).base.trunk) for agent in agents}) == 1
    own = [{p.data_ptr() for p in team.local_agent(a).base.parameters(a).values()} for a in agents]
    assert len(set().union(*own)) == sum(map(len, own))  # no adapter shares a tensor with another
    assert all(p.dtype == torch.float32 for a in agents for p in team.local_agent(a).base.parameters(a).values())


@pytest.mark.parametrize("level", ["action", "token"])
def test_equal_returns_change_nothing(level):
    class Even(CopyDigit):
        """Pays everybody alike."""

        def step(self, action):
            super().step(action)
            self.rewards = {agent: float(self.terminations[agent]) for agent in self.rewards}

    team = word_team(Even.speakers, stir=0.3)
    before = adapters(team)
    metrics = Learner(team, LearnerSettings(level=level, policy_lr=0.1, ppo_epochs=2)).update(play(team, Even))
    assert metrics["actor_0/grad_norm"] == 0
    assert moved(before, adapters(team)) == set()


@pytest.mark.parametrize(
    ("algorithm", "knobs"),
    [
        *[("rloo", {}), ("dr-grpo", {}), ("grpo", {}), ("grpo", {"kl_weight": 0.1})],
        *[("rloo", {"entropy_bonus": 0.1}), ("rloo", {"positive_nll": 0.1})],
    ],
)
def test_a_draw_that_teaches_nothing_costs_no_backward_pass(algorithm, knobs, monkeypatch):
    """Seven episodes of one draw return 0.1 each: their mean is not 0.1, so rounding must not pass for credit."""
    descent = {"policy_lr": 1e6, "adam_epsilon": 1e6, "max_grad_norm": 1e9, "kl_weight": 0.0}
    steps, seen = {}, {}
    plan_passes = learner_module.plan_passes
    for kind in ("as it is", "all pull"):

        def watched(batch, scorer, settings, kind=kind):
            passes = plan_passes(batch, scorer, settings)
            seen.setdefault(kind, []).extend((e, pulls) for index, pulls in passes for e in batch.episode[index])
            return [(index, pulls or kind == "all pull") for index, pulls in passes]

        monkeypatch.setattr(learner_module, "plan_passes", watched)
        team = word_team(MARKET, sampling=PLAIN, stir=0.3)
        before = adapters(team)
        returns = [0.1] * 7 + [(k % 3) ** 2 for k in range(7)]
        played = play(team, episodes=14)
        trajectories = [with_return(t, k // 7, returns[k]) for k, t in enumerate(played)]
        settings = learner_settings(algorithm, **(descent | knobs))
        metrics = Learner(team, settings).update(trajectories)
        assert metrics["buyer_0/entropy"] > 0
        steps[kind] = {p: {k: before[p][k] - t for k, t in own.items()} for p, own in adapters(team).items()}
    pulling = {episode for episode, pulls in seen["as it is"] if pulls}
    assert {episode for episode, _ in seen["as it is"]} == set(range(14))
    assert pulling == (set(range(14)) if knobs else set(range(7, 14)))
    for policy, own in steps["all pull"].items():
        largest = max(step.abs().max() for step in own.values())
        for name, step in own.items():
            assert (step - steps["as it is"][policy][name]).abs().max() < 1e-4 * largest


def test_a_mini_batch_without_credit_makes_no_step():
    """Adam goes on along its momentum wherever there is a gradient, be it zero."""
    team = word_team(["buyer_0"], sampling=PLAIN, stir=0.3)
    played = play(team, Solo, episodes=4)
    # of the first draw each turn has its own return, the second draw's returns agree
    trajectories = [with_return(t, k // 2, float(k == 0)) for k, t in enumerate(played)]
    turns = sum(len(t.turns) for t in trajectories)
    learner = Learner(
        team, learner_settings("rloo", policy_lr=0.1, mini_batches=turns, centring="none", scaling="none")
    )
    learner.update(trajectories)
    steps, step = [], learner.optimizers["buyer_0"].step

    def watched():
        before = adapters(team)
        step()
        steps.append(bool(moved(before, adapters(team))))

    learner.optimizers["buyer_0"].step = watched
    learner.update(trajectories)
    assert len(steps) == turns
    assert sum(steps) == turns // 2


@pytest.mark.parametrize(("credit", "heads"), [("chain", [0, 0]), ("round", [0, 0]), ("own", [0, 1])])
def test_a_base_has_one_value_head_and_with_own_credit_each_agent_has_one(credit, heads):
    team = word_team(MARKET)
    critic = Learner(team, LearnerSettings(credit=credit)).critic
    assert len(critic.heads) == len(critic.scales) == len(set(heads))
    assert list(critic.head_of.values()) == heads
    cut = play(team, lambda: Market(cut=True), episodes=3)
    lost = [cut[0], dataclasses.replace(cut[1], failure="broken"), dataclasses.replace(cut[2], final_agent="")]
    asked = MARKET if credit == "own" else [cut[0].final_agent]
    for head in critic.heads:
        torch.nn.init.constant_(head.layers[-1].bias, 0.5 + critic.heads.index(head))
    batch = build_batch(lost, team.policies, critic.settings)
    wanted = [
        0.5 + critic.head_of[agent if credit == "own" else asked[0]] if e == 0 else 0.0
        for e, agent in zip(batch.episode, (batch.agents[a] for a in batch.agent), strict=True)
    ]
    assert set(batch.episode) == {0, 2}
    assert critic.bootstraps(batch, lost).tolist() == wanted


def test_optimizers_take_their_epsilon_from_the_settings():
    learner = Learner(word_team(MARKET), LearnerSettings(adam_epsilon=0.125))
    found = [o.param_groups[0]["eps"] for o in (*learner.optimizers.values(), learner.critic.optimizer)]
    assert found == [0.125] * 3


def test_values_that_are_not_finite_stop_the_update_with_the_turns_they_are_of():
    team = word_team(MARKET)
    learner = Learner(team, LearnerSettings())
    batch = build_batch(play(team), team.policies, learner.settings)
    [features], _ = learner.critic.bare_pass(batch)
    features[2] = features[2] * math.nan
    found = f"the critic: 1 of {len(batch.actions)} turns have values not finite"
    with pytest.raises(DivergenceError, match=found) as caught:
        learner.critic.values(batch, [features])
    assert [action is batch.actions[2] for action in caught.value.rows.actions] == [True]
    assert np.isnan(caught.value.rows.values).tolist() == [True]


def test_a_loss_that_is_not_finite_names_the_first_action_it_is_of():
    team = word_team(["buyer_0"])
    played = [with_return(t, 0, k) for k, t in enumerate(play(team, Solo, episodes=3))]

    def broken(turn):
        return dataclasses.replace(turn, action=dataclasses.replace(turn.action, logprobs=turn.action.logprobs - 1e9))

    turns = [turn if k in (0, 3) else broken(turn) for k, turn in enumerate(played[1].turns)]
    played[1] = dataclasses.replace(played[1], turns=tuple(turns))
    settings = learner_settings("rloo", micro_batch=64)
    with pytest.raises(DivergenceError, match=f"from 2 actions, .* in round {turns[1].round} of episode 1") as caught:
        Learner(team, settings).update(played)
    assert [id(action) for action in caught.value.rows.actions] == [id(turn.action) for turn in turns[1:3]]
    assert len(set(caught.value.rows.round)) == 2


def with_return(trajectory, group, value):
    """Give an episode another return."""
    last = len(trajectory.turns) - 1
    turns = [dataclasses.replace(turn, reward=value * (k == last)) for k, turn in enumerate(trajectory.turns)]
    return dataclasses.replace(trajectory, group=group, turns=tuple(turns), infos={"success": 1.0})


def test_the_credit_of_each_agent_is_logged_before_it_is_scaled():
    """At first V = 0: the last agent of the chain is credited with the return, the one before with a discounted one."""
    outcomes = itertools.cycle([1.0, 0.0, 0.0])

    class EveryThird(CopyDigit):
        """Pays every third game."""

        def step(self, action):
            super().step(action)
            over = all(self.terminations.values())
            self.rewards = dict.fromkeys(self.rewards, next(outcomes) if over and action is not None else 0.0)

    team = word_team(CopyDigit.speakers)
    played = play(team, EveryThird)
    settings = LearnerSettings(discount=0.9, trace_decay=0.5)
    metrics = Learner(team, settings).update(played)
    returns = np.asarray([trajectory.team_return for trajectory in played])
    assert 0 < returns.mean() < 1
    for agent, share in zip(CopyDigit.speakers[::-1], (1.0, 0.45), strict=True):
        wanted = {"mean": returns.mean(), "std": returns.std(), "min": 0.0, "max": 1.0}
        for name, value in wanted.items():
            assert metrics[f"{agent}/advantage_{name}"] == pytest.approx(share * value)
            if name in ("mean", "std"):
                assert metrics[f"{agent}/return_{name}"] == pytest.approx(share * value)
        assert metrics[f"{agent}/advantage_zero_share"] == pytest.approx(1 - returns.mean())
        assert metrics[f"{agent}/explained_variance"] == pytest.approx(0)


def test_value_warmup_trains_the_critic_only():
    team = word_team(MARKET)
    learner = Learner(team, LearnerSettings(policy_lr=0.1, critic_lr=0.1, value_warmup=2))
    before = adapters(team)
    for update in range(3):
        head = [p.detach().clone() for p in learner.critic.heads[0].parameters()]
        metrics = learner.update(play(team))
        assert any(not torch.equal(a, b) for a, b in zip(head, learner.critic.heads[0].parameters(), strict=True))
        assert ("buyer_0/kl" in metrics) == (update == 2)
        assert moved(before, adapters(team)) == (set(MARKET) if update == 2 else set())


def test_failed_episodes_and_empty_batches_teach_nothing():
    team = word_team(MARKET)
    learner = Learner(team, LearnerSettings(policy_lr=0.1))
    before = adapters(team)
    failed = [dataclasses.replace(t, failure="step: it broke") for t in play(team)]
    assert learner.update(failed) == {}
    assert learner.updates == 1
    assert moved(before, adapters(team)) == set()


# ------------------------------------------------------------------ who is trained when


def trained(settings, updates, agents=("a_0", "b_0", "c_0"), pay=None):
    """Return per update the policies whose tensors moved, in order; `pay` is what the last turn earns, if given."""

    class Three(Probe):
        speakers = agents

        def draw(self, rng):
            self.answer = str(rng.integers(3))

        def observe(self, agent):
            return f"digit {self.answer}"

    team = word_team(agents)
    steps = {"policy_lr": 0.1, "entropy_bonus": 0.1, "value_epochs": 1, "value_mini_batches": 1}
    learner = Learner(team, LearnerSettings(**steps, **settings), seed=3)
    found = []
    for _ in range(updates):
        before = adapters(team)
        trajectories = play(team, Three, episodes=2)
        if pay is not None:
            trajectories = [
                dataclasses.replace(t, turns=(*t.turns[:-1], dataclasses.replace(t.turns[-1], reward=pay)))
                for t in trajectories
            ]
        metrics = learner.update(trajectories)
        order = list(dict.fromkeys(key.split("/")[0] for key in metrics if not key.startswith("critic")))
        assert moved(before, adapters(team)) == set(order)
        found.append("".join(name[0] for name in order))
    return found


def test_the_order_of_agents_within_an_update():
    assert trained({}, 1) == ["abc"]
    assert trained({"agent_order": "reverse"}, 1) == ["cba"]
    drawn = trained({"agent_order": "random"}, 4)
    assert {"".join(sorted(order)) for order in drawn} == {"abc"}
    assert len(set(drawn)) > 1


def test_the_semi_greedy_order_starts_with_the_largest_advantages():
    # the reward comes at the end and V = 0: the further from it, the smaller the advantages
    drawn = trained({"agent_order": "semi-greedy", "discount": 0.5}, 4, pay=1.0)
    assert set(drawn) == {"cab", "cba"}
    alike = trained({"agent_order": "semi-greedy", "credit": "round"}, 3, pay=1.0)
    assert {order[0] for order in alike} == {"a", "b", "c"}


def test_earlier_agents_are_clipped_closer():
    def stepped(**knobs):
        team = word_team(MARKET, stir=0.3)
        steps = {"policy_lr": 0.05, "ppo_epochs": 4, "level": "token"}
        Learner(team, LearnerSettings(**steps, **knobs)).update(play(team, episodes=12))
        return adapters(team)

    def alike(first, second, agent):
        return all(torch.equal(tensor, second[agent][name]) for name, tensor in first[agent].items())

    widening = stepped(clip_start=0.5)
    narrow, whole = stepped(clip_low=0.15, clip_high=0.15), stepped()  # C(1) = 0.75, C(2) = 1
    assert alike(widening, narrow, "buyer_0")
    assert alike(widening, whole, "seller_0")
    assert not alike(narrow, whole, "buyer_0")


def test_plain_alternation_trains_one_agent_at_a_time():
    assert trained({"agent_interval": 1}, 4) == ["a", "b", "c", "a"]
    assert trained({"agent_interval": 2, "agent_order": "reverse"}, 5) == ["c", "c", "b", "b", "a"]
    assert trained({"agent_interval": 1, "value_warmup": 2}, 4) == ["", "", "a", "b"]
    drawn = trained({"agent_interval": 1, "agent_order": "random"}, 6)
    assert sorted(drawn[:3]) == sorted(drawn[3:]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("bounded", 0.8, 1.3), ("happo", 0.0, math.inf), ("a2po", 0.9, 1.15)]
)
def test_the_compounding_ratio_weights_the_later_agent(kind, low, high, monkeypatch):
    # actor_0 is trained after speaker_0: its advantages are multiplied by speaker_0's pi_new / pi_old of the same round
    step = 1.0
    descent = DESCENT | {"policy_lr": step * 1e6}
    settings = LearnerSettings(compounding=kind, credit="round", clip_low=0.2, clip_high=0.3, **descent)
    team = word_team(["speaker_0", "actor_0"], stir=0.3)
    trajectories = play(team, CopyDigit, episodes=24)
    before = adapters(team)
    credited_by, estimate = [], learner_module.estimate

    def watched(batch, settings, ratios=None):
        credited_by.append(None if ratios is None else ratios.copy())
        return estimate(batch, settings, ratios)

    monkeypatch.setattr(learner_module, "estimate", watched)
    metrics = Learner(team, settings).update(trajectories)
    after = adapters(team)

    base = team.local_agent("speaker_0").base
    weights, ratios = {}, []
    for e, trajectory in enumerate(trajectories):
        action = trajectory.turns[0].action
        new, _ = logprobs(base, "speaker_0", action, team.sampling)  # its adapter is the stepped one by now
        ratios.append(math.exp((new.detach().numpy() - action.logprobs).sum()))
        weights[e, 0] = min(max(ratios[-1], low), high)
    if kind == "a2po":  # credit is estimated anew for each agent, with the traces cut by the ratios of those before
        assert credited_by[1].tolist() == [1.0] * len(trajectories)
        np.testing.assert_allclose(credited_by[2], ratios, rtol=1e-3)
    else:
        assert credited_by == [None]
    told = {name.split("/")[0]: value for name, value in metrics.items() if name.endswith("compounded_ratio_max")}
    largest = {"speaker_0": 1.0, "actor_0": max(weights.values())}
    assert told == ({} if kind == "a2po" else pytest.approx(largest, rel=1e-3))
    assert max(weights.values()) > 1.05
    assert min(weights.values()) < 0.95
    for name, tensor in base.parameters("actor_0").items():
        tensor.data.copy_(before["actor_0"][name])
    wanted = gradient(team, trajectories, "actor_0", settings, weights)
    assert_stepped_along(before["actor_0"], after["actor_0"], wanted, step=step, tolerance=1e-3)
    plain = gradient(team, trajectories, "actor_0", settings)
    with pytest.raises(AssertionError, match="off by"):
        assert_stepped_along(before["actor_0"], after["actor_0"], plain, step=step, tolerance=1e-3)


def test_kl_stop_ends_an_agents_passes_and_says_so():
    def run(**knobs):
        team = word_team(MARKET, stir=0.3)
        metrics = Learner(team, LearnerSettings(policy_lr=0.03, **knobs)).update(play(team, episodes=10))
        return adapters(team), metrics

    once, metrics = run(ppo_epochs=1)
    assert metrics["buyer_0/kl_stopped"] == 0
    stopped, metrics = run(ppo_epochs=10, kl_stop=1e-3)
    assert metrics["buyer_0/kl_stopped"] == metrics["seller_0/kl_stopped"] == 1
    assert moved(once, stopped) == set()  # the second pass saw the KL of the first step and made none
    free, metrics = run(ppo_epochs=3, kl_stop=1e3)
    assert metrics["buyer_0/kl_stopped"] == 0
    assert moved(once, free) == set(MARKET)


# ------------------------------------------------------------------ teams of all kinds


@pytest.mark.parametrize("level", ["action", "token"])
def test_different_bases_per_agent(level):
    buyer = AdaptedBase(word_model(0), ["buyer_0"], LoraSettings(), seed=0)
    seller = AdaptedBase(word_model(1, hidden=32, layers=2), ["seller_0"], LoraSettings(), seed=0)
    team = LanguageModelTeam(
        {"buyer_0": LocalAgent(buyer, "buyer_0"), "seller_0": LocalAgent(seller, "seller_0")}, PLAIN
    )
    learner = Learner(team, LearnerSettings(level=level, policy_lr=0.1, critic_lr=0.1))
    assert [head.layers[0].normalized_shape for head in learner.critic.heads] == [(48,), (32,)]
    before = adapters(team)
    for _ in range(2):
        metrics = learner.update(play(team, lambda: Market(cut=True)))
        assert max(metrics[f"{agent}/first_pass_log_ratio_max"] for agent in MARKET) < 1e-4
    assert moved(before, adapters(team)) == set(MARKET)


def test_one_adapter_name_on_two_bases_is_refused():
    """A policy is named by its adapter: two bases would silently train only the first."""
    bases = [AdaptedBase(word_model(seed), ["shared"], LoraSettings(), seed=0) for seed in (0, 1)]
    with pytest.raises(ValueError, match="'shared'"):
        LanguageModelTeam({a: LocalAgent(b, "shared") for a, b in zip(MARKET, bases, strict=True)}, PLAIN)


def test_a_frozen_agent_plays_the_bare_base_and_is_not_trained():
    team = word_team({"buyer_0": "buyer_0", "seller_0": None}, stir=0.3)
    metrics = Learner(team, LearnerSettings(policy_lr=0.1)).update(play(team))
    assert metrics["buyer_0/first_pass_log_ratio_max"] < 1e-4
    assert not any(key.startswith("seller_0") for key in metrics)


@pytest.mark.parametrize(
    ("frozen", "level", "cut"),
    [
        ("buyer_0", "action", False),
        ("buyer_0", "token", True),
        ("seller_0", "action", True),
        ("seller_0", "token", False),
    ],
)
def test_a_team_learns_beside_a_scripted_agent(frozen, level, cut):
    [learning] = set(MARKET) - {frozen}
    team = word_team([learning], stir=0.3)
    mixed = MixedPolicy({frozen: ScriptedPolicy(lambda agent, observation: "a"), learning: team})
    settings = LearnerSettings(level=level, **DESCENT)
    trajectories = play(team, lambda: Market(cut=cut), policy=mixed)
    before = adapters(team)

    # the scripted agent belongs to the environment: its rewards fall to the turn before, at no discount
    merged = []
    for trajectory in trajectories:
        turns = []
        for turn in trajectory.turns:
            if turn.agent == learning:
                turns.append(turn)
            elif turns:
                turns[-1] = dataclasses.replace(turns[-1], reward=turns[-1].reward + turn.reward)
        merged.append(dataclasses.replace(trajectory, turns=tuple(turns)))
    wanted = gradient(team, merged, learning, settings)
    learner = Learner(team, settings)
    learner.update(trajectories)
    assert_stepped_along(before[learning], adapters(team)[learning], wanted)

    trainer = Trainer(lambda: Market(cut=cut), team, learner, TrainingSchedule(updates=2, groups=3), policy=mixed)
    assert f"{learning}/kl" in trainer.step()


def test_entropy_bonus_raises_the_entropy():
    team = word_team(MARKET, sampling=SHARP, stir=0.3)
    learner = Learner(team, LearnerSettings(policy_lr=0.02, entropy_bonus=10.0))
    entropies = [learner.update(play(team))["buyer_0/entropy"] for _ in range(3)]
    assert entropies[-1] > entropies[0] + 0.1


def test_a_greedy_policy_can_not_be_trained():
    with pytest.raises(SettingsError, match="temperature = 0"):
        Learner(word_team(MARKET, sampling=SamplingParams(temperature=0)), LearnerSettings())


def test_contradicting_settings_are_refused():
    with pytest.raises(SettingsError, match="agent_interval"):
        LearnerSettings(compounding="bounded", agent_interval=1)
    with pytest.raises(SettingsError, match="token level"):
        LearnerSettings(level="token", normalisation="word")
    for number in (0.5, 1.5):
        with pytest.raises(SettingsError, match=rf"ppo_epochs = {number}, wanted a whole number"):
            LearnerSettings(ppo_epochs=number)
    with pytest.raises(SettingsError, match="kl_stop = -1"):
        LearnerSettings(kl_stop=-1)


def test_a_base_in_bfloat16_trains_float32_adapters():
    pretrained = word_model()
    pretrained.model.to(torch.bfloat16)
    base = AdaptedBase(pretrained, MARKET, LoraSettings(), seed=0)
    team = LanguageModelTeam({a: LocalAgent(base, a) for a in MARKET}, PLAIN)
    assert all(p.dtype == torch.float32 for a in MARKET for p in base.parameters(a).values())
    learner = Learner(team, LearnerSettings(level="token", policy_lr=1e-2))
    frozen = {n: p.detach().clone() for n, p in base.peft.named_parameters() if "lora_" not in n}
    before = adapters(team)
    metrics = learner.update(play(team))
    assert metrics["buyer_0/first_pass_log_ratio_max"] == 0
    assert moved(before, adapters(team)) == set(MARKET)
    assert all(torch.equal(p, frozen[n]) for n, p in base.peft.named_parameters() if n in frozen)


@pytest.fixture(scope="module")
def rounded():
    """A team in bfloat16 and episodes whose scored log-probs differ from the sampled ones by rounding."""
    pretrained = word_model(layers=3)
    pretrained.model.to(torch.bfloat16)
    base = AdaptedBase(pretrained, MARKET, LoraSettings(), seed=0)
    generator = torch.Generator().manual_seed(0)
    for agent in MARKET:
        for tensor in base.parameters(agent).values():
            tensor.data += 0.3 * torch.randn(tensor.shape, generator=generator)
    team = LanguageModelTeam(
        {name: LocalAgent(base, name) for name in base.adapters}, SamplingParams(max_new_tokens=24)
    )
    trajectories = play(team, episodes=12)
    scored = LogProbScorer(team.sampling, PassSize(16)).logprobs(
        base, "seller_0", [t.turns[-1].action for t in trajectories]
    )
    rounding = [abs(sum(s - t.turns[-1].action.logprobs)) for s, t in zip(scored, trajectories, strict=True)]
    assert max(rounding) > 1e-2  # it adds up over tokens
    return team, trajectories


@pytest.mark.parametrize(
    ("name", "passes"),
    [("marft-a", {}), *((name, {"ppo_epochs": 2}) for name in ("marft-t", "gspo", "happo", "a2po", "reinforce++"))],
)
def test_the_first_ratio_is_one_in_half_precision_too(name, passes, rounded):
    team, trajectories = rounded
    settings = learner_settings(name, policy_lr=1e-12, micro_batch=64, **passes)
    metrics = Learner(team, settings).update(trajectories)
    for agent in MARKET:
        assert metrics[f"{agent}/first_pass_log_ratio_max"] == 0
        assert metrics[f"{agent}/clip_share"] == 0  # of all passes
    if name == "happo":  # what has not moved is not carried
        plain = Learner(team, dataclasses.replace(settings, compounding="none", agent_order="fixed")).update(
            trajectories
        )
        for agent in MARKET:
            assert metrics[f"{agent}/grad_norm"] == pytest.approx(plain[f"{agent}/grad_norm"], rel=1e-3)


@pytest.mark.parametrize("level", ["action", "token"])
def test_later_passes_in_half_precision_start_from_what_the_first_one_scored(level):
    """The ratio of the second pass is that of the policy after one step to the policy before it."""
    actions, said, ratios = [], [], []
    for passes in (1, 2):
        pretrained = word_model()
        pretrained.model.to(torch.bfloat16)
        base = AdaptedBase(pretrained, ["buyer_0"], LoraSettings(), seed=0)
        team = LanguageModelTeam({"buyer_0": LocalAgent(base, "buyer_0")}, PLAIN)
        played = play(team, Solo)
        actions = [turn.action for t in played for turn in t.turns]
        scorer = LogProbScorer(team.sampling, PassSize(64))
        said.append(scorer.logprobs(base, "buyer_0", actions))
        settings = LearnerSettings(level=level, policy_lr=0.05, ppo_epochs=passes, micro_batch=64)
        metrics = Learner(team, settings).update(played)
        ratios.append((metrics["buyer_0/ratio_max"], metrics["buyer_0/ratio_min"]))
        if passes == 1:
            said.append(scorer.logprobs(base, "buyer_0", actions))
    before, after, again = said
    assert all(np.array_equal(a, b) for a, b in zip(before, again, strict=True))
    moved_by = [new - old for new, old in zip(after, before, strict=True)]
    log_ratios = np.concatenate(moved_by) if level == "token" else np.array([own.sum() for own in moved_by])
    assert ratios[0] == (1, 1)
    assert log_ratios.max() > 0.2
    assert log_ratios.min() < -0.2
    assert ratios[1] == pytest.approx((math.exp(log_ratios.max()), math.exp(log_ratios.min())), rel=1e-4)


def test_an_agent_that_did_not_act_takes_no_place():
    def clipped(**knobs):
        team = word_team(MARKET, stir=0.3)
        silent = [
            dataclasses.replace(t, turns=tuple(turn for turn in t.turns if turn.agent == "seller_0"))
            for t in play(team, episodes=12)
        ]
        Learner(team, LearnerSettings(policy_lr=0.05, ppo_epochs=4, level="token", **knobs)).update(silent)
        return adapters(team)["seller_0"]

    whole, widening, narrow = clipped(), clipped(clip_start=0.5), clipped(clip_low=0.15, clip_high=0.15)
    assert all(torch.equal(tensor, widening[name]) for name, tensor in whole.items())
    assert not all(torch.equal(tensor, narrow[name]) for name, tensor in whole.items())


@pytest.mark.parametrize("level", ["action", "token"])
def test_the_critic_reads_the_bare_trunk_before_each_decision(level):
    team = word_team(MARKET, stir=0.5)
    settings = LearnerSettings(level=level, micro_batch=3)
    batch = build_batch(play(team), team.policies, settings)
    [flat], _ = Learner(team, settings).critic.bare_pass(batch)
    found = flat.split(batch.num_values.tolist())
    bare = word_model().model.model  # a model that never had an adapter
    for action, features in zip(batch.actions, found, strict=True):
        ids = torch.as_tensor(np.concatenate([action.prompt_ids, action.token_ids]), dtype=torch.long)[None]
        with torch.no_grad():
            hidden = bare(input_ids=ids).last_hidden_state[0, len(action.prompt_ids) - 1 : -1]
        wanted = hidden if level == "token" else hidden[:1]
        assert features.shape == wanted.shape
        assert (features - wanted).abs().max() < 1e-4


def test_step_sizes_follow_the_schedule():
    team = word_team(MARKET)
    settings = LearnerSettings(policy_lr=0.5, critic_lr=0.25, lr_schedule="cosine")
    learner = Learner(team, settings, total_updates=4)
    found = []
    for _ in range(4):
        learner.update(play(team, episodes=1))
        found.append([o.param_groups[0]["lr"] for o in (*learner.optimizers.values(), learner.critic.optimizer)])
    shares = [1.0, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5]  # (1 + cos(pi u / 4)) / 2
    np.testing.assert_allclose(found, [[0.5 * share, 0.5 * share, 0.25 * share] for share in shares])


def test_the_critic_learns_the_return():
    team = word_team(MARKET)
    learner = Learner(team, LearnerSettings(critic_lr=1e-2, value_warmup=5, value_epochs=8, discount=1.0))
    trajectories = play(team, lambda: Market(rounds=2), episodes=16)
    first, *_, last = [learner.update(trajectories) for _ in range(5)]
    assert last["critic/explained_variance"] > 0.5 > first["critic/explained_variance"]
    returns = np.mean([t.team_return for t in trajectories])
    assert 0.2 * returns < last["critic/value_mean"] < returns
