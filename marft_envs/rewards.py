"""Team rewards: a weighted sum of named terms, each a small pure function of the joint trajectory.

    R(episode) = Σ_k w_k · term_k(episode)

The reward is paid to all agents in the step that ends the game; before it they get 0. Every term can be
recomputed from the episode's record, so a logged sum can be checked. Reported success is independent of the weights.

| term | range | meaning |
|---|---|---|
| completion | 0..1 | 1 if the task was solved |
| trajectory | 0..1 | how far the calls follow the reference, in order (the task's own `detail["trajectory"]`) |
| progress | 0..1 | fraction of the goals reached at the end (`detail["progress"]`, else the task's own score) |
| steps | 0..1 | rounds played / horizon |
| tool_errors | 0..1 | fraction of the tool calls that failed or were refused |
| token_cost | 0..1 | tokens written by all agents (4 characters each) / 4096 |
| tool_selection | 0..1 | fraction of the tool calls whose tool the reference uses (`detail["tool_selection"]`) |
| handoff_loops | 0..1 | control passed to and fro between two agents more than twice: 1 − 2/passes of the longest run |
| format | 0..1 | fraction of the turns without a fault |

A term that a task does not define counts 0 and is left out of the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from marft_envs.records.episode import Episode

Term = Callable[[Episode], float | None]

CHARACTERS_PER_TOKEN = 4
TOKEN_BUDGET = 4096
FREE_PASSES = 2


def completion(episode: Episode) -> float:
    """Return 1 if the task was solved, else 0."""
    return float(episode.success)


def trajectory(episode: Episode) -> float | None:
    """Return the degree to which the calls follow the reference; None for tasks without one."""
    return _detail(episode, "trajectory")


def progress(episode: Episode) -> float:
    """Return the fraction of the goals reached; for tasks without goals their own score, between 0 and 1."""
    found = _detail(episode, "progress")
    if found is not None:
        return found
    judged = [outcome for outcome in episode.outcomes if outcome is not None]
    return min(1.0, max(0.0, judged[-1].reward)) if judged else 0.0


def steps(episode: Episode) -> float:
    """Return the rounds played as a fraction of the horizon."""
    return min(1.0, len(episode.outcomes) / max(1, int(episode.settings.get("horizon", 1))))


def tool_errors(episode: Episode) -> float:
    """Return the fraction of the calls that failed; 0 if there was none."""
    calls = _events(episode, "call")
    return sum(call["status"] != "ok" for call in calls) / len(calls) if calls else 0.0


def token_cost(episode: Episode) -> float:
    """Return the tokens written as a fraction of `TOKEN_BUDGET`, at `CHARACTERS_PER_TOKEN` characters a token."""
    written = sum(len(turn.action) for turn in episode.turns)
    return min(1.0, written / (CHARACTERS_PER_TOKEN * TOKEN_BUDGET))


def tool_selection(episode: Episode) -> float | None:
    """Return the fraction of the calls whose tool the reference uses too; None for tasks without a reference."""
    return _detail(episode, "tool_selection")


def handoff_loops(episode: Episode) -> float:
    """Return 0 for up to two passes back and forth, then 1 - 2/passes of the longest such run.

    Examples:
        a→b, b→a, a→b are three passes between a and b: 1 - 2/3.
    """
    longest = longest_exchange([(pass_["agent"], pass_["to"]) for pass_ in _events(episode, "hand_off")])
    return 0.0 if longest <= FREE_PASSES else 1 - FREE_PASSES / longest


def longest_exchange(passes: list[tuple[str, str]]) -> int:
    """Count the passes of the longest run in which control goes back and forth between the same two agents.

    Examples:
        >>> longest_exchange([("a", "b"), ("b", "a"), ("a", "b"), ("b", "c")])
        3
    """
    longest = run = 0
    for place, (giver, taker) in enumerate(passes):
        run = run + 1 if place and passes[place - 1] == (taker, giver) else 1
        longest = max(longest, run)
    return longest


def format_validity(episode: Episode) -> float:
    """Return the fraction of the turns without a fault, also of the calls they hold."""
    if not episode.turns:
        return 1.0
    unread = {(event["round"], event["agent"]) for event in _events(episode, "call") if event["status"] == "unreadable"}
    return sum(not turn.fault and (turn.round, turn.agent) not in unread for turn in episode.turns) / len(episode.turns)


TERMS: Mapping[str, Term] = {
    "completion": completion,
    "trajectory": trajectory,
    "progress": progress,
    "steps": steps,
    "tool_errors": tool_errors,
    "token_cost": token_cost,
    "tool_selection": tool_selection,
    "handoff_loops": handoff_loops,
    "format": format_validity,
}

PRESETS: Mapping[str, Mapping[str, float]] = {
    "recipe": {"completion": 1.0, "trajectory": 0.5, "steps": -0.1, "tool_errors": -0.2, "progress": 0.3},
}


@dataclass(frozen=True)
class TeamReward:
    """A weighted sum of terms.

    Attributes:
        weights: Weights by name of the term; a weight may be negative.
    """

    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError(f"reward: no term; there are {', '.join(TERMS)}")
        for name, weight in self.weights.items():
            if name not in TERMS:
                raise ValueError(f"reward: unknown term {name!r}; there are {', '.join(TERMS)}")
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ValueError(f"reward: the weight of {name!r} is {weight!r}, wanted a finite number")

    @classmethod
    def of(cls, spec: str | Mapping[str, float]) -> TeamReward:
        """Return a preset by name, or a reward of weights.

        Raises:
            ValueError: No such preset or term, or a weight that is no number.
        """
        if isinstance(spec, str):
            if spec not in PRESETS:
                raise ValueError(f"reward: found {spec!r}, wanted one of {', '.join(PRESETS)}, or weights by term")
            spec = PRESETS[spec]
        return cls(dict(spec))

    def terms(self, episode: Episode) -> dict[str, float]:
        """Return the value of each weighted term that the task defines, before weighting."""
        values = {name: TERMS[name](episode) for name in self.weights}
        return {name: value for name, value in values.items() if value is not None}

    def total(self, terms: Mapping[str, float]) -> float:
        """Return the weighted sum of the terms returned by `terms`."""
        return math.fsum(self.weights[name] * value for name, value in terms.items())


def _detail(episode: Episode, key: str) -> float | None:
    found = [outcome.detail.get(key) for outcome in episode.outcomes if outcome is not None]
    return float(found[-1]) if found and isinstance(found[-1], int | float) else None


def _events(episode: Episode, kind: str) -> list[Mapping[str, Any]]:
    return [
        event
        for outcome in episode.outcomes
        if outcome is not None
        for event in outcome.events
        if event.get("kind") == kind
    ]
