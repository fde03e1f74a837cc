"""Influence of messages: how often an episode ends differently when one agent hears another episode's message.

For an edge author -> reader of the dependency function D, the reader hears messages that the same author wrote in
another scenario. All other agents hear the original ones. Turns before the reader's first affected turn are replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from pettingzoo.utils.wrappers import BaseWrapper

from baselines.attribution.coalitions import CoalitionGames, CoalitionResult, Floats, as_json, check_replay
from marft_agents.policies.policy import text_action
from marft_envs.communication.action_views import Communication, Utterance
from marft_envs.environment_capabilities import dependency_game
from marft_envs.game import FlexMG
from marft_envs.grading import equivalent
from marft_envs.spaces import Message, TextObservation
from marft_envs.tasks.math import MathTasks

OPTION = "replaced_messages"  # reset option of `ReplacedMessages`
Record = Mapping[str, Any]


class Edge(NamedTuple):
    """An edge of D: the reader sees the author's actions."""

    author: str
    reader: str

    def __str__(self) -> str:
        return f"{self.author} -> {self.reader}"


class ReplacedMessages(BaseWrapper[str, Any, Any]):
    """View in which one agent hears other messages of one author.

    The option `replaced_messages` of `reset` holds author, reader and texts. The n-th message of the author in the
    reader's observation becomes the n-th text; the last text stands for all later ones.
    """

    _replaced: Mapping[str, Any] | None = None

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; other options are those of the game."""
        given = dict(options or {})
        self._replaced = given.pop(OPTION, None)
        super().reset(seed=seed, options=given)

    def observe(self, agent: str) -> Any:
        """Return the observation of an agent, with the replaced messages if it is the reader."""
        observation: Any = super().observe(agent)
        if self._replaced is None or agent != self._replaced["reader"]:
            return observation
        return with_messages(observation, self._replaced["author"], self._replaced["texts"])


def with_messages(observation: TextObservation, author: str, texts: Sequence[str]) -> TextObservation:
    """Return an observation with other messages of one author."""
    messages = [Message(**message) for message in observation.messages]
    places = [place for place, message in enumerate(messages) if message.name == author]
    for number, place in enumerate(places):
        messages[place] = messages[place]._replace(content=texts[min(number, len(texts) - 1)])
    return TextObservation.of(tuple(messages), observation.fixed_messages)


# ------------------------------------------------------------------ records


def first_reading(record: Record, edge: Edge) -> int | None:
    """Return the number of the first turn in which the reader sees a message of the author; None if it never does."""
    if record["game"] is None:
        return None
    for number, turn in enumerate(record["game"]["turns"]):
        if turn["agent"] == edge.reader and any(author == edge.author for _, author in turn["visible"]):
            return number
    return None


def heard(record: Record, edge: Edge, communication: Communication) -> tuple[str, ...]:
    """Return the author's messages as the reader sees them at its last turn, oldest first; none of a failed episode."""
    if first_reading(record, edge) is None:
        return ()
    game = record["game"]
    last = [turn for turn in game["turns"] if turn["agent"] == edge.reader][-1]
    said = []
    for number, author in last["visible"]:
        if author == edge.author:
            [text] = [t["action"] for t in game["turns"] if (t["agent"], t["round"]) == (author, number)]
            outcome = game["outcomes"][number] if number < len(game["outcomes"]) else None
            events = outcome["events"] if outcome is not None and number < last["round"] else ()
            said.append(Utterance(text, tuple(event for event in events if event.get("agent") == author)))
    return tuple(text for text in communication.carry(edge.author, edge.reader, said) if text is not None)


def edges_of(game: FlexMG) -> list[Edge]:
    """Return the edges along which messages may flow within the horizon, in team order.

    A dependency that plans a round as it is played may use any edge.
    """
    roster = game.team.roster
    plans = [game.dependency.plan(roster, number) for number in range(game.horizon)]
    agents = roster.agents
    if any(plan.open for plan in plans):
        return [Edge(author, reader) for author in agents for reader in agents if author != reader]
    found = {edge for plan in plans for edge in plan.edges}
    later = plans[:-1]  # what is seen from the next round on
    found |= {(author, reader) for plan in later for reader, seen in plan.later.items() for author in seen}
    return [Edge(a, r) for a in agents for r in agents if a != r and (a, r) in found]


