"""What a view shows and takes suffices to learn: a tabular learner solves games that need cooperation in a second."""

from __future__ import annotations

import numpy as np
import pytest

from marft_envs.wrappers import (
    CandidateAction,
    EmbeddingObservation,
    SharedPolicyEnv,
    TokenAction,
    TokenObservation,
    TurnParallel,
    VocabularyTokenizer,
)
from tests.helpers.fakes import CopyDigit, RouteToExpert, SumDigits

DIGITS = [str(digit) for digit in range(5)]


class Tabular:
    """REINFORCE over a table: logits by (who, observation, mask), a baseline by the same."""

    def __init__(self, rng):
        self.rng, self.logits, self.values = rng, {}, {}

    def act(self, key, legal):
        logits = self.logits.setdefault(key, np.zeros(len(legal)))
        weights = np.where(legal, np.exp(logits - logits.max()), 0)
        probabilities = weights / weights.sum()
        return int(self.rng.choice(len(probabilities), p=probabilities)), probabilities

    def learn(self, played, reward):
        for key, action, probabilities in played:
            value = self.values.get(key, 0.3)
            step = -probabilities
            step[action] += 1
            self.logits[key] += (reward - value) * step
            self.values[key] = value + 0.05 * (reward - value)


def shared(env, episodes, rng):
    """One table plays all agents through the Gymnasium view; return the mean reward of the last quarter."""
    env, table, rewards = SharedPolicyEnv(env, mask="obs"), Tabular(rng), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        played, over, total = [], False, 0.0
        while not over:
            key = observation["observation"].tobytes()
            action, probabilities = table.act(key, observation["action_mask"])
            played.append((key, action, probabilities))
            observation, reward, terminated, truncated, _ = env.step(action)
            total += reward
            over = terminated or truncated
        table.learn(played, total)
        rewards.append(total)
    return np.mean(rewards[-episodes // 4 :])


def independent(env, episodes, rng):
    """A table per agent through the parallel view, each with its own rewards and idle steps, as libraries do it."""
    env, rewards = TurnParallel(env, noop=True, mask="info"), []
    tables = {agent: Tabular(rng) for agent in env.possible_agents}
    for episode in range(episodes):
        observations, infos = env.reset(seed=episode)
        played, total = {agent: [] for agent in tables}, dict.fromkeys(tables, 0.0)
        while env.agents:
            keys = {agent: observations[agent].tobytes() for agent in tables}
            chosen = {agent: tables[agent].act(keys[agent], infos[agent]["action_mask"]) for agent in tables}
            for agent, (action, probabilities) in chosen.items():
                played[agent].append((keys[agent], action, probabilities))
            observations, paid, _, _, infos = env.step({agent: action for agent, (action, _) in chosen.items()})
            total = {agent: total[agent] + paid[agent] for agent in tables}
        for agent, table in tables.items():
            table.learn(played[agent], total[agent])
        rewards.append(np.mean(list(total.values())))
    return np.mean(rewards[-episodes // 4 :])


def candidates(game, **kwargs):
    return EmbeddingObservation(CandidateAction(game(**kwargs), DIGITS[:3]))


def tokens(game, **kwargs):
    digits = VocabularyTokenizer(DIGITS[:3])
    seen = VocabularyTokenizer([*"0123456789", "digit", "heard"])
    return TokenObservation(TokenAction(game(**kwargs), digits, 1, grammar=lambda written: range(3)), seen, 3)


@pytest.mark.parametrize(
    ("make", "learn"),
    [
        (candidates, independent),
        (tokens, shared),
        pytest.param(candidates, shared, marks=pytest.mark.long),
        pytest.param(tokens, independent, marks=pytest.mark.long),
    ],
)
def test_copying_a_digit_is_learnt_and_only_by_hearing_it(learn, make):
    reached = learn(make(CopyDigit), 1200, np.random.default_rng(0))
    mute = learn(make(CopyDigit, mute=True), 400, np.random.default_rng(0))
    assert reached > 0.9
    assert mute < CopyDigit.chance + 0.15


def test_routing_is_learnt():
    assert shared(candidates(RouteToExpert), 1200, np.random.default_rng(0)) > 0.9


def test_sums_are_learnt():
    env = EmbeddingObservation(CandidateAction(SumDigits(), DIGITS))
    assert shared(env, 1500, np.random.default_rng(0)) > 2 * SumDigits.chance
