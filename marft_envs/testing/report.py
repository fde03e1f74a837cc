"""What a conformance check is, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pettingzoo import AECEnv

AnyAEC = AECEnv[Any, Any, Any]
Make = Callable[..., AnyAEC]


class RuleBrokenError(AssertionError):
    """The environment breaks a rule; the message says what was found."""


class NotApplicable(Exception):  # noqa: N818 - nothing is in error
    """The rule says nothing about this environment; the message says why."""


@dataclass(frozen=True)
class Rule:
    """One thing that an environment must hold to.

    Attributes:
        name: What must hold, in a few words.
        check: `check(make, cycles)` makes the environments it needs; raises where the rule is broken, else returns
            what it measured (empty: nothing to tell).
        mend: What to do about it.
        thorough: It takes seconds: run only where asked for.
    """

    name: str
    check: Callable[[Make, int], str]
    mend: str
    thorough: bool = False


@dataclass(frozen=True)
class Check:
    """What a rule found.

    Attributes:
        name: Of the rule.
        passed: None: the rule does not apply; `found` says why.
        found: What was wrong, or measured.
        mend: What to do; empty where nothing is.
    """

    name: str
    passed: bool | None
    found: str = ""
    mend: str = ""

    def __str__(self) -> str:
        word = {True: "ok  ", False: "FAIL", None: "-   "}[self.passed]
        line = f"{word} {self.name}" + (f": {self.found}" if self.found else "")
        return f"{line}\n     to mend: {self.mend}" if self.mend else line


@dataclass(frozen=True)
class Report:
    """All checks of an environment, in the order they ran."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """None failed."""
        return all(check.passed is not False for check in self.checks)

    def __str__(self) -> str:
        return "\n".join(map(str, self.checks))


def require(holds: bool, found: str) -> None:
    """Require that something holds.

    Raises:
        RuleBrokenError: It does not.
    """
    if not holds:
        raise RuleBrokenError(found)
