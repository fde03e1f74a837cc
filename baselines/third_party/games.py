"""Test games for third-party libraries, with numeric observations and discrete or token actions.

| Game | Description | Chance |
|---|---|---|
| `cheap_talk` | probe: the speaker must tell a secret digit (`CheapTalk`) | 1/3 |
| `gsm8k` | `marft/gsm8k_duo-v0` with six problems; the actions are their six answers | 1/6 |

Both have two agents with one turn each, and a team reward after the second turn. A policy that does not learn succeeds
by chance, and so does one that ignores its observations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

import marft_envs
from baselines.third_party.cheap_talk import SECRETS, CheapTalk
from marft_envs.tasks.math import MathTasks
from marft_envs.wrappers import (
    CandidateAction,
    EmbeddingObservation,
    HashedNgrams,
    TokenAction,
    VocabularyTokenizer,
)
from marft_envs.wrappers.base import AnyAEC, TextView

NUM_TASKS = 6
_PIECE = re.compile(r"\\boxed\{|.")


@dataclass
class Scores:
    """Results of all finished games, in the order they ended: True for won games."""

    won: list[bool] = field(default_factory=list)

    def last(self, games: int = 200) -> float:
        """Return the share of won games among the last `games`, 0 to 1.

        Raises:
            ValueError: No game has ended yet.
        """
        if not self.won:
            raise ValueError("no game has ended yet: train for more steps")
        return fmean(self.won[-games:])


@dataclass(frozen=True)
class Game:
    """A text game with a small set of candidate actions.

    Attributes:
        name: Name of the game.
        make: Makes the game as an AEC environment.
        candidates: Texts that any agent can say.
        chance: Success rate of random actions, 0 to 1.
        embed: Maps an observation to a float32 vector.
        scores: Results of all games played in the environments made here.
    """

    name: str
    make: Callable[[], AnyAEC]
    candidates: tuple[str, ...]
    chance: float
    embed: Callable[[str], NDArray[np.float32]]
    scores: Scores = field(default_factory=Scores)

    def choosing(self) -> EmbeddingObservation:
        """Make the game with a `Discrete` action per candidate and embedded observations."""
        return EmbeddingObservation(CandidateAction(Scored(self.make(), self.scores), self.candidates), self.embed)

    def writing(self) -> EmbeddingObservation:
        """Make the game with token actions; a grammar allows only prefixes of candidates."""
        pieces = [_PIECE.findall(text) for text in self.candidates]
        tokenizer = VocabularyTokenizer(sorted({piece for text in pieces for piece in text}))
        allowed = [(*tokenizer.encode(text), tokenizer.eos_token_id) for text in self.candidates]

        def grammar(written: tuple[int, ...]) -> Iterable[int]:
            return {ids[len(written)] for ids in allowed if ids[: len(written)] == written}

        view = TokenAction(Scored(self.make(), self.scores), tokenizer, max(map(len, pieces)), grammar=grammar)
        return EmbeddingObservation(view, self.embed)


class Scored(TextView):
    """Wrapper that records won and lost games in `scores`, which copies share."""

    shared = ("scores",)

    def __init__(self, env: AnyAEC, scores: Scores) -> None:
        super().__init__(env)
        self.scores = scores

    def step(self, action: Any) -> None:
        """Take a turn; record the result if the game ends."""
        before = self._ended()
        super().step(action)
        if self._ended() and not before:
            self.scores.won.append(bool(self.infos[self.agents[0]]["success"]))

    def _ended(self) -> bool:
        return all(self.env.terminations[agent] or self.env.truncations[agent] for agent in self.env.agents)


def cheap_talk() -> Game:
    """Return the cheap-talk probe."""
    return Game("cheap_talk", CheapTalk, SECRETS, 1 / len(SECRETS), HashedNgrams(dim=64))


def gsm8k() -> Game:
    """Return the GSM8K duo with six problems that have different answers."""
    every = MathTasks.load("gsm8k")
    by_answer = {every[index].answer: every[index] for index in range(len(every))}
    tasks = list(by_answer.values())[:NUM_TASKS]
    candidates = tuple(f"\\boxed{{{task.answer}}}" for task in tasks)

    def make() -> AnyAEC:
        return marft_envs.make("marft/gsm8k_duo-v0", data=MathTasks("gsm8k, six", tasks))

    return Game("gsm8k", make, candidates, 1 / NUM_TASKS, HashedNgrams(dim=256))


GAMES: dict[str, Callable[[], Game]] = {"cheap_talk": cheap_talk, "gsm8k": gsm8k}


@cache
def find_game(name: str) -> Game:
    """Return a game by name, the same object for the whole process.

    Libraries that make environments by name then share its `scores`.
    """
    return GAMES[name]()
