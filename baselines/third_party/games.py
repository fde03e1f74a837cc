"""Test games for third-party libraries, with numeric observations and discrete or token actions.

| Game | Description | Chance |
|---|---|---|
| `cheap_talk` | probe: the speaker must tell a secret digit (`CheapTalk`) | 1/3 |
| `tools` | `marft/tools_duo-v0`: the agent with the tool does not see the problem (`tool_duo`) | 1/3 |
| `gsm8k` | `marft/gsm8k_duo-v0` with six problems; the actions are their six answers | 1/6 |

All have two agents with one turn each, and a team reward after the second turn. A policy that does not learn succeeds
by chance, and so does one that ignores its observations. In `cheap_talk` and `tools` the message decides: the second
agent wins by chance if it ignores the first. In their controls, `cheap_talk_muted` and `tools_muted`, it hears nothing.

The number after the name is the version of the view. In `-v0` an observation is embedded as one text
(`EmbeddingObservation`), in `-v1` each source by itself (`BlockObservation`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from statistics import fmean
from typing import Any, NamedTuple

import marft_envs
from baselines.third_party.cheap_talk import SECRETS, CheapTalk
from baselines.third_party.tool_duo import TEXTS, make_tool_duo
from marft_envs.tasks.math import MathTasks
from marft_envs.wrappers import (
    BlockObservation,
    CandidateAction,
    EmbeddingObservation,
    HashedNgrams,
    TokenAction,
    VocabularyTokenizer,
)
from marft_envs.wrappers.base import AnyAEC, TextView
from marft_envs.wrappers.numeric_observation import NumericObservation

Candidates = tuple[str, ...] | Mapping[str, tuple[str, ...]]
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
        name: Name of the game, with the version of the view.
        make: Makes the game as an AEC environment.
        candidates: Texts that any agent can say; or texts by agent, equally many.
        view: Makes the observations numeric.
        scores: Results of all games played in the environments made here.
    """

    name: str
    make: Callable[[], AnyAEC]
    candidates: Candidates
    view: Callable[[AnyAEC], NumericObservation]
    scores: Scores = field(default_factory=Scores)

    @property
    def num_actions(self) -> int:
        """Number of candidates of each agent."""
        texts = self.candidates
        return len(next(iter(texts.values())) if isinstance(texts, Mapping) else texts)

    @property
    def chance(self) -> float:
        """Success rate of random actions, 0 to 1."""
        return 1 / self.num_actions

    def choosing(self) -> NumericObservation:
        """Make the game with a `Discrete` action per candidate and numeric observations."""
        return self.view(CandidateAction(Scored(self.make(), self.scores), self.candidates))

    def writing(self) -> NumericObservation:
        """Make the game with token actions; a grammar allows only prefixes of candidates.

        Raises:
            ValueError: Each agent has texts of its own: a grammar does not know who writes.
        """
        if isinstance(self.candidates, Mapping):
            raise ValueError(f"{self.name}: each agent has texts of its own, so choose an algorithm that takes texts")
        pieces = [_PIECE.findall(text) for text in self.candidates]
        tokenizer = VocabularyTokenizer(sorted({piece for text in pieces for piece in text}))
        allowed = [(*tokenizer.encode(text), tokenizer.eos_token_id) for text in self.candidates]

        def grammar(written: tuple[int, ...]) -> Iterable[int]:
            return {ids[len(written)] for ids in allowed if ids[: len(written)] == written}

        tokens = TokenAction(Scored(self.make(), self.scores), tokenizer, max(map(len, pieces)), grammar=grammar)
        return self.view(tokens)


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


class World(NamedTuple):
    """A text game, its candidates, and the components of an embedded text."""

    make: Callable[[], AnyAEC]
    candidates: Candidates
    dim: int


def _gsm8k() -> World:
    """Return the GSM8K duo with six problems that have different answers."""
    every = MathTasks.load("gsm8k")
    by_answer = {every[index].answer: every[index] for index in range(len(every))}
    tasks = list(by_answer.values())[:NUM_TASKS]
    candidates = tuple(f"\\boxed{{{task.answer}}}" for task in tasks)
    return World(partial(marft_envs.make, "marft/gsm8k_duo-v0", data=MathTasks("gsm8k, six", tasks)), candidates, 256)


def _cheap_talk(*, muted: bool = False) -> World:
    return World(partial(CheapTalk, muted=muted), SECRETS, 64)


def _tools(*, muted: bool = False) -> World:
    return World(partial(make_tool_duo, muted=muted), TEXTS, 64)


WORLDS: dict[str, Callable[[], World]] = {
    "cheap_talk": _cheap_talk,
    "cheap_talk_muted": partial(_cheap_talk, muted=True),
    "tools": _tools,
    "tools_muted": partial(_tools, muted=True),
    "gsm8k": _gsm8k,
}
VIEWS: dict[str, Callable[..., NumericObservation]] = {"v0": EmbeddingObservation, "v1": BlockObservation}
GAMES = tuple(f"{world}-{version}" for world in WORLDS for version in VIEWS)


def make_game(name: str) -> Game:
    """Make a game of `GAMES`, with scores of its own."""
    world, _, version = name.rpartition("-")
    make, candidates, dim = WORLDS[world]()
    return Game(name, make, candidates, partial(VIEWS[version], embed=HashedNgrams(dim=dim)))


@cache
def find_game(name: str) -> Game:
    """Return a game by name, the same object for the whole process.

    Libraries that make environments by name then share its `scores`.
    """
    return make_game(name)
