"""MARFT as in the paper: its token backup, the normalisation and value clipping of its appendix, its critic's step."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.advantages import normalise_nonzero
from marft_agents.learning.batch import build_batch, count_words
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.trajectory import Action, SampledTurn, Trajectory
from tests.helpers.fakes import Market, word_model, word_team
from tests.helpers.naive import BRIEF_CRITIC, DESCENT, adapters, assert_stepped_along, logprobs, moved, play
from tests.helpers.restated import token_backup
from tests.helpers.rows import credited

MARKET = ("buyer_0", "seller_0")
SAMPLING = SamplingParams(temperature=0.8, max_new_tokens=5)
GAMMA, LAMBDA = 0.99, 0.95
PER_TOKEN = {"discount": GAMMA, "trace_decay": LAMBDA, "token_discount": GAMMA, "token_trace_decay": LAMBDA}


def action(length):
    return Action("x", np.arange(3, dtype=np.int32), np.zeros(length, np.int32), np.zeros(length, np.float32), True)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 4), st.integers(1, 3), st.booleans(), st.integers(0, 2**16), st.floats(0, 1))
def test_the_token_backup_is_that_of_section_4_1_2(agents, rounds, cut, seed, gamma):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, (rounds, agents))
    values = [[rng.normal(size=n) for n in row] for row in lengths]
    rewards, bootstrap = rng.normal(size=rounds), rng.normal() if cut else 0.0
    turns = tuple(
        SampledTurn(f"agent_{i}", action(n), rewards[t] if i == agents - 1 else 0.0, t)
        for t, row in enumerate(lengths)
        for i, n in enumerate(row)
    )
    played = [Trajectory(0, 0, turns, not cut, cut)]
    flat = [own for row in values for own in row]

    def targets(decay):
        knobs = {"discount": gamma, "token_discount": gamma, "trace_decay": decay, "token_trace_decay": decay}
        samples = credited(played, flat, {(0, ""): bootstrap}, LearnerSettings(level="token", **knobs))
        return np.concatenate([s.returns for s in samples])

    actions = [[range(n) for n in row] for row in lengths]
    np.testing.assert_allclose(targets(0.0), token_backup(actions, rewards, values, gamma, bootstrap), atol=1e-12)
    # lambda = 1: what came, each token one more factor of gamma further away
    ends = np.cumsum(lengths)  # of turns; a reward follows the last token of a round
    earned = dict(zip(ends[agents - 1 :: agents] - 1, rewards, strict=True))
    returns = [
        sum(gamma ** (m - k) * reward for m, reward in earned.items() if m >= k) + gamma ** (ends[-1] - k) * bootstrap
        for k in range(ends[-1])
    ]
    np.testing.assert_allclose(targets(1.0), returns, atol=1e-9)


# ------------------------------------------------------------------ a whole update of MARFT-T


def plain_values(head, ids, first):
    """V before each token from a position on, by one plain pass of a model that never had an adapter."""
    with torch.no_grad():
        hidden = word_model().model.model(input_ids=torch.as_tensor(ids, dtype=torch.long)[None]).last_hidden_state[0]
        return head(hidden[first - 1 :]).double().numpy()


def plain_advantages(head, trajectory):
    """GAE with gamma and lambda per token along all tokens of an episode."""
    values, rewards = [], []
    for turn in trajectory.turns:
        prompt, tokens = turn.action.prompt_ids, turn.action.token_ids
        values += list(plain_values(head, np.concatenate([prompt, tokens[:-1]]), len(prompt)))
        rewards += [0.0] * (len(tokens) - 1) + [turn.reward]
    final = trajectory.final_prompt_ids
    values.append(plain_values(head, final, len(final))[0] if trajectory.truncated else 0.0)
    deltas = [r + GAMMA * values[k + 1] - values[k] for k, r in enumerate(rewards)]
    flat = [sum((GAMMA * LAMBDA) ** (m - k) * deltas[m] for m in range(k, len(deltas))) for k in range(len(deltas))]
    return np.split(np.array(flat), np.cumsum([len(t.action.token_ids) for t in trajectory.turns])[:-1])


@pytest.mark.parametrize("cut", [False, True])
def test_an_update_of_marft_t_is_the_papers_with_a_critic_that_knows_something(cut):
    team = word_team(MARKET, sampling=SAMPLING, stir=0.3)
    wanted_settings = LearnerSettings(level="token", centring="none", scaling="batch", **(DESCENT | PER_TOKEN))
    learner = Learner(team, wanted_settings)
    [head] = learner.critic.heads
    torch.nn.init.normal_(head.layers[-1].weight, generator=torch.Generator().manual_seed(1))
    trajectories = play(team, lambda: Market(cut=cut))
    found = {(e, k): own for e, t in enumerate(trajectories) for k, own in enumerate(plain_advantages(head, t))}
    flat = np.concatenate(list(found.values()))  # all agents together
    assert flat.std() > 0.1
    losses = {agent: [] for agent in MARKET}
    for (e, k), own in found.items():
        turn = trajectories[e].turns[k]
        new, _ = logprobs(team.local_agent(turn.agent).base, turn.agent, turn.action, team.sampling)
        advantage = torch.as_tensor((own - flat.mean()) / (flat.std() + 1e-8), dtype=torch.float32)
        losses[turn.agent].append(-(new - torch.as_tensor(turn.action.logprobs)).exp() * advantage)
    before = adapters(team)
    gradients = {}
    for agent, terms in losses.items():
        base = team.local_agent(agent).base
        with base.active_adapter(agent):
            tensors = base.parameters(agent)
            each = torch.autograd.grad(torch.cat(terms).mean(), list(tensors.values()))
        gradients[agent] = dict(zip(tensors, each, strict=True))
    learner.update(trajectories)
    after = adapters(team)
    for agent in MARKET:
        assert_stepped_along(before[agent], after[agent], gradients[agent], tolerance=1e-3)


# ------------------------------------------------------------------ the appendix's normalisation


def test_zeros_are_left_out_of_the_normalisation():
    found = normalise_nonzero(np.array([0.0, 2.0, 0.0, 4.0, 9.0]))
    assert found[[0, 2]].tolist() == [0, 0]
    np.testing.assert_allclose(found[[1, 3, 4]], (np.array([2, 4, 9]) - 5) / (np.sqrt(26 / 3) + 1e-8), rtol=1e-12)


@pytest.mark.parametrize("advantages", [[], [0.0, 0.0], [3.0], [0.0, 0.1, 0.1, 0.1]])
def test_nothing_is_made_of_advantages_that_do_not_differ(advantages):
    assert normalise_nonzero(np.array(advantages)).tolist() == [0.0] * len(advantages)


@pytest.mark.parametrize(
    ("scaling", "normalised"),
    [
        ("batch", [-1 / 14**0.5, -4 / 14**0.5, 5 / 14**0.5]),  # mean 4/3, standard deviation sqrt(14) / 3
        ("batch-nonzero", [-1, 0, 1]),
    ],
)
def test_it_is_over_all_agents_together(scaling, normalised):
    turns = (
        SampledTurn("a_0", action(1), 1.0),
        SampledTurn("b_0", action(1), 0.0, 1),
        SampledTurn("b_0", action(1), 3.0, 2),
    )
    played = [Trajectory(0, 0, (turn,), True, False) for turn in turns]
    knobs = LearnerSettings(centring="none", scaling=scaling)
    samples = credited(played, [np.zeros(1)] * 3, {}, knobs)
    assert [s.advantages.item() for s in samples] == pytest.approx(normalised)
    assert [s.credit.item() for s in samples] == [1, 0, 3]


# ------------------------------------------------------------------ the appendix's KL bound


@pytest.mark.parametrize("level", ["action", "token"])
def test_the_step_is_skipped_where_the_mean_kl_of_all_its_decisions_exceeds_the_bound(level):
    """The records are of another adapter, so the policy is off before its first step; micro-batches do not matter."""

    def updated(bound):
        team = word_team(MARKET, sampling=SAMPLING, stir=0.3)
        trajectories = play(team)
        for tensor in team.local_agent("buyer_0").base.parameters("buyer_0").values():
            tensor.data *= 1.2
        log_ratios = []
        for turn in (turn for t in trajectories for turn in t.turns if turn.agent == "buyer_0"):
            new, _ = logprobs(team.local_agent("buyer_0").base, "buyer_0", turn.action, team.sampling)
            off = new.detach() - torch.as_tensor(turn.action.logprobs)
            log_ratios.append(off if level == "token" else off.sum()[None])
        found = torch.cat(log_ratios)
        kl = (found.exp() - 1 - found).mean().item()
        before = adapters(team)
        sizes = {"micro_batch": 8, **BRIEF_CRITIC}
        chosen = LearnerSettings(level=level, policy_lr=0.01, kl_stop=bound and bound * kl, **sizes)
        metrics = Learner(team, chosen).update(trajectories)
        return kl, metrics, moved(before, adapters(team))

    kl, metrics, changed = updated(None)
    assert kl > 1e-3
    assert metrics["buyer_0/kl"] == pytest.approx(kl, rel=1e-3)
    assert changed == set(MARKET)
    _, metrics, changed = updated(1.01)
    assert (metrics["buyer_0/kl_stopped"], changed) == (0, set(MARKET))
    _, metrics, changed = updated(0.99)
    assert (metrics["buyer_0/kl_stopped"], changed) == (1, {"seller_0"})  # each agent by itself


# ------------------------------------------------------------------ the critic


@pytest.mark.parametrize(
    "knobs",
    [
        {"value_epochs": 1},
        {"value_epochs": 3},
        {"value_epochs": 3, "value_clip": 0.02},
        {"value_epochs": 3, "value_clip": 0.02, "value_norm": True},
        {"value_epochs": 3, "max_grad_norm": 1e-3},
    ],
)
def test_the_critics_step_is_adam_on_the_mean_loss_with_coefficient_one(knobs):
    team = word_team(MARKET, stir=0.3)
    chosen = LearnerSettings(critic_lr=0.02, value_mini_batches=1, huber_delta=0.5, value_width=64, **knobs)
    learner = Learner(team, chosen)
    [head], [scale] = learner.critic.heads, learner.critic.scales
    assert [head.layers[1].out_features, head.layers[3].in_features] == [64, 64]
    batch = build_batch(play(team, episodes=12), team.policies, chosen)
    features, _ = learner.critic.bare_pass(batch)
    returns = np.random.default_rng(0).normal(1.0, 0.8, size=len(batch.actions))
    batch = batch._replace(values=np.zeros(len(returns)), returns=returns)

    mine, clip, norm = copy.deepcopy(head), chosen.value_clip, chosen.max_grad_norm
    x, targets = torch.cat(features), returns
    if chosen.value_norm:
        targets = (targets - targets.mean()) / targets.std()  # those of the first update
    y, start = torch.as_tensor(targets, dtype=torch.float32), mine(x).detach()
    optimizer = torch.optim.Adam(mine.parameters(), lr=0.02, eps=1e-5)
    for _ in range(chosen.value_epochs):
        predicted = mine(x)
        losses = huber(predicted - y)
        if clip is not None:
            held = torch.minimum(torch.maximum(predicted, start - clip), start + clip)
            losses = torch.where(huber(held - y) > losses, huber(held - y), losses)
        optimizer.zero_grad()
        (1.0 * losses.mean()).backward()
        total = torch.cat([p.grad.flatten() for p in mine.parameters()]).norm()
        for p in mine.parameters():
            p.grad *= min(1.0, norm / (total.item() + 1e-6))
        optimizer.step()

    learner.critic.fit(batch, features, lr=0.02, generator=np.random.default_rng(0))
    for found, wanted in zip(head.parameters(), mine.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert (scale.sums[2] > 0) == chosen.value_norm
    assert (mine(x) - start).abs().max() > (clip or 0)  # so the clip was at work


def huber(error, delta=0.5):
    return torch.where(error.abs() <= delta, error.square() / 2, delta * (error.abs() - delta / 2))


# ------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("Add 2 + 3, then stop.", 6),
        ("naïve café", 2),
        ("答案", 2),
        ("答案是 5。", 4),
        ("共有12个苹果，每个3元。", 10),
        ("所以 x = 5", 5),
        ("answer:五", 2),
        (r"因此\boxed{42}。", 3),
        ("。", 1),  # by itself, like a lone +
        ("すしを食べる", 6),
        ("ラーメン", 4),
        ("ﾗｰﾒﾝ", 4),
        ("안녕 세상", 4),
        ("𠮷野家", 3),  # beyond the basic plane
        ("々〇", 2),
        ("Привет мир", 2),
    ],
)
def test_words(text, words):
    assert count_words(text) == words


def test_the_log_prob_of_a_chinese_action_is_divided_by_its_characters():
    def step(normalisation, text):
        team = word_team(MARKET, stir=0.3)
        trajectories = [
            dataclasses.replace(
                t,
                turns=tuple(
                    dataclasses.replace(turn, action=dataclasses.replace(turn.action, text=text)) for turn in t.turns
                ),
            )
            for t in play(team)
        ]
        before = adapters(team)
        Learner(team, LearnerSettings(normalisation=normalisation, **DESCENT)).update(trajectories)
        after = adapters(team)
        return torch.cat([(before[p][k] - after[p][k]).flatten() for p in before for k in before[p]])

    whole = step("sum", "")
    assert whole.abs().max() > 1e-3
    for text, words in (("答案是五", 4), ("答 five", 2), ("", 1)):
        torch.testing.assert_close(words * step("word", text), whole, rtol=1e-3, atol=1e-5)
