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

Terms of your own are functions of the `Episode`, given by import path in the JSON form of a reward:

    {"completion": 1.0, "brevity": {"function": "my_terms:brevity", "weight": -0.1}}

They run in this process, in any thread, and must return a finite number. One that raises or returns anything else fails
the episode with its cause, like a grader that raises.

A game may also be paid by the outcome of each round: "success" (1.0 or 0.0), "outcome" (the task's own score), or a
function of the `Outcome`. `as_reward` makes a `RewardFunction` of each of these forms; the game knows no other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, Protocol, runtime_checkable

from marft_common.hand_off_runs import FREE_PASSES, exchanges
from marft_common.import_paths import imported
from marft_envs.game.episode import Episode
from marft_envs.game.task import JudgeFailure, Outcome

Term = Callable[[Episode], float | None]
OwnTerm = Callable[[Episode], float]

WANTED_TERM = "a function of the Episode that returns a finite number"

CHARACTERS_PER_TOKEN = 4
TOKEN_BUDGET = 4096


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
    passes = [(hand_off["agent"], hand_off["to"]) for hand_off in _events(episode, "hand_off")]
    longest = longest_exchange(passes)
    return 0.0 if longest <= FREE_PASSES else 1 - FREE_PASSES / longest


def longest_exchange(passes: list[tuple[str, str]]) -> int:
    """Count the passes of the longest run in which control goes back and forth between the same two agents.

    Examples:
        >>> longest_exchange([("a", "b"), ("b", "a"), ("a", "b"), ("b", "c")])
        3
    """
    return max((len(exchange) for exchange in exchanges(passes)), default=0)


def format_validity(episode: Episode) -> float:
    """Return the fraction of the turns without a fault, also of the calls they hold."""
    if not episode.turns:
        return 1.0
    calls = _events(episode, "call")
    # Calls that cannot be read are no fault of the turn as the game sees it: only the session reads them.
    unread = {(call["round"], call["agent"]) for call in calls if call["status"] == "unreadable"}
    valid = 0
    for turn in episode.turns:
        if not turn.fault and (turn.round, turn.agent) not in unread:
            valid += 1
    return valid / len(episode.turns)


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


@runtime_checkable
class RewardFunction(Protocol):
    """The reward R of a game."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Weights of the terms that infos and records name; empty for a reward without terms."""

    def pay(
        self, outcome: Outcome | None, episode: Callable[[], Episode], *, ended: bool
    ) -> tuple[float, dict[str, float]]:
        """Return the team reward of a round and the terms it is the sum of.

        Args:
            outcome: Outcome of the round; None if it was not judged.
            episode: Makes the record of the game, this round included; called only where the reward needs it.
            ended: The game ends with this round.
        """

    def to_json(self) -> Any:
        """Return the form that the settings of a game record."""


@dataclass(frozen=True)
class OutcomeReward:
    """A function of the outcome of each round; a round that was not judged pays 0.

    Attributes:
        name: Name for records.
        function: The function; pure.
    """

    name: str
    function: Callable[[Outcome], float]
    weights: ClassVar[Mapping[str, float]] = {}

    def pay(
        self, outcome: Outcome | None, episode: Callable[[], Episode], *, ended: bool
    ) -> tuple[float, dict[str, float]]:
        """Return the function's value and no terms."""
        return 0.0 if outcome is None else float(self.function(outcome)), {}

    def to_json(self) -> str:
        """Return the name."""
        return self.name


def _success(outcome: Outcome) -> float:
    return float(outcome.success)


def _own_score(outcome: Outcome) -> float:
    return outcome.reward


# Named functions, not lambdas: a game is pickled with its reward.
OUTCOME_REWARDS: Mapping[str, OutcomeReward] = {
    "success": OutcomeReward("success", _success),
    "outcome": OutcomeReward("outcome", _own_score),
}


@dataclass(frozen=True)
class TeamReward:
    """A weighted sum of terms.

    Attributes:
        weights: Weights by name of the term; a weight may be negative, and 0 records the term without paying it.
        own: Functions of terms that are not in `TERMS`, or their import paths `module:function`, by name.

    Raises:
        ValueError: No term, an unknown one, a weight that is no number, or an own term that cannot be imported.
    """

    weights: Mapping[str, float]
    own: Mapping[str, OwnTerm | str] = field(default_factory=dict)
    _functions: Mapping[str, OwnTerm] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError(f"reward: no term; there are {', '.join(TERMS)}")
        for name, weight in self.weights.items():
            if name not in TERMS and name not in self.own:
                raise ValueError(
                    f"reward: unknown term {name!r}; there are {', '.join(TERMS)}, and own terms "
                    '{"function": "module:function", "weight": NUMBER}'
                )
            # A weight of `true` would count as 1, and most likely is a mistake.
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
                raise ValueError(f"reward: the weight of {name!r} is {weight!r}, wanted a finite number")
        functions = {name: _own_term(name, term) for name, term in self.own.items()}
        object.__setattr__(self, "_functions", functions)  # once: an import may take long, and the reward is frozen

    @classmethod
    def of(cls, spec: str | Mapping[str, Any]) -> TeamReward:
        """Return a preset by name, or a reward of weights and own terms, the form that `to_dict` returns.

        Raises:
            ValueError: No such preset or term, a weight that is no number, or an own term that cannot be imported.
        """
        if isinstance(spec, str):
            if spec not in PRESETS:
                raise ValueError(f"reward: found {spec!r}, wanted one of {', '.join(PRESETS)}, or weights by term")
            spec = PRESETS[spec]
        weights, own = dict(spec), {}
        for name, value in spec.items():
            if isinstance(value, Mapping):
                if not {"function"} <= value.keys() <= {"function", "weight"}:
                    raise ValueError(
                        f"reward: own term {name!r} has {sorted(value)}, wanted function and perhaps weight"
                    )
                own[name], weights[name] = value["function"], value.get("weight", 1.0)
        return cls(weights, own)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; a function that has no import path is named all the same."""
        plain: dict[str, Any] = {}
        for name, weight in self.weights.items():
            plain[name] = {"function": _path_of(self.own[name]), "weight": weight} if name in self.own else weight
        return plain

    def terms(self, episode: Episode) -> dict[str, float]:
        """Return the value of each weighted term that the task defines, before weighting.

        Raises:
            JudgeFailure: An own term raised, or returned no finite number.
        """
        values: dict[str, float] = {}
        for name in self.weights:
            own = name in self.own
            value = _value_of(name, self._functions[name], episode) if own else TERMS[name](episode)
            if value is not None:  # the task does not define it
                values[name] = value
        return values

    def total(self, terms: Mapping[str, float]) -> float:
        """Return the weighted sum of the terms returned by `terms`."""
        # Exact whatever the order of the terms: a record that lists them in another one gives the same sum.
        return math.fsum(self.weights[name] * value for name, value in terms.items())

    def pay(
        self, outcome: Outcome | None, episode: Callable[[], Episode], *, ended: bool
    ) -> tuple[float, dict[str, float]]:
        """Pay all at the end of the game: a term is a function of the whole trajectory."""
        terms = self.terms(episode()) if ended else {}  # before the end nobody builds the record
        return self.total(terms), terms

    def to_json(self) -> dict[str, Any]:
        """Return the weights and own terms, see `to_dict`."""
        return self.to_dict()


class RecordedReward(TeamReward):
    """The reward of a record: its own terms are named and not imported, since the record has what was paid."""

    def __post_init__(self) -> None:
        """Import nothing."""

    def terms(self, episode: Episode) -> dict[str, float]:
        """Return no term: those of the episode are in the record."""
        return {}


def as_reward(value: Any) -> RewardFunction:
    """Convert a name, weights of terms or a function of the outcome to a reward; a reward stays itself.

    Raises:
        ValueError: It is none of these, or `TeamReward.of` refuses it.
    """
    if isinstance(value, RewardFunction):
        return value
    if callable(value):
        return OutcomeReward(getattr(value, "__qualname__", "code"), value)
    if isinstance(value, Mapping) or (isinstance(value, str) and value in PRESETS):
        return TeamReward.of(value)
    if isinstance(value, str) and value in OUTCOME_REWARDS:
        return OUTCOME_REWARDS[value]
    names = ", ".join(map(repr, (*OUTCOME_REWARDS, *PRESETS)))
    raise ValueError(f"reward: found {value!r}, wanted one of {names}")


def _own_term(name: str, term: Any) -> OwnTerm:
    """Return the function of an own term; refuse a name that metrics cannot have or that is taken."""
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is None or name in TERMS:
        raise ValueError(f"reward: own term {name!r}: wanted a name of letters, digits and '_' that no term has yet")
    if isinstance(term, str):
        try:
            return imported(term, WANTED_TERM)
        except ValueError as error:
            raise ValueError(f"reward: own term {name!r}: {error}") from error
    if not callable(term):
        raise ValueError(f"reward: own term {name!r} is {type(term).__name__}, wanted {WANTED_TERM}, or its path")
    function: OwnTerm = term
    return function


def _value_of(name: str, term: OwnTerm, episode: Episode) -> float:
    """Return the value of an own term; its faults are those of a judge, and fail the episode."""
    where = f"reward term {name!r} on task {episode.task_id!r}"
    try:
        value: Any = term(episode)
    except Exception as error:
        raise JudgeFailure(f"{where}: {type(error).__name__}: {error}") from error
    if not isinstance(value, Real) or not math.isfinite(value):
        raise JudgeFailure(f"{where}: found {value!r}, wanted a finite number")
    return float(value)


def _path_of(term: OwnTerm | str) -> str:
    if isinstance(term, str):
        return term
    kind = term if hasattr(term, "__qualname__") else type(term)  # an object that is called has the path of its class
    return f"{kind.__module__}:{kind.__qualname__}"


def _detail(episode: Episode, key: str) -> float | None:
    """Return a number from the detail of the last judged round; None if it has none."""
    found = [outcome.detail.get(key) for outcome in episode.outcomes if outcome is not None]
    return float(found[-1]) if found and isinstance(found[-1], int | float) else None


def _events(episode: Episode, kind: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for outcome in episode.outcomes:
        if outcome is not None:
            found += [event for event in outcome.events if event.get("kind") == kind]
    return found
