"""The dependency function as it happened in a program: which answer each request carried, and who asked together.

An edge i -> j has evidence. The request of j carries the answer of i as the response that it continues, by the id of
one of its tool calls, as an assistant message, or by at least 8 consecutive tokens of it. These tokens must be new with
i: no prompt asked before i was delivered and no earlier answer holds them. A text that was rewritten on the way leaves
no edge. So beside the edges there is a bound: j may depend on whatever was delivered before j was asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from marft_agents.trajectory import Action, IntArray

LEAST_TOKENS = 8  # consecutive tokens of an answer that show that a prompt carries it

Evidence = Literal["response", "tool call", "message", "tokens"]


@dataclass(frozen=True)
class ProgramTurn:
    """One answer of an agent in a program.

    Attributes:
        agent: Id of the agent.
        observation: Its prompt as text, with the chat form in `messages`.
        action: The answer as it was sampled.
        content: Text of the answer as the program got it; None beside tool calls alone.
        asked: Place of the request among all requests and answers of the episode.
        delivered: Place of its answer among them.
        id: Id of the answer.
        calls: Ids of its tool calls.
        named: Ids of answers and of tool calls that the request names.
    """

    agent: str
    observation: str
    action: Action
    content: str | None
    asked: int
    delivered: int
    id: str
    calls: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()


class Read(NamedTuple):
    """An edge.

    Attributes:
        turn: Index of the turn that was read.
        evidence: What shows it.
    """

    turn: int
    evidence: Evidence


def bound_of(turns: Sequence[ProgramTurn]) -> list[int]:
    """Return for each turn how many were delivered before it was asked.

    Args:
        turns: Turns in the order of delivery; so those are the first ones.
    """
    delivered = [turn.delivered for turn in turns]
    return [sum(place < turn.asked for place in delivered) for turn in turns]


def layers_of(turns: Sequence[ProgramTurn]) -> list[int]:
    """Return the layer of each turn: turns of one layer were all open at one moment.

    Examples:
        >>> def turn(asked, delivered): return ProgramTurn("a", "", None, "", asked, delivered, "")
        >>> layers_of([turn(0, 2), turn(1, 3), turn(4, 5)])
        [0, 0, 1]
    """
    layer, closes, found = -1, -1, dict[int, int]()
    for index in sorted(range(len(turns)), key=lambda index: turns[index].asked):
        if turns[index].asked > closes:  # the first of the layer was delivered before
            layer, closes = layer + 1, turns[index].delivered
        closes = min(closes, turns[index].delivered)
        found[index] = layer
    return [found[index] for index in range(len(turns))]


def reads_of(turns: Sequence[ProgramTurn]) -> list[list[Read]]:
    """Return the edges that end in each turn, oldest first.

    Args:
        turns: Turns in the order of delivery.
    """
    new = [_new_tokens(turns, index) for index in range(len(turns))]
    found = []
    for turn, bound in zip(turns, bound_of(turns), strict=True):
        earlier = turns[:bound]
        evidence: dict[int, Evidence] = {}
        prompt = windows(turn.action.prompt_ids)
        for index in range(bound):
            if new[index] & prompt:
                evidence[index] = "tokens"
        evidence |= dict.fromkeys(_messages(turn, earlier), "message")
        evidence |= {i: "tool call" for i, one in enumerate(earlier) if turn.named.intersection(one.calls)}
        evidence |= {i: "response" for i, one in enumerate(earlier) if one.id in turn.named}
        found.append([Read(index, evidence[index]) for index in sorted(evidence)])
    return found


def _messages(turn: ProgramTurn, earlier: Sequence[ProgramTurn]) -> Iterator[int]:
    """Yield the turns whose answers are assistant messages of a request, each message's own or newest one."""
    messages: Sequence[Mapping[str, str]] = getattr(turn.observation, "messages", ())
    said = [message["content"] for message in messages if message["role"] == "assistant" and message["content"]]
    left = dict(enumerate(earlier))
    for text in reversed(said):
        alike = [i for i, one in left.items() if text in (one.content, one.action.text)]
        own = [i for i in alike if left[i].agent == turn.agent]
        if alike:
            index = max(own or alike)
            del left[index]
            yield index


def _new_tokens(turns: Sequence[ProgramTurn], index: int) -> frozenset[bytes]:
    """Return the runs of tokens of an answer that nothing before its delivery held."""
    own = turns[index]
    runs = windows(own.action.token_ids)
    for other in turns:
        if runs and other.asked < own.delivered:
            runs = runs - windows(other.action.prompt_ids)
    for other in turns[:index]:
        runs = runs - windows(other.action.token_ids) if runs else runs
    return runs


def windows(ids: IntArray) -> frozenset[bytes]:
    """Return all runs of `LEAST_TOKENS` consecutive tokens."""
    if len(ids) < LEAST_TOKENS:
        return frozenset()
    rows = np.lib.stride_tricks.sliding_window_view(np.ascontiguousarray(ids), LEAST_TOKENS)
    return frozenset(row.tobytes() for row in rows)