class FinalAnswer:
    """Final answer of an episode, and the equivalence of two.

    Mathematical answers are compared as the grader does. Answers of other tasks are compared by their exact text.

    Args:
        game: The game that was played.
    """

    def __init__(self, game: FlexMG) -> None:
        self._answering = game.team.roster.answering
        self._language = game.tasks.language if isinstance(game.tasks, MathTasks) else None

    def of(self, record: Record) -> str | None:
        """Return the final answer; None if there is none."""
        if self._language is not None:
            outcome = record["game"]["outcomes"][-1]
            answer = outcome["detail"].get("extracted") if outcome is not None else None
            return None if answer is None else str(answer)
        texts = [turn["action"] for turn in record["game"]["turns"] if turn["agent"] in self._answering]
        return str(texts[-1]) if texts else None

    def same(self, first: str | None, second: str | None) -> bool:
        """Return True if two final answers are equivalent; no answer equals no answer."""
        if first is None or second is None or self._language is None:
            return first == second
        return first == second or equivalent(first, second, self._language)


# ------------------------------------------------------------------ play


@dataclass(frozen=True)
class Influence:
    """Influence of one edge.

    Attributes:
        edge: Author and reader.
        changed: 1 where the final answer changed, float64 [scenarios, seeds]; NaN where the reader heard nothing, no
            other scenario has another message, or an episode failed.
        success: Success with the replaced message, likewise.
        before: Success with the original message, likewise.
        generated_tokens: Number of sampled tokens.
    """

    edge: Edge
    changed: Floats
    success: Floats
    before: Floats
    generated_tokens: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        arrays = {name: as_json(getattr(self, name)) for name in ("changed", "success", "before")}
        return {**self.edge._asdict(), **arrays, "generated_tokens": self.generated_tokens}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        arrays = {name: np.asarray(record[name], np.float64) for name in ("changed", "success", "before")}
        return cls(Edge(record["author"], record["reader"]), **arrays, generated_tokens=record["generated_tokens"])


def influence(games: CoalitionGames, whole: CoalitionResult, edge: Edge) -> Influence:
    """Play all scenarios again with replaced messages on one edge.

    Args:
        games: Games of the team.
        whole: Result of the whole team, with its episodes.
        edge: Edge whose messages are replaced.

    Raises:
        ReplayError: A replayed turn differs from its record.
    """
    make_env, policy = games.replacement(frozenset())
    game = dependency_game(make_env())
    if game is None:
        raise ValueError("message influence needs a dependency function")
    answers, tokens = FinalAnswer(game), 0
    shape = (len(games.scenarios), len(games.seeds))
    changed, success, before = (np.full(shape, np.nan) for _ in range(3))
    for column, (records, seed) in enumerate(zip(whole.episodes, games.seeds, strict=True)):
        texts = other_messages(records, edge, game.communication, seed)
        scenarios, prefixes = [], []
        for options, record, said in zip(games.scenarios, records, texts, strict=True):
            length = first_reading(record, edge) if said else None  # None: replay all
            scenarios.append({**options, OPTION: {**edge._asdict(), "texts": said}} if said else options)
            prefixes.append(tuple(text_action(turn["text"]) for turn in record["turns"][:length]))
        played = games.evaluate(lambda: ReplacedMessages(make_env()), policy, scenarios, seed, prefixes)
        for row, (record, said, trajectory) in enumerate(zip(records, texts, played.trajectories, strict=True)):
            tokens += trajectory.num_tokens
            if not said:
                continue
            check_replay(record, trajectory, len(prefixes[row]))
            if trajectory.failure is None:
                same = answers.same(answers.of(record), answers.of({"game": trajectory.game}))
                changed[row, column] = float(not same)
                success[row, column] = played.scores[row, 0]
                before[row, column] = whole.scores[row, column]
    return Influence(edge, changed, success, before, tokens)


def other_messages(
    records: Sequence[Record], edge: Edge, communication: Communication, seed: int
) -> list[tuple[str, ...]]:
    """Return for each scenario the author's messages of a random other scenario that differ from its own.

    Empty where the reader heard nothing, the episode failed, or no scenario has other messages.
    """
    said = [
        ()
        if record["failure"] is not None or first_reading(record, edge) is None
        else heard(record, edge, communication)
        for record in records
    ]
    found = []
    for place, own in enumerate(said):
        order = np.random.default_rng(np.random.SeedSequence([seed, place])).permutation(len(said))
        others = (said[other] for other in order if said[other] and said[other] != own)
        found.append(next(others, ()) if own else ())
    return found
