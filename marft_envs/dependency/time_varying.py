"""Dependencies that change from round to round: by a list, by a table of conditions, or by a function of the game."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from marft_common.close_names import close_or_all
from marft_envs.dependency.base import Dependency, DependencyError, Roster, RoundPlan, Said, check_reach
from marft_envs.dependency.fixed import Fixed
from marft_envs.dependency.kinds import as_dependency

STATE_KEYS: Mapping[str, str] = {
    "round": "the round that begins, from 0",
    "turn": "turns taken so far",
    "invalid": "faults of the team so far",
    "success": "1 once the task is solved",
    "violation": "1 once the team broke a rule of a safety task",
    "task_index": "place of the task in its set",
    "phase": "phase of the task that the round belongs to, from 0; tasks without phases stay in 0",
    "transcript": "characters of all texts and actions so far that no compaction has replaced",
}
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONDITION = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True)
class Schedule(Dependency):
    """A dependency that changes from round to round.

    Attributes:
        steps: One dependency per round, or per phase of the task.
        after: Rounds or phases after the last step: "repeat" it for ever, or "cycle" through all again.
        by: "round", or "phase" for tasks whose rounds belong to phases (see `STATE_KEYS`).
    """

    steps: tuple[Dependency, ...]
    after: Literal["repeat", "cycle"] = "repeat"
    by: Literal["round", "phase"] = "round"

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan with the step of the round; by phase with the first step, since the phase is not known here."""
        return self._step(round if self.by == "round" else 0).plan(roster, round, turns)

    def given(self, state: Mapping[str, float]) -> Dependency:
        """Return the step of the phase; by round, the schedule with each step told the state."""
        if self.by == "phase":
            return self._step(int(state.get("phase", 0))).given(state)
        # `plan` gets the round and takes the step; a state may lack it. A step may be a table that needs the state.
        return replace(self, steps=tuple(step.given(state) for step in self.steps))

    def _step(self, number: int) -> Dependency:
        return self.steps[number % len(self.steps) if self.after == "cycle" else min(number, len(self.steps) - 1)]

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check all rounds together, as in `Dependency`; if all are independent, no action needs to be seen."""
        used = self.steps[:horizon] if self.by == "round" else self.steps
        fixed = []
        for step in used:
            if isinstance(step, Fixed):
                fixed.append(step)
            else:
                step.check(roster, horizon)
        plans = [step.plan(roster) for step in fixed]  # refuses unknown agents and cycles
        # An action may reach the answer by the edges of several rounds. Rounds that are not fixed may have any edges.
        if len(fixed) == len(used):
            free = all(step.kind == "independent" for step in fixed)
            check_reach(plans, roster, horizon, unheard_allowed=free)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        by = {} if self.by == "round" else {"by": self.by}
        return {"kind": "schedule", "steps": [step.to_dict() for step in self.steps], "after": self.after} | by


def _decimal(number: float) -> str:
    """Return all digits of a number without an exponent, which conditions cannot have."""
    return np.format_float_positional(number, trim="-")


@dataclass(frozen=True)
class Case:
    """A row of a table: the dependency of all rounds that begin in a state that meets the conditions.

    Attributes:
        when: Conditions as (key of `STATE_KEYS`, comparison, number); all must hold.
        use: Dependency of these rounds.
    """

    when: tuple[tuple[str, str, float], ...]
    use: Dependency

    def holds(self, state: Mapping[str, float]) -> bool:
        """Return True if the state meets all conditions."""
        return all(_OPERATORS[comparison](state.get(key, 0), number) for key, comparison, number in self.when)

    @property
    def condition(self) -> str:
        """The conditions in words, such as "round >= 2 and invalid == 1"."""
        return " and ".join(f"{key} {comparison} {_decimal(number)}" for key, comparison, number in self.when)


@dataclass(frozen=True)
class StateTable(Dependency):
    """A dependency chosen from a table at the start of each round.

    Attributes:
        cases: Rows of the table; the first one whose conditions hold is used.
        default: The dependency where no row holds.
    """

    cases: tuple[Case, ...]
    default: Dependency

    def given(self, state: Mapping[str, float]) -> Dependency:
        """Return the dependency of the first row whose conditions hold."""
        for case in self.cases:
            if case.holds(state):
                return case.use.given(state)
        return self.default.given(state)

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan a round of which nothing but its number and its turns is known; all other numbers are 0."""
        begun = sum(turn.round < round for turn in turns)  # turns taken when the round began
        return self.given({"round": round, "turn": begun}).plan(roster, round, turns)

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check each dependency of the table as if all rounds were played with it.

        Raises:
            DependencyError: One of them cannot be played; names its row.
        """
        uses = [(f"if {case.condition}", case.use) for case in self.cases]
        uses.append(("default", self.default))
        for where, use in uses:
            try:
                use.check(roster, horizon)
            except DependencyError as error:
                raise DependencyError(f"by_state, {where}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        rules = []
        for case in self.cases:
            when = {key: f"{comparison} {_decimal(number)}" for key, comparison, number in case.when}
            rules.append({"when": when, "use": case.use.to_dict()})
        return {"kind": "by_state", "rules": rules, "default": self.default.to_dict()}


@dataclass(frozen=True)
class Stateful(Dependency):
    """A dependency chosen by a function of the game so far, at the start of each round.

    Attributes:
        rule: Maps the round (from 0) and all turns of earlier rounds to the dependency of the round. It must
            be pure: a replay calls it again.
    """

    rule: Callable[[int, Sequence[Said]], Dependency]

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Call the rule and plan with the dependency it returns."""
        # Without the turns of this round: a routed one is planned anew after each, and must stay the same dependency.
        earlier = [turn for turn in turns if turn.round < round]
        return self._choose(round, earlier).plan(roster, round, turns)

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check the first round only: the others are not known."""
        self._choose(0, ()).check(roster, 1)

    def _choose(self, round: int, turns: Sequence[Said]) -> Dependency:
        return as_dependency(self.rule(round, turns), f"the rule's answer for round {round}")

    def to_dict(self) -> dict[str, Any]:
        """Raise an error: a rule is code and has no JSON form.

        Raises:
            DependencyError: Always.
        """
        raise DependencyError(f"a dependency with a rule ({self.rule!r}) is code and cannot be written as JSON")


def schedule(
    steps: Iterable[Dependency | str | Mapping[str, Any]], *, after: str = "repeat", by: str = "round"
) -> Schedule:
    """Make a schedule of one dependency for each round, or for each phase of the task.

    Args:
        steps: The dependencies, in order.
        after: After the last step: "repeat" it, or "cycle".
        by: "round" or "phase".

    Raises:
        DependencyError: No list, no step in it, or another word for `after` or `by`.
    """
    if isinstance(steps, str | Mapping) or not isinstance(steps, Iterable):
        raise DependencyError(f"steps: expected a list of dependencies, one for each round, got {steps!r}")
    taken = tuple(as_dependency(step, f"steps[{place}]") for place, step in enumerate(steps))
    if not taken:
        raise DependencyError("a schedule needs at least one step")
    if after not in ("repeat", "cycle"):
        raise DependencyError(f"after the last step of a schedule comes 'repeat' or 'cycle', not {after!r}")
    if by not in ("round", "phase"):
        raise DependencyError(f"a schedule goes by 'round' or by 'phase', not by {by!r}")
    # Spelled out, since mypy does not narrow a str to the literals that it is one of.
    return Schedule(taken, "cycle" if after == "cycle" else "repeat", "phase" if by == "phase" else "round")


def by_state(
    rules: Callable[[int, Sequence[Said]], Dependency] | Iterable[Mapping[str, Any]], default: Any = None
) -> Stateful | StateTable:
    """Let the state of the game choose the dependency of each round.

    Args:
        rules: Rows `{"when": {"round": ">= 2", "invalid": "== 1"}, "use": "chain"}`, of which the first that holds is
            used. Or a pure function of round and turns so far, which has no JSON form.
        default: Dependency where no row holds; none beside a function.

    Raises:
        DependencyError: A row of another form, an unknown number in `when`, or no default.
    """
    if callable(rules):
        if default is not None:
            raise DependencyError("by_state: a function chooses every round, so it takes no default")
        return Stateful(rules)
    if isinstance(rules, str | Mapping) or not isinstance(rules, Iterable):
        raise DependencyError(f"by_state: expected a list of rules or a function of (round, turns), got {rules!r}")
    if default is None:
        raise DependencyError("by_state: give a `default`, the dependency of rounds for which no rule holds")
    cases = tuple(_case(row, f"rules[{place}]") for place, row in enumerate(rules))
    return StateTable(cases, as_dependency(default, "default"))


def _case(row: Any, where: str) -> Case:
    """Read a row of a table from its JSON form; `where` names its place in messages."""
    if not isinstance(row, Mapping) or set(row) != {"when", "use"} or not isinstance(row["when"], Mapping):
        raise DependencyError(f'{where}: found {row!r}, wanted {{"when": {{"round": ">= 2"}}, "use": "chain"}}')
    if not row["when"]:
        raise DependencyError(f"{where}: no condition, so it always holds; make its dependency the default")
    conditions = []
    for key, text in row["when"].items():
        if key not in STATE_KEYS:
            raise DependencyError(f"{where}.when: unknown number {key!r}{close_or_all(str(key), STATE_KEYS)}")
        found = _CONDITION.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise DependencyError(
                f"{where}.when.{key}: found {text!r}, wanted one of {' '.join(_OPERATORS)} and a number, like '>= 2'"
            )
        conditions.append((key, found[1], float(found[2])))
    return Case(tuple(conditions), as_dependency(row["use"], f"{where}.use"))
