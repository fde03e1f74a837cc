"""Shares of each agent in a team's work, errors and messages, and who blames whom; from the records of its games.

- turns, tokens, calls, errors: the agent's part of the team's sum. Tokens are characters where no policy counts
  tokens. Errors are failed tool calls and faulty actions.
- ignored: of the messages that the agent was shown, the share that left no trace in what it did.
- unheard: of the messages that the agent sent, the share that left no trace in what its receivers did.
- accusations: number of sentences that name a teammate beside a word of fault. Unfounded are those of a teammate
  without an error in an earlier round. Accused counts the accusations of the agent by others.

A *message* is one action shown to one teammate that acts later. Its *content* are its numbers, and its words of four
letters or more, without common words and without those that the receiver is shown elsewhere in the same observation.
It left a trace if any of its content occurs in an action that the receiver takes while it is shown. A message without
content is not counted.

Limits: a receiver may use a message in other words, or agree with it by doing nothing, and is then said to ignore it.
It may also use the same word by chance. Nor is it known whether another message would have changed anything: that is
measured by replay (`marft attribute --messages`). Accusations are found by words, so that a denial counts as one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from marft_agents.trajectory import Trajectory

_CONTENT = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]{4,}")
_SENTENCE = re.compile(r"[.!?\n]+")
_FAULT = re.compile(r"\b(?:wrong|mistakes?|mistaken|errors?|faults?|failed|blame[sd]?|guilty)\b", re.IGNORECASE)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """about after again also another because been before being both could does doing done each even from have
        having here into just more most much must need next once only other over please same should some such than that
        their them then there these they this those through under until very want what when where which while will with
        would your yours""",
    )
)


@dataclass
class WorkShare:
    """Counts of one agent; the shares need the sums of the team.

    Attributes:
        turns: Number of its actions.
        tokens: Sampled tokens, or characters.
        calls: Number of its tool calls.
        errors: Failed tool calls and faulty actions.
        shown: Messages that it was shown.
        ignored: Those without a trace in its actions.
        sent: Messages that it sent: one for each receiver.
        unheard: Those without a trace in the receivers' actions.
        accusations: Sentences that accuse a teammate.
        unfounded: Those of a teammate without an earlier error.
        accused: Accusations of it by others.
    """

    turns: int = 0
    tokens: int = 0
    calls: int = 0
    errors: int = 0
    shown: int = 0
    ignored: int = 0
    sent: int = 0
    unheard: int = 0
    accusations: int = 0
    unfounded: int = 0
    accused: int = 0

    def shares(self, team: WorkShare) -> dict[str, float | None]:
        """Return the shares; None where there is nothing to share."""
        parts = {name: _share(getattr(self, name), getattr(team, name)) for name in _OF_THE_TEAM}
        own = {"ignored": _share(self.ignored, self.shown), "unheard": _share(self.unheard, self.sent)}
        return parts | own


_OF_THE_TEAM = ("turns", "tokens", "calls", "errors")


def work_shares(trajectories: Iterable[Trajectory]) -> dict[str, dict[str, float | None]]:
    """Return the shares and the accusations of each agent that acted, by agent.

    Args:
        trajectories: Episodes; those without a whole record (failed ones, other environments) count nothing.
    """
    recorded = [t for t in trajectories if t.game is not None and "outcomes" in t.game and t.failure is None]
    whole = [t for t in recorded if t.game is not None and all("observation" in turn for turn in t.game["turns"])]
    counted = any(turn.action.num_tokens for t in whole for turn in t.turns)
    agents = defaultdict[str, WorkShare](WorkShare)
    for trajectory in whole:
        for turn in trajectory.turns:
            agents[turn.agent].turns += 1
            agents[turn.agent].tokens += turn.action.num_tokens if counted else len(turn.action.text)
        assert trajectory.game is not None
        _count_errors(trajectory.game, agents)
        _count_messages(trajectory.game, agents)
        _count_accusations(trajectory.game, agents)
    team = WorkShare()
    for name in _OF_THE_TEAM:
        setattr(team, name, sum(getattr(each, name) for each in agents.values()))
    blame = ("accusations", "unfounded", "accused")
    return {
        agent: each.shares(team) | {name: float(getattr(each, name)) for name in blame}
        for agent, each in agents.items()
    }


def _errors(game: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return agent and round of each failed call and each faulty action."""
    found = [(turn["agent"], turn["round"]) for turn in game["turns"] if turn.get("fault")]
    for number, outcome in enumerate(game["outcomes"]):
        for event in () if outcome is None else outcome.get("events", ()):
            if event["kind"] == "call" and event.get("status") != "ok":
                found.append((event.get("agent", ""), number))
    return found


def _count_errors(game: Mapping[str, Any], agents: Mapping[str, WorkShare]) -> None:
    for agent, _ in _errors(game):
        if agent in agents:
            agents[agent].errors += 1
    for outcome in game["outcomes"]:
        for event in () if outcome is None else outcome.get("events", ()):
            if event["kind"] == "call" and event.get("agent") in agents:
                agents[event["agent"]].calls += 1


def _count_messages(game: Mapping[str, Any], agents: Mapping[str, WorkShare]) -> None:
    said = {(turn["round"], turn["agent"]): turn["action"] for turn in game["turns"]}
    left: dict[tuple[int, str, str], set[str]] = {}  # (round, author, receiver) -> content
    traces: set[tuple[int, str, str]] = set()
    for turn in game["turns"]:
        used = set(content(turn["action"]))
        messages = [(round, author, turn["agent"]) for round, author in turn["visible"]]
        shown = content(turn["observation"]) if any(message not in left for message in messages) else Counter[str]()
        for message in messages:
            if message not in left:
                words = content(said.get(message[:2], ""))
                left[message] = {word for word, count in words.items() if shown[word] <= count}  # nowhere else
            if left[message] & used:
                traces.add(message)
    for message, new in left.items():
        if new:
            sender, receiver = agents[message[1]], agents[message[2]]
            sender.sent, receiver.shown = sender.sent + 1, receiver.shown + 1
            if message not in traces:
                sender.unheard, receiver.ignored = sender.unheard + 1, receiver.ignored + 1


def _count_accusations(game: Mapping[str, Any], agents: Mapping[str, WorkShare]) -> None:
    errors = _errors(game)
    for turn in game["turns"]:
        for sentence in _SENTENCE.split(turn["action"]):
            if not _FAULT.search(sentence):
                continue
            for other in agents:
                if other != turn["agent"] and re.search(rf"\b{re.escape(other)}\b", sentence):
                    agents[turn["agent"]].accusations += 1
                    agents[other].accused += 1
                    founded = any(agent == other and round < turn["round"] for agent, round in errors)
                    agents[turn["agent"]].unfounded += not founded


def content(text: str) -> Counter[str]:
    """Count the numbers and the longer words of a text, without common words.

    Examples:
        >>> content("Then the total is 12, please use 12 boxes")
        Counter({'12': 2, 'total': 1, 'boxes': 1})
    """
    return Counter(word for word in _CONTENT.findall(text.casefold()) if word not in _COMMON)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
