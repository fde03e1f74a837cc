"""Rules, checks and reports of the conformance kit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marft_envs.environment_capabilities import AnyAEC

Make = Callable[..., AnyAEC]


class RuleBrokenError(AssertionError):
    """The environment breaks a rule; the message says what was found."""


class NotApplicable(Exception):  # noqa: N818 - nothing is in error
    """The rule does not apply to this environment; the message says why."""


@dataclass(frozen=True)
class Rule:
    """One rule that an environment must satisfy.

    Attributes:
        name: Required behaviour in a few words.
        check: `check(make, cycles)` makes the environments it needs; raises if the rule is broken, else returns
            its measurement as text (may be empty).
        advice: Advice to fix a failure.
        thorough: Slow (seconds): run only on request.
    """

    name: str
    check: Callable[[Make, int], str]
    advice: str
    thorough: bool = False


@dataclass(frozen=True)
class Check:
    """Result of a rule.

    Attributes:
        name: Name of the rule.
        passed: None: the rule does not apply; `found` says why.
        found: Error or measurement as text.
        advice: Advice to fix the failure; empty if there is none.
    """

    name: str
    passed: bool | None
    found: str = ""
    advice: str = ""

    def __str__(self) -> str:
        word = {True: "ok  ", False: "FAIL", None: "-   "}[self.passed]
        line = f"{word} {self.name}" + (f": {self.found}" if self.found else "")
        return f"{line}\n     to fix: {self.advice}" if self.advice else line


@dataclass(frozen=True)
class Report:
    """All checks of an environment, in the order they ran."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True if no rule failed."""
        return all(check.passed is not False for check in self.checks)

    def __str__(self) -> str:
        return "\n".join(map(str, self.checks))


def require(holds: bool, found: str) -> None:
    """Require that a condition holds.

    Raises:
        RuleBrokenError: It does not.
    """
    if not holds:
        raise RuleBrokenError(found)
