"""Dependencies that change from round to round: by a list, or by a function of the game so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from marft_envs.dependency.base import Dependency, DependencyError, Roster, RoundPlan, Said, check_reach
from marft_envs.dependency.fixed import Fixed
from marft_envs.dependency.kinds import as_dependency


@dataclass(frozen=True)
class Schedule(Dependency):
    """A dependency that changes from round to round.

    Attributes:
        steps: One dependency per round.
        after: Rounds after the last step: "repeat" it for ever, or "cycle" through all again.
    """

    steps: tuple[Dependency, ...]
    after: Literal["repeat", "cycle"] = "repeat"

    def plan(self, roster: Roster, round: int = 0, turns: Sequence[Said] = ()) -> RoundPlan:
        """Plan with the step of the round."""
        place = round % len(self.steps) if self.after == "cycle" else min(round, len(self.steps) - 1)
        return self.steps[place].plan(roster, round, turns)

    def check(self, roster: Roster, horizon: int = 1) -> None:
        """Check all rounds together, as in `Dependency`; if all are independent, no action needs to be seen."""
        used = self.steps[:horizon]
        fixed = [step for step in used if isinstance(step, Fixed)]
        for step in used:
            if step not in fixed:
                step.check(roster, horizon)
        if len(fixed) == len(used):
            free = all(step.kind == "independent" for step in fixed)
            check_reach([step.plan(roster) for step in fixed], roster, horizon, unheard_allowed=free)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"kind": "schedule", "steps": [step.to_dict() for step in self.steps], "after": self.after}


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
        return self._choose(round, [turn for turn in turns if turn.round < round]).plan(roster, round, turns)

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


def schedule(steps: Iterable[Dependency | str | Mapping[str, Any]], *, after: str = "repeat") -> Schedule:
    """Make a schedule of one dependency for each round; `after` the last, "repeat" it or "cycle".

    Raises:
        DependencyError: No list, no step in it, or another word for `after`.
    """
    if isinstance(steps, str | Mapping) or not isinstance(steps, Iterable):
        raise DependencyError(f"steps: expected a list of dependencies, one for each round, got {steps!r}")
    taken = tuple(as_dependency(step, f"steps[{place}]") for place, step in enumerate(steps))
    if not taken:
        raise DependencyError("a schedule needs at least one step")
    if after not in ("repeat", "cycle"):
        raise DependencyError(f"after the last step of a schedule comes 'repeat' or 'cycle', not {after!r}")
    return Schedule(taken, "cycle" if after == "cycle" else "repeat")


def by_state(rule: Callable[[int, Sequence[Said]], Dependency]) -> Stateful:
    """Let a pure function of round and turns so far choose the dependency of each round.

    Raises:
        DependencyError: The rule is no function.
    """
    if not callable(rule):
        raise DependencyError(f"by_state: expected a function of (round, turns), got {rule!r}")
    return Stateful(rule)
