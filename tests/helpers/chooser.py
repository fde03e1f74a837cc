"""A policy without a model whose actions have tokens: what branches need, at no cost."""

from __future__ import annotations

import numpy as np

from marft_agents.trajectory import Action
from tests.helpers.fakes import WORDS


def spell(agent, observation):
    """Encode an observation by its characters."""
    return np.frombuffer(f"{agent} {observation}".encode(), np.uint8).astype(np.int32)


class Chooser:
    """Says a random word, or what `rules` tell an agent to say; remembers the randomness it was given.

    Args:
        rules: agent -> function of the observation; others choose.
        mute: agents whose actions have no tokens.
        words: to choose from.
    """

    def __init__(self, rules=None, mute=(), words=WORDS):
        self.rules, self.mute, self.words = rules or {}, mute, words
        self.asked = []
        self.streams = []

    def act(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        self.asked.append(request.agent)
        self.streams.append(request.generator.random())
        rule = self.rules.get(request.agent)
        word = str(request.generator.choice(self.words)) if rule is None else rule(request.observation)
        n = 0 if request.agent in self.mute else 1
        prompt = spell(request.agent, request.observation) if n else np.zeros(0, np.int32)
        tokens = np.full(n, WORDS.index(word), np.int32)
        return Action(word, prompt, tokens, np.full(n, -np.log(len(self.words)), np.float32), True)
