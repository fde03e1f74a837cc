"""Stacks of views over games, for the tests of the views: ours and third-party ones."""

from __future__ import annotations

import marft_envs
from marft_envs.wrappers import (
    ActionMask,
    BlockObservation,
    CandidateAction,
    EmbeddingObservation,
    RenamedAgents,
    TokenAction,
    TokenObservation,
    TokenSequenceAction,
    VocabularyTokenizer,
)
from tests.helpers.fakes import CopyDigit, Market
from tests.helpers.toy_games import toy_game, toy_tasks

SPEECH = VocabularyTokenizer(["\\boxed{", "}", "a", "0", "1", "2"])
LETTERS = VocabularyTokenizer("abcdefghijklmnopqrstuvwxyz0123456789 ?+.\n")
BOXES = tuple(f"\\boxed{{{number}}}" for number in range(4))


def game(id, **kwargs):
    return lambda: marft_envs.make(f"marft/{id}-v0", data=toy_tasks(), **kwargs)


GAMES = {
    "solo": game("math_solo"),
    "solo, 2 rounds": game("math_solo", horizon=2),
    "duo": game("math_duo"),
    "duo, 2 rounds": game("math_duo", horizon=2),
    "trio, 2 rounds": game("math_trio", horizon=2),
    "toy": toy_game,
    "third party": CopyDigit,
    "third party, uneven ends": Market,
}


def one_box(prefix):
    """Allow \\boxed{0} to \\boxed{2} and nothing else."""
    return [[0], [3, 4, 5], [1], [SPEECH.eos_token_id]][len(prefix)]


def choose(env, agent):
    """Propose two to four texts, as many as the agent's name and what it sees make it."""
    return BOXES[: 2 + (len(agent) + len(env.observe(agent))) % 3]


VIEWS = {
    "candidates": lambda env: CandidateAction(env, BOXES),
    "shown candidates": lambda env: CandidateAction(env, choose, 4, show=True),
    "tokens": lambda env: TokenAction(env, SPEECH, 3),
    "grammar": lambda env: TokenAction(env, SPEECH, 3, grammar=one_box),
    "token sequence": lambda env: TokenSequenceAction(env, SPEECH, 3),
    "candidates, ids": lambda env: TokenObservation(CandidateAction(env, BOXES), LETTERS, 20),
    "tokens, one-hot": lambda env: TokenObservation(TokenAction(env, SPEECH, 2), LETTERS, 8, one_hot=True),
    "sequence, embedding": lambda env: EmbeddingObservation(TokenSequenceAction(env, SPEECH, 3)),
    "blocks": lambda env: BlockObservation(CandidateAction(env, choose, 4, show=True)),
    "mask in obs": lambda env: ActionMask(EmbeddingObservation(CandidateAction(env, choose, 4, show=True))),
    "mask in info": lambda env: ActionMask(EmbeddingObservation(TokenAction(env, SPEECH, 4, grammar=one_box)), "info"),
    "renamed": lambda env: RenamedAgents(EmbeddingObservation(CandidateAction(env, choose, 4))),
}
NUMERIC = [
    name for name in VIEWS if name not in ("candidates", "shown candidates", "tokens", "grammar", "token sequence")
]
MASKED = ["candidates", "shown candidates", "tokens", "grammar", "candidates, ids", "blocks", "renamed"]


def turns(env):
    """Yield whose turn it is until the game is over; the caller takes each turn."""
    while not over(env):
        agent = env.agent_selection
        if env.terminations[agent] or env.truncations[agent]:
            env.step(None)
        else:
            yield agent


def over(env):
    return all(env.terminations[agent] or env.truncations[agent] for agent in env.agents)
